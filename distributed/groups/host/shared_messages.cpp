#include <tandem/core/base/check.h>
#include <tandem/core/base/deadline.h>
#include <tandem/distributed/groups/host/shared_messages.h>

#include <atomic>
#include <cstring>

namespace tandem::distributed {
namespace {

constexpr std::size_t most_unread = 1024;  // the limit of messages from one rank to another that have not been received

struct Message {
  std::atomic<std::uint64_t> offset;
  std::atomic<std::uint64_t> bytes;
  std::atomic<std::uint32_t> received;
};

// The sender's segment already holds the message, so the transfer is done from the start.
class Posted : public Transfer {
 public:
  bool is_done() override { return true; }
  void wait(Deadline) override {}
};

}  // namespace

struct SharedMessages::Mailbox {
  SharedCounter written;
  Message messages[most_unread];  // a ring

  Message& message(std::uint32_t index) { return messages[index % most_unread]; }
};

class SharedMessages::Receipt : public Transfer {
 public:
  Receipt(const SharedMessages& all, int from, std::uint32_t index, void* data, std::size_t bytes)
      : peers_(all.peers_),
        segment_(all.segments_[static_cast<std::size_t>(from)]),
        mailbox_(all.mailbox(from, all.rank_)),
        from_(from),
        index_(index),
        data_(data),
        bytes_(bytes) {}

  bool is_done() override { return mailbox_.written.reached(index_ + 1); }

  void wait(Deadline deadline) override {
    peers_.await(from_, mailbox_.written, index_ + 1, {0, "", deadline, true});
    Message& message = mailbox_.message(index_);
    const std::uint64_t sent = message.bytes.load(std::memory_order_relaxed);
    const std::uint64_t offset = message.offset.load(std::memory_order_relaxed);
    if (sent == bytes_) std::memcpy(data_, segment_->at(offset, bytes_), bytes_);
    message.received.store(1, std::memory_order_release);
    TANDEM_CHECK(sent == bytes_, "it has ", sent, " bytes, the array that is to receive it ", bytes_);
  }

 private:
  const HostPeers& peers_;
  const std::shared_ptr<SharedSegment> segment_;
  Mailbox& mailbox_;
  const int from_;
  const std::uint32_t index_;
  void* const data_;
  const std::size_t bytes_;
};

std::size_t SharedMessages::bytes(int size) { return sizeof(Mailbox) * static_cast<std::size_t>(size); }

SharedMessages::SharedMessages(int rank, const HostPeers& peers, std::vector<std::shared_ptr<SharedSegment>> segments,
                               std::size_t offset)
    : rank_(rank),
      peers_(peers),
      segments_(std::move(segments)),
      offset_(offset),
      outbox_(segments_.size()),
      received_(segments_.size()) {}

SharedMessages::Mailbox& SharedMessages::mailbox(int from, int to) const {
  return reinterpret_cast<Mailbox*>(segments_[static_cast<std::size_t>(from)]->base() + offset_)[to];
}

std::unique_ptr<Transfer> SharedMessages::send(const void* data, std::size_t bytes, int to) {
  SharedSegment& own = *segments_[static_cast<std::size_t>(rank_)];
  Outbox& outbox = outbox_[static_cast<std::size_t>(to)];
  Mailbox& box = mailbox(rank_, to);
  while (!outbox.unread.empty() &&
         box.message(outbox.unread.front().index).received.load(std::memory_order_acquire) != 0) {
    own.free(outbox.unread.front().offset);
    outbox.unread.pop_front();
  }
  TANDEM_CHECK(outbox.unread.size() < most_unread, "rank ", to, " has not received the last ", most_unread,
               " messages that rank ", rank_, " sent it");
  const std::size_t offset = own.allocate(bytes);
  std::memcpy(own.base() + offset, data, bytes);
  Message& message = box.message(outbox.written);
  message.offset.store(offset, std::memory_order_relaxed);
  message.bytes.store(bytes, std::memory_order_relaxed);
  message.received.store(0, std::memory_order_relaxed);
  outbox.unread.push_back({outbox.written, offset});
  box.written.raise(++outbox.written);
  return std::make_unique<Posted>();
}

std::unique_ptr<Transfer> SharedMessages::receive(void* data, std::size_t bytes, int from) {
  return std::make_unique<Receipt>(*this, from, received_[static_cast<std::size_t>(from)]++, data, bytes);
}

}  // namespace tandem::distributed
