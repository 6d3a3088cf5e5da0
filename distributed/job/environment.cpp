#include <tandem/core/base/check.h>
#include <tandem/core/base/number_in.h>
#include <tandem/distributed/job/environment.h>
#include <tandem/distributed/job/launcher_kind.h>
#include <tandem/distributed/job/store_token.h>
#include <tandem/distributed/system/host_identity.h>

#include <algorithm>
#include <string_view>

namespace tandem::distributed {

std::string Variables::text(const char* name) const {
  const char* value = variable_(name);
  return value ? value : "";
}

int Variables::number(const char* name, int low, int high) const {
  const auto value = text(name);
  TANDEM_CHECK(!value.empty(), name,
               " is not set, though other variables of the same launcher are: start the program with tandemrun, "
               "torchrun, mpirun or srun, or alone with none of them set");
  const auto number = number_in(value, low, high);
  TANDEM_CHECK(number, name, " is \"", value, "\", expected a number ", high == any ? "of at least " : "from ", low,
               high == any ? "" : " to " + std::to_string(high),
               ": start the program with tandemrun or torchrun, or unset it");
  return *number;
}

bool Variables::truth(const char* name) const {
  const auto value = text(name);
  TANDEM_CHECK(value.empty() || value == "True" || value == "False", name, " is \"", value,
               "\", expected True or False");
  return value == "True";
}

std::string Variables::first_of(std::initializer_list<const char*> names) const {
  for (const char* name : names) {
    if (is_set(name)) return text(name);
  }
  return "";
}

int port_for(std::uint64_t job, std::uint64_t step) {
  // The factor is odd, so the first 4,096 steps of a job get different ports. It is large, so these are seldom the
  // ports of the next jobs.
  constexpr std::uint64_t first = 61440, last = 65535;
  return static_cast<int>(first + (job + 1021 * step) % (last - first + 1));
}

namespace {

constexpr int any = Variables::any;

Environment read_torchrun(const Variables& variables) {
  for (const char* name : {"RANK", "WORLD_SIZE"}) {
    TANDEM_CHECK(variables.is_set(name), name, " is not set, but ", name[0] == 'R' ? "WORLD_SIZE" : "RANK",
                 " is: a launcher sets both (tandemrun, torchrun); unset both to run a single process");
  }
  Environment result;
  result.launcher = "torchrun";
  result.world_size = variables.number("WORLD_SIZE", 1, 1 << 20);  // chosen: more ranks than a job has
  result.rank = variables.number("RANK", 0, result.world_size - 1);
  const bool knows_size = variables.is_set("LOCAL_WORLD_SIZE");
  result.local_world_size = variables.number("LOCAL_WORLD_SIZE", 1, result.world_size, 1);
  result.local_rank = variables.number("LOCAL_RANK", 0, knows_size ? result.local_world_size - 1 : any, 0);
  result.knows_host = result.world_size == 1 || (knows_size && variables.is_set("LOCAL_RANK"));
  result.node_count = variables.number("GROUP_WORLD_SIZE", 1, result.world_size, 1);
  result.node_rank = variables.number("GROUP_RANK", 0, any, 0);
  result.run_id = variables.text("TORCHELASTIC_RUN_ID");
  result.restart_count = variables.number("TORCHELASTIC_RESTART_COUNT", 0, any, 0);
  result.uses_agent_store = variables.truth("TORCHELASTIC_USE_AGENT_STORE");
  result.is_elastic = variables.is_set("TANDEM_ELASTIC");
  return result;
}

// The user may have started the process by hand in a Slurm shell that has several tasks.
Environment read_no_launcher(const Variables& variables) {
  Environment result;
  const auto tasks = variables.first_of({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"});
  if (!tasks.empty() && tasks != "1") {
    const bool has_slurm = !launcher_kinds.entries().empty();
    result.note = "Slurm gave this shell " + tasks + " tasks, but " +
                  (has_slurm ? "this process was not started by srun" : "this build does not know srun") +
                  ", so it runs alone: start it with " + (has_slurm ? "srun (or tandemrun, or mpirun)" : "tandemrun") +
                  " to use them";
  }
  return result;
}

Environment read_launcher(const Variables& variables) {
  if (variables.is_set("RANK")) return read_torchrun(variables);
  for (const auto& kind : launcher_kinds.entries()) {
    if (kind.has_started(variables)) return kind.read(variables);
  }
  if (variables.is_set("WORLD_SIZE")) return read_torchrun(variables);
  return read_no_launcher(variables);
}

}  // namespace

bool is_one_host(const Environment& environment) {
  return (environment.knows_host && environment.local_world_size == environment.world_size) ||
         is_loopback(environment.master_addr);
}

Environment read_environment(const std::function<const char*(const char*)>& variable, bool needs_master) {
  const Variables variables(variable);
  auto result = read_launcher(variables);
  // Scripts that run under srun or mpirun often export WORLD_SIZE too.
  const int size = variables.number("WORLD_SIZE", 1, any, result.world_size);
  TANDEM_CHECK(size == result.world_size, "WORLD_SIZE is ", size, ", but ", result.launcher, " started ",
               result.world_size, " processes: start as many, or unset WORLD_SIZE");
  if (variables.is_set("MASTER_ADDR")) result.master_addr = variables.text("MASTER_ADDR");
  if (variables.is_set("MASTER_PORT")) result.master_port = variables.number("MASTER_PORT", 1, 65535);
  result.store_proves = result.uses_agent_store && variables.is_set("TANDEM_LAUNCHER");
  result.store_token = given_token(variable);
  if (result.world_size == 1 || !needs_master) return result;
  TANDEM_CHECK(!result.master_addr.empty(), "MASTER_ADDR is not set, and the ", result.world_size, " processes ",
               result.launcher == "torchrun" ? "of WORLD_SIZE" : "that " + result.launcher + " started",
               " may be on several hosts: set it to the name of rank 0's host",
               result.launcher == "torchrun" || result.launcher == "Slurm"
                   ? ""
                   : ", for example with mpirun -x MASTER_ADDR=HOST (Open MPI) or mpiexec -genv MASTER_ADDR "
                     "HOST (MPICH)");
  TANDEM_CHECK(result.master_port > 0, "MASTER_PORT is not set, but WORLD_SIZE is ", result.world_size,
               ": the processes of a job find each other at MASTER_ADDR:MASTER_PORT");
  return result;
}

int gpu_of(const Environment& environment, int visible) {
  TANDEM_CHECK(visible > 0, "rank ", environment.rank, " sees no GPU (CUDA_VISIBLE_DEVICES may hide them all)");
  if (visible == 1) return 0;
  TANDEM_CHECK(environment.local_rank < visible, "rank ", environment.rank, " is process ", environment.local_rank,
               " (LOCAL_RANK) of its host, but sees only ", visible, " GPUs: start at most as many processes per host");
  return environment.local_rank;
}

void set_hosts(Environment& environment, const std::vector<std::string>& hosts) {
  std::vector<std::string> nodes;
  const auto& mine = hosts.at(static_cast<std::size_t>(environment.rank));
  const auto here = hosts.begin() + environment.rank;
  for (const auto& host : hosts) {
    if (std::find(nodes.begin(), nodes.end(), host) == nodes.end()) nodes.push_back(host);
  }
  environment.local_rank = static_cast<int>(std::count(hosts.begin(), here, mine));
  environment.local_world_size = static_cast<int>(std::count(hosts.begin(), hosts.end(), mine));
  environment.node_rank = static_cast<int>(std::find(nodes.begin(), nodes.end(), mine) - nodes.begin());
  environment.node_count = static_cast<int>(nodes.size());
  environment.knows_host = true;
}

}  // namespace tandem::distributed
