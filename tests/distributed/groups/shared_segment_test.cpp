// Tests how a rank checks the memory that another rank gives it.
#include <tandem/core/base/check.h>
#include <tandem/core/ops.h>
#include <tandem/distributed/groups/host/host_group.h>
#include <tandem/distributed/groups/host/peer_links.h>
#include <tandem/distributed/groups/host/shared_messages.h>
#include <tandem/distributed/groups/host/shared_segment.h>
#include <tandem/distributed/job/observers.h>
#include <tandem/distributed/store/tcp_store.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace tandem::distributed {
namespace {

using std::chrono::seconds;

constexpr std::size_t segment_bytes = std::size_t{1} << 20;

FileDescriptor copy_of(const FileDescriptor& file) { return FileDescriptor(fcntl(file.get(), F_DUPFD_CLOEXEC, 0)); }

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(SharedSegment, KeepsItsSize) {
  const SharedSegment segment(segment_bytes);
  EXPECT_NE(ftruncate(segment.file().get(), 4096), 0);
  EXPECT_NE(ftruncate(segment.file().get(), 2 * segment_bytes), 0);
  const SharedSegment theirs(copy_of(segment.file()), segment_bytes, "rank 1");
  theirs.base()[segment_bytes - 1] = 7;
  EXPECT_EQ(segment.base()[segment_bytes - 1], 7);
}

TEST(SharedSegment, RefusesWhatCouldShrinkIsTooSmallOrIsNoSegment) {
  FileDescriptor unsealed(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), segment_bytes), 0);
  expect_part(message_of([&] { SharedSegment(std::move(unsealed), 4096, "rank 1"); }),
              "the segment that rank 1 sent is not sealed");

  const SharedSegment small(4096);
  expect_part(message_of([&] { SharedSegment(copy_of(small.file()), 8192, "rank 1"); }),
              "the segment that rank 1 sent has 4096 bytes, at least 8192 are needed");

  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const FileDescriptor other_end(ends[1]);
  expect_part(message_of([&] { SharedSegment(FileDescriptor(ends[0]), 4096, "rank 1"); }),
              "the file that rank 1 sent is not a segment");
}

TEST(SharedSegment, NamesTheOwnerOfAnOffsetThatLiesOutside) {
  const SharedSegment segment(segment_bytes);
  const SharedSegment theirs(copy_of(segment.file()), 0, "rank 1");
  EXPECT_EQ(theirs.at(segment_bytes - 8, 8), theirs.base() + segment_bytes - 8);
  EXPECT_EQ(theirs.at(segment_bytes, 0), theirs.base() + segment_bytes);
  for (const std::uint64_t offset : {segment_bytes - 7, segment_bytes + 1, ~std::uint64_t{0}, ~std::uint64_t{0} - 7})
    expect_part(message_of([&] { theirs.at(offset, 8); }), "rank 1 says that 8 bytes lie at " + std::to_string(offset));
  EXPECT_THROW(theirs.at(0, ~std::size_t{0}), Error);
  EXPECT_THROW(theirs.at(6, 8, 4), Error);
}

TEST(SharedMessages, NamesTheRankWhoseMessageLiesOutside) {
  const auto mine = std::make_shared<SharedSegment>(segment_bytes);
  const auto theirs = std::make_shared<SharedSegment>(segment_bytes);
  mine->allocate(SharedMessages::bytes(2));
  theirs->allocate(SharedMessages::bytes(2));
  const auto seen = std::make_shared<SharedSegment>(copy_of(theirs->file()), 0, "rank 1");
  std::vector<FileDescriptor> none(2);
  const HostPeers peers_of_0(0, std::move(none)), peers_of_1(1, {});
  SharedMessages rank_0(0, peers_of_0, {mine, seen}, 0), rank_1(1, peers_of_1, {mine, theirs}, 0);

  std::uint64_t value = 42, got = 0;
  const std::uint64_t offset = theirs->allocate(64);  // the future place of the message
  theirs->free(offset);
  rank_1.send(&value, sizeof value, 0);
  int changed = 0;
  for (std::size_t at = 0; at < SharedMessages::bytes(2); at += sizeof offset) {
    if (std::memcmp(theirs->base() + at, &offset, sizeof offset) != 0) continue;
    const std::uint64_t outside = std::uint64_t{1} << 46;
    std::memcpy(theirs->base() + at, &outside, sizeof outside);
    ++changed;
  }
  ASSERT_EQ(changed, 1);
  const auto receipt = rank_0.receive(&got, sizeof got, 1);
  expect_part(message_of([&] { receipt->wait(RunningTime::now() + seconds(10)); }), "rank 1 says that 8 bytes lie at");
}

// A process that joins the group as rank 1, and writes anything to its segment. The segment begins with a counter and
// two headers, one for operations with even numbers and one for those with odd numbers.
struct HostileHeader {
  std::uint64_t offset;
  char signature[248];
};
struct HostileControl {
  SharedCounter progress;
  HostileHeader headers[2];
};

// Returns rank 0's error if rank 1 passes its header to `change` before it announces the header. Until then, the header
// has the right signature.
std::string error_beside(const std::function<void(HostileHeader&)>& change) {
  TcpStoreServer server({});
  const TcpStore::Options options{.port = server.port(), .timeout = seconds(20)};
  std::string error;
  std::thread rank_0([&] {
    error = message_of([&] {
      const auto group = host_group(
          std::make_shared<TcpStore>(options),
          {.rank = 0, .size = 2, .timeout = seconds(20), .backend = GroupBackend::shm, .observers = usual_observers()});
      group->all_reduce(ops::ones({10}))->wait();
    });
  });
  TcpStore store(options);
  const auto members = collect_members(store, 1, 2, {.rank = 1, .backend = "shm"}, seconds(20));
  const SharedSegment own(segment_bytes);
  auto links = link_peers(store, 1, members, own.file(), RunningTime::now() + seconds(20));
  const SharedSegment theirs(std::move(links[0].file), sizeof(HostileControl), "rank 0");
  auto& hostile = *reinterpret_cast<HostileControl*>(own.base());
  auto& honest = *reinterpret_cast<HostileControl*>(theirs.base());
  while (!honest.progress.reached(2)) std::this_thread::yield();
  hostile.headers[1] = honest.headers[1];
  change(hostile.headers[1]);
  hostile.progress.raise(2);
  rank_0.join();
  return error;
}

TEST(SharedMemory, NamesTheRankWhoseArrayLiesOutside) {
  const auto error = error_beside([](HostileHeader& header) { header.offset = std::uint64_t{1} << 46; });
  expect_part(error, "rank 1 (");
  expect_part(error, "says that 40 bytes lie at 70368744177664 of its segment");
}

TEST(SharedMemory, ASignatureWithoutAnEndEndsWithItsRoom) {
  const auto error = error_beside([](HostileHeader& header) {
    std::memset(header.signature, 'x', 2 * sizeof header.signature);  // and beyond its end
  });
  expect_part(error, "the ranks do not run the same operations");
  EXPECT_EQ(error.find(std::string(249, 'x')), std::string::npos);
  expect_part(error, std::string(248, 'x'));
}

}  // namespace
}  // namespace tandem::distributed
