// HostTransport: how the ranks of a HostGroup move bytes. One implementation for each kind of connection.
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

// A peer's connection ended, or its process did.
struct PeerGone : Error {
  PeerGone(int rank, const std::string& text) : Error(text), rank(rank) {}
  int rank;
};

// Peers that did not come in time.
struct PeersLate : Error {
  explicit PeersLate(std::vector<int> ranks) : Error("timeout"), ranks(std::move(ranks)) {}
  std::vector<int> ranks;
};

// A peer has started another operation than this rank.
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
  // True if this thread may watch for its peers without sleeping. A thread that waits for the result has nothing else
  // to do and may. The communication thread must leave its core to the computation.
  bool may_spin;
};

// A message between two ranks, under way.
class Transfer {
 public:
  virtual ~Transfer() = default;
  virtual bool is_done() = 0;
  virtual void wait(Deadline deadline) = 0;
};

// One thread at a time calls a transport, with two exceptions: send() and receive() may be called while another thread
// is in run(), and break_off() at any time.
class HostTransport {
 public:
  virtual ~HostTransport() = default;
  virtual const char* name() const = 0;

  // Runs a collective to its end. Its arrays are contiguous and in host memory. Throws one of the errors above, or
  // another Error.
  virtual void run(const Operation& operation, const Call& call) = 0;

  // Begins a message. `data` is copied, so that two ranks that first send and then receive don't wait for each other.
  virtual std::unique_ptr<Transfer> send(const void* data, std::size_t bytes, int to) = 0;
  // `data` stays alive until the transfer is destroyed.
  virtual std::unique_ptr<Transfer> receive(void* data, std::size_t bytes, int from) = 0;

  // Makes whatever runs now fail soon. Any thread.
  virtual void break_off() noexcept = 0;

  // An array of zeros, in memory from which run() can work without copying the array first.
  virtual Array allocate(const Shape& shape, DType dtype) { return ops::zeros(shape, dtype); }
};

struct GroupOptions;

std::unique_ptr<HostTransport> gloo_transport(std::shared_ptr<Store> store, const Members& members,
                                              const GroupOptions& options);
// Why this process can't have the segments of a group of `size` ranks, in one line; empty: it can.
std::string shared_memory_problem(int size);
std::unique_ptr<HostTransport> shared_memory_transport(Store& store, const Members& members,
                                                       const GroupOptions& options);

// A transport of an annex, for the groups that ask for it: MPI's.
struct HostTransportKind {
  GroupBackend backend;
  std::function<std::unique_ptr<HostTransport>(Store& store, const Members& members, const GroupOptions& options)> make;
};
AnnexList<HostTransportKind>& host_transports();

}  // namespace tandem::distributed
