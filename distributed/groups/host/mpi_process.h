// Mpi: MPI as this process has it, for the mpi backend alone.
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

// Throws where `code` is not MPI_SUCCESS: what was done, and MPI's words.
void check_mpi(int code, const char* what);

// Memory that MPI reads and writes until the requests are done.
struct Pending {
  MPI_Request collective = MPI_REQUEST_NULL, to_next = MPI_REQUEST_NULL, from_previous = MPI_REQUEST_NULL;
  std::vector<Array> arrays;
  Array joined;                            // one array for each rank in a row
  std::array<char, 248> mine{}, theirs{};  // signatures of operations
};

// Bytes on their way, which MPI reads or writes until the request is done.
struct Message {
  MPI_Request request = MPI_REQUEST_NULL;
  std::unique_ptr<char[]> bytes;
};

// A thread that calls MPI holds this mutex: one thread at a time may be in MPI. lock() throws an Error once a call of
// MPI has not come back in time and was given up: no thread can call MPI any more.
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

// MPI in this process: started with the first group, ended when the process exits.
class Mpi {
 public:
  static Mpi& get();

  MpiMutex mutex;                                 // also held to use any of the members below
  std::list<std::unique_ptr<Pending>> abandoned;  // MPI may write there as long as the process lives
  std::list<Message> in_flight;                   // sent, or received without a receiver

  MPI_Datatype type(DType dtype) const { return types_.at(static_cast<std::size_t>(dtype)); }
  DType dtype(MPI_Datatype type) const;
  MPI_Op op(ReduceOp op) const;

  // `data` is copied: the caller may write there at once.
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
