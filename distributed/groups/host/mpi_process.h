// Mpi: this process's connection to MPI. Only the mpi backend uses it.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/distributed/groups/process_group.h>

#include <mpi.h>

#include <array>
#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

namespace tandem::distributed {

// Throws an Error with `what` and MPI's text unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* what);

// Memory that MPI reads and writes until the requests are done.
struct Pending {
  MPI_Request collective = MPI_REQUEST_NULL, to_next = MPI_REQUEST_NULL, from_previous = MPI_REQUEST_NULL;
  std::vector<Array> arrays;
  Array joined;                            // the arrays of all ranks, one after the other
  std::array<char, 248> mine{}, theirs{};  // signatures of operations
};

// The bytes of a message. MPI reads or writes them until the request is done.
struct Message {
  MPI_Request request = MPI_REQUEST_NULL;
  std::unique_ptr<char[]> bytes;
};

// A thread holds this mutex while it calls MPI, because only one thread at a time may be in MPI. If a call of MPI does
// not return in time, its thread is abandoned. No thread can then call MPI any more, and lock() throws an Error.
class MpiMutex {
 public:
  void lock();
  void unlock() { mutex_.unlock(); }
  void give_up() { is_given_up_ = true; }
  bool is_given_up() const { return is_given_up_; }

 private:
  std::timed_mutex mutex_;
  std::atomic<bool> is_given_up_ = false;
};

// MPI in this process. The first group initialises MPI, and it is finalised when the process exits.
class Mpi {
 public:
  static Mpi& get();

  MpiMutex mutex;                                 // also guards all members below
  std::list<std::unique_ptr<Pending>> abandoned;  // MPI may write there as long as the process lives
  std::list<Message> in_flight;                   // messages being sent, and receives whose Transfer is gone

  MPI_Datatype type(DType dtype) const { return types_.at(static_cast<std::size_t>(dtype)); }
  DType dtype(MPI_Datatype type) const;
  MPI_Op op(ReduceOp op) const;

  // Copies `data`, so the caller may overwrite it at once.
  void send(const void* data, std::size_t bytes, int to, int tag, MPI_Comm comm);

  void add_group() { ++groups_; }
  void remove_group(bool has_failed) {
    --groups_;
    failed_ |= has_failed;
    end();
  }

 private:
  Mpi();
  void end();

  std::array<MPI_Datatype, static_cast<std::size_t>(DType::boolean) + 1> types_{};
  MPI_Op sum_{}, min_{}, max_{}, product_{};
  int groups_ = 0;
  bool failed_ = false;
  bool exits_ = false;
};

}  // namespace tandem::distributed
