#include <tandem/core/base/check.h>
#include <tandem/distributed/job/launcher_kind.h>
#include <tandem/distributed/job/slurm.h>

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <optional>
#include <sstream>
#include <utility>

namespace tandem::distributed {
namespace {

// No job has this many nodes. Without a limit, a list of a few bytes could expand to more names than memory can hold.
constexpr std::size_t max_nodes = std::size_t{1} << 16;
constexpr std::size_t max_name = 255;  // bytes of a host name (RFC 1035, section 2.3.4)

// Removes a number in [0, 2^30] from the front of `text`. Returns the number and its number of digits. `whole` is the
// whole list, for the Error.
std::pair<int, std::size_t> take_number(std::string_view& text, std::string_view whole) {
  int number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto digits = static_cast<std::size_t>(end - text.data());
  TANDEM_CHECK(failure == std::errc() && number >= 0 && number <= 1 << 30, "Slurm's list \"", whole,
               "\": expected a number at \"", text, "\"");
  text.remove_prefix(digits);
  return {number, digits};
}

bool take(std::string_view& text, char c) {
  const bool is_there = text.starts_with(c);
  if (is_there) text.remove_prefix(1);
  return is_there;
}

std::string padded(int number, std::size_t digits) {
  const auto text = std::to_string(number);
  return std::string(digits - std::min(digits, text.size()), '0') + text;
}

// Removes the rest of a bracket, such as "01-03,07]", from the front of `text`. Returns the numbers in it.
std::vector<std::string> take_bracket(std::string_view& text, std::string_view whole) {
  std::vector<std::string> numbers;
  do {
    const auto [first, digits] = take_number(text, whole);
    const int last = take(text, '-') ? take_number(text, whole).first : first;
    TANDEM_CHECK(
        digits <= max_name && last >= first && static_cast<std::size_t>(last - first) < max_nodes - numbers.size(),
        "Slurm's list \"", whole, "\": ", first, "-", last, " is not a valid range of nodes");
    for (int n = first; n <= last; ++n) numbers.push_back(padded(n, digits));
  } while (take(text, ','));
  TANDEM_CHECK(take(text, ']'), "Slurm's list \"", whole, "\": a \"]\" is missing");
  return numbers;
}

}  // namespace

std::vector<std::string> expand_nodelist(std::string_view list) {
  std::vector<std::string> hosts;
  auto rest = list;
  do {
    std::vector<std::string> names = {""};  // the names from the part of the element that has been read
    while (!rest.empty() && rest.front() != ',') {
      if (take(rest, '[')) {
        std::vector<std::string> longer;
        const auto numbers = take_bracket(rest, list);
        TANDEM_CHECK(names.size() * numbers.size() <= max_nodes, "Slurm's list \"", list, "\": too many nodes");
        for (const auto& name : names) {
          for (const auto& number : numbers) longer.push_back(name + number);
        }
        names = std::move(longer);
      } else {
        TANDEM_CHECK(rest.front() != ']', "Slurm's list \"", list, "\": a \"[\" is missing");
        for (auto& name : names) name += rest.front();
        rest.remove_prefix(1);
      }
      TANDEM_CHECK(names.back().size() <= max_name, "Slurm's list \"", list, "\": a name of more than ", max_name,
                   " characters");
    }
    TANDEM_CHECK(!names.front().empty(), "Slurm's list \"", list, "\": a name is missing");
    TANDEM_CHECK(names.size() <= max_nodes - hosts.size(), "Slurm's list \"", list, "\": too many nodes");
    hosts.insert(hosts.end(), names.begin(), names.end());
  } while (take(rest, ','));
  return hosts;
}

std::vector<int> expand_tasks_per_node(std::string_view list) {
  std::vector<int> tasks;
  auto rest = list;
  do {
    const int count = take_number(rest, list).first;
    int nodes = 1;
    if (take(rest, '(')) {
      const bool has_x = take(rest, 'x');
      nodes = take_number(rest, list).first;
      TANDEM_CHECK(has_x && take(rest, ')'), "Slurm's list \"", list, "\": expected a form like \"4(x2),3\"");
    }
    TANDEM_CHECK(static_cast<std::size_t>(nodes) <= max_nodes - tasks.size(), "Slurm's list \"", list,
                 "\": too many nodes");
    tasks.insert(tasks.end(), static_cast<std::size_t>(nodes), count);
  } while (take(rest, ','));
  TANDEM_CHECK(rest.empty(), "Slurm's list \"", list, "\": expected a form like \"4(x2),3\"");
  return tasks;
}

namespace {

// Returns whether the process `pid` has a terminal, according to the fifth number after its name in /proc/PID/stat
// (proc(5)). Returns nullopt if the file can't be read.
std::optional<bool> has_terminal(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string text, field;
  std::getline(file, text);
  std::istringstream fields(text.substr(std::min(text.rfind(") ") + 2, text.size())));
  for (int i = 0; i < 5; ++i) fields >> field;
  return fields ? std::optional(field != "0") : std::nullopt;
}

// In the shell of `srun -n 4 --pty bash`, the shell is srun's task, but a program that the user starts there is not. A
// step that srun starts from such a shell inherits SLURM_PTY_PORT, but its tasks have no terminal.
bool is_in_pty_shell(const Variables& variables) {
  const auto task = variables.text("SLURM_TASK_PID");
  return variables.is_set("SLURM_PTY_PORT") && task != std::to_string(getpid()) && has_terminal(task).value_or(true);
}

// In a job step, srun sets the step's number of tasks. The shells of salloc and sbatch have variables of the job, but
// they do not run in a step, or they run in a step with one of the two special numbers below (Slurm's slurm.h).
bool is_in_slurm_step(const Variables& variables) {
  const auto step = variables.first_of({"SLURM_STEP_ID", "SLURM_STEPID"});
  const bool is_shell = step == "4294967290" || step == "4294967291";  // interactive, batch
  return variables.is_set("SLURM_STEP_NUM_TASKS") && !is_shell && !is_in_pty_shell(variables);
}

// Sets the local rank, the node rank, their counts and knows_host in `result`.
void read_slurm_hosts(const Variables& variables, Environment& result) {
  if (!variables.is_set("SLURM_STEP_TASKS_PER_NODE") || !variables.is_set("SLURM_LOCALID")) {
    result.knows_host = result.world_size == 1;
    return;
  }
  const auto tasks = expand_tasks_per_node(variables.text("SLURM_STEP_TASKS_PER_NODE"));
  TANDEM_CHECK(std::accumulate(tasks.begin(), tasks.end(), std::int64_t{0}) == result.world_size,
               "SLURM_STEP_TASKS_PER_NODE is \"", variables.text("SLURM_STEP_TASKS_PER_NODE"),
               "\", which does not add up to ", result.world_size, " tasks");
  result.node_count = static_cast<int>(tasks.size());
  result.node_rank = variables.number("SLURM_NODEID", 0, result.node_count - 1, 0);
  result.local_world_size = tasks[static_cast<std::size_t>(result.node_rank)];
  result.local_rank = variables.number("SLURM_LOCALID", 0, result.local_world_size - 1);
}

Environment read_slurm(const Variables& variables) {
  Environment result;
  result.launcher = "Slurm";
  result.world_size = variables.number("SLURM_STEP_NUM_TASKS", 1, Variables::any);
  result.rank = variables.number("SLURM_PROCID", 0, result.world_size - 1);
  read_slurm_hosts(variables, result);
  const auto job = variables.first_of({"SLURM_JOB_ID", "SLURM_JOBID"});
  const auto step = variables.first_of({"SLURM_STEP_ID", "SLURM_STEPID"});
  result.run_id = job + "." + step;
  result.restart_count = variables.number("SLURM_RESTART_COUNT", 0, Variables::any, 0);
  const auto nodes = variables.first_of({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"});
  if (is_one_host(result)) {
    result.master_addr = "127.0.0.1";
  } else if (!nodes.empty()) {
    result.master_addr = expand_nodelist(nodes).front();
  }
  const auto number = [](const std::string& id) { return std::strtoull(id.c_str(), nullptr, 10); };
  result.master_port = port_for(number(job), number(step));
  return result;
}

}  // namespace

}  // namespace tandem::distributed

namespace tandem {

void add_slurm() {
  using namespace distributed;
  launcher_kinds.add({is_in_slurm_step, read_slurm, read_slurm_hosts});
}

}  // namespace tandem
