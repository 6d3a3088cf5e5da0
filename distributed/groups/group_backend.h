// GroupBackend: how the ranks of a process group communicate.
#pragma once

#include <tandem/core/base/enum_names.h>

namespace tandem::distributed {

// gloo, shm and mpi communicate from host memory, and arrays on a GPU are copied through it.
enum class GroupBackend {
  automatic,  // nccl if the ranks compute on GPUs; else shm if all ranks share a host; else gloo
  gloo,       // TCP
  shm,        // memory that the ranks of one host share
  mpi,        // the MPI that started the processes (mpirun, srun --mpi=...), if the build has MPI
  nccl        // between GPUs; arrays in host memory go through a host group, whose backend is automatic
};

}  // namespace tandem::distributed

template <>
struct tandem::EnumNames<tandem::distributed::GroupBackend> {
  using B = distributed::GroupBackend;
  static constexpr NamedValue<B> all[] = {
      {"auto", B::automatic}, {"gloo", B::gloo}, {"shm", B::shm}, {"mpi", B::mpi}, {"nccl", B::nccl}};
};
