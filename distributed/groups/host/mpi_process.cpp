#ifdef TANDEM_HAS_MPI
#include <tandem/core/base/check.h>
#include <tandem/distributed/groups/host/mpi_process.h>
#include <tandem/distributed/groups/host/reduce_function.h>

#include <chrono>
#include <cstdlib>
#include <cstring>

namespace tandem::distributed {
namespace {

template <ReduceOp op>
void reduce_into(void* lower, void* inout, int* count, MPI_Datatype* type) {
  const void* sources[] = {lower, inout};
  reduce_function(Mpi::get().dtype(*type), op)(inout, sources, 2, static_cast<std::size_t>(*count));
}

}  // namespace

void check_mpi(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  detail::fail("MPI, ", what, ": ", text);
}

void MpiMutex::lock() {
  while (!mutex_.try_lock_for(std::chrono::milliseconds(100)))
    TANDEM_CHECK(!is_given_up_, "an earlier call of MPI has not returned");
}

Mpi& Mpi::get() {
  static Mpi& mpi = *new Mpi;  // never destroyed: a group may be destroyed after other static objects
  return mpi;
}

Mpi::Mpi() {
  int is_initialized = 0, level = 0;
  MPI_Initialized(&is_initialized);
  if (is_initialized == 0) {
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "start");
    std::atexit([] {
      try {
        const std::lock_guard lock(get().mutex);
        get().exits_ = true;
        get().end();
      } catch (const std::exception&) {  // an earlier call of MPI never returned, so MPI cannot be finalized
      }
    });
  } else {
    MPI_Query_thread(&level);
  }
  TANDEM_CHECK(level >= MPI_THREAD_SERIALIZED, "this MPI allows calls from its main thread only (level ", level,
               "), a process group makes them from several, one at a time: ",
               is_initialized != 0 ? "start it with MPI_Init_thread(..., MPI_THREAD_SERIALIZED, ...)"
                                   : "install one with MPI_THREAD_SERIALIZED");
  // MPI has no types for 16-bit floats, and its bool differs. These types only have the right number of bytes, and
  // reduce_into() interprets them.
  for (std::size_t i = 0; i < types_.size(); ++i) {
    MPI_Type_contiguous(static_cast<int>(size_of(static_cast<DType>(i))), MPI_BYTE, &types_[i]);
    MPI_Type_commit(&types_[i]);
  }
  MPI_Op_create(&reduce_into<ReduceOp::sum>, 1, &sum_);
  MPI_Op_create(&reduce_into<ReduceOp::min>, 1, &min_);
  MPI_Op_create(&reduce_into<ReduceOp::max>, 1, &max_);
  MPI_Op_create(&reduce_into<ReduceOp::product>, 1, &product_);
}

DType Mpi::dtype(MPI_Datatype type) const {
  std::size_t i = 0;
  while (types_[i] != type) ++i;
  return static_cast<DType>(i);
}

// The arrays have already been scaled for a mean, so it is a sum here.
MPI_Op Mpi::op(ReduceOp op) const {
  switch (op) {
    case ReduceOp::min: return min_;
    case ReduceOp::max: return max_;
    case ReduceOp::product: return product_;
    default: return sum_;
  }
}

void Mpi::send(const void* data, std::size_t bytes, int to, int tag, MPI_Comm comm) {
  in_flight.remove_if([](Message& message) {
    int done = 0;
    return MPI_Test(&message.request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done != 0;
  });
  Message& message = in_flight.emplace_back();
  message.bytes = std::make_unique_for_overwrite<char[]>(bytes);
  std::memcpy(message.bytes.get(), data, bytes);
  check_mpi(MPI_Isend(message.bytes.get(), static_cast<int>(bytes), MPI_BYTE, to, tag, comm, &message.request), "send");
}

// MPI_Finalize waits for all processes of the job. A process whose group has failed therefore exits without calling it,
// and mpirun then ends the other processes.
void Mpi::end() {
  if (exits_ && groups_ == 0 && !failed_ && !mutex.is_given_up()) MPI_Finalize();
}

}  // namespace tandem::distributed

#endif
