// The launchers of MPI. Their variables tell a process its rank, even if Gloo or shared memory connects the ranks.
#include <tandem/distributed/job/launcher_kind.h>

#include <unistd.h>

#include <functional>

namespace tandem::distributed {
namespace {

struct MpiVariables {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};
constexpr MpiVariables mpi_launchers[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MVAPICH2", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE"},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
};

// Returns the launcher through which MPI started this process, such as srun --mpi=pmi2, or null.
const LauncherKind* kind_around(const Variables& variables) {
  for (const auto& kind : launcher_kinds.entries()) {
    if (kind.read_hosts && kind.has_started(variables)) return &kind;
  }
  return nullptr;
}

Environment read_mpi(const Variables& variables, const MpiVariables& names) {
  Environment result;
  result.launcher = names.launcher;
  result.world_size = variables.number(names.size, 1, Variables::any);
  result.rank = variables.number(names.rank, 0, result.world_size - 1);
  if (variables.is_set(names.local_rank) && variables.is_set(names.local_size)) {
    result.local_world_size = variables.number(names.local_size, 1, result.world_size);
    result.local_rank = variables.number(names.local_rank, 0, result.local_world_size - 1);
    // If there are several hosts, MPI does not number them.
    result.knows_host = result.local_world_size == result.world_size;
  } else if (const auto* kind = kind_around(variables)) {
    kind->read_hosts(variables, result);
  } else {
    result.knows_host = result.world_size == 1;
  }
  result.master_port = 29500;
  if (is_one_host(result)) {
    result.master_addr = "127.0.0.1";
    // All ranks of one mpirun compute the same port, and two jobs seldom share a port.
    const auto job = variables.first_of({"PMIX_NAMESPACE", "OMPI_MCA_orte_hnp_uri"});
    const auto number = job.empty() ? static_cast<std::size_t>(getppid()) : std::hash<std::string>()(job);
    result.master_port = port_for(number, 0);
  }
  return result;
}

}  // namespace
}  // namespace tandem::distributed

namespace tandem {

void add_mpirun() {
  using namespace distributed;
  for (const auto& names : mpi_launchers) {
    launcher_kinds.add(
        {[&names](const Variables& variables) { return variables.is_set(names.rank) || variables.is_set(names.size); },
         [&names](const Variables& variables) { return read_mpi(variables, names); },
         {}});
  }
}

}  // namespace tandem
