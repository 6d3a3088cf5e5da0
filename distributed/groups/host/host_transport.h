// HostTransport: the interface through which the ranks of a HostGroup move bytes. Each kind of connection implements
// it.
#pragma once

#include <tandem/core/base/deadline.h>
#include <tandem/core/ops/create.h>
#include <tandem/distributed/groups/group_backend.h>
#include <tandem/distributed/groups/members.h>
#include <tandem/distributed/groups/process_group.h>
#include <tandem/distributed/system/annexes.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace tandem::distributed {

// Thrown when a peer's connection or process has ended.
struct PeerGone : Error {
  PeerGone(int rank, const std::string& text) : Error(text), rank(rank) {}
  int rank;
};

// Thrown when peers do not arrive before the deadline.
struct PeersLate : Error {
  explicit PeersLate(std::vector<int> ranks) : Error("timeout"), ranks(std::move(ranks)) {}
  std::vector<int> ranks;
};

// Thrown when a peer has started a different operation than this rank.
struct PeerDiffers : Error {
  PeerDiffers(int rank, std::string theirs) : Error(theirs), rank(rank), theirs(std::move(theirs)) {}
  int rank;
  std::string theirs;
};

// One run of an operation.
struct Call {
  std::uint64_t sequence;  // 1, 2, 3, ... for the collectives of a group: the same on all ranks
  const std::string& signature;
  Deadline deadline;
  // Whether this thread may spin while it waits for its peers. A thread that waits for the result may, because it has
  // nothing else to do. The communication thread must leave its core to the computation.
  bool may_spin;
};

// A message between two ranks, from its start until it has been sent or received.
class Transfer {
 public:
  virtual ~Transfer() = default;
  virtual bool is_done() = 0;
  virtual void wait(Deadline deadline) = 0;
};

// Only one thread at a time may call a transport, with these exceptions: send(), receive() and allocate() may be called
// while another thread is in run(), and break_off() may be called at any time.
class HostTransport {
 public:
  virtual ~HostTransport() = default;
  virtual const char* name() const = 0;

  // Runs a collective to its end. The arrays are contiguous and in host memory. Throws one of the errors above, or
  // another Error.
  virtual void run(const Operation& operation, const Call& call) = 0;

  // Starts to send a message. It copies `data`, so two ranks that both send first and receive second don't deadlock.
  virtual std::unique_ptr<Transfer> send(const void* data, std::size_t bytes, int to) = 0;
  // Starts to receive a message. The caller keeps `data` alive until the transfer is destroyed.
  virtual std::unique_ptr<Transfer> receive(void* data, std::size_t bytes, int from) = 0;

  // Makes all running operations fail soon. Any thread may call it.
  virtual void break_off() noexcept = 0;

  // Returns an array of zeros, in memory that run() can use without copying the array first.
  virtual Array allocate(const Shape& shape, DType dtype) { return ops::zeros(shape, dtype); }
};

struct GroupOptions;

std::unique_ptr<HostTransport> gloo_transport(std::shared_ptr<Store> store, const Members& members,
                                              const GroupOptions& options);
// Returns one line that says why this process can't map the segments of a group of `size` ranks, or an empty string if
// it can.
std::string shared_memory_problem(int size);
std::unique_ptr<HostTransport> shared_memory_transport(Store& store, const Members& members,
                                                       const GroupOptions& options);

// A transport that an annex adds, for groups with this backend: MPI's.
struct HostTransportKind {
  GroupBackend backend;
  std::function<std::unique_ptr<HostTransport>(Store& store, const Members& members, const GroupOptions& options)> make;
};
inline constinit AnnexList<HostTransportKind> host_transports{add_distributed_annexes};

}  // namespace tandem::distributed
