#include <tandem/core/base/check.h>
#include <tandem/distributed/launch/launch_options.h>
#include <tandem/distributed/system/cores.h>
#include <tandem/distributed/system/unknown_option.h>
#include <tandem/distributed/system/version.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <sstream>

namespace tandem::distributed {
namespace {

class Help : public CLI::Formatter {
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: tandemrun [options] program [arguments]\n";
  }
};

// The values of the options as given, not checked yet. The names and defaults are torchrun's.
struct Arguments {
  std::string nnodes = "1";
  std::string nproc_per_node = "1";
  std::string node_rank = "0";
  bool standalone = false;
  std::string role = "default";
  std::string bind = "none";
  std::string master_addr;
  std::string master_port = "0";
  std::string rdzv_backend = "static";
  std::string rdzv_endpoint;
  std::string rdzv_id;
  std::string rdzv_conf;
  std::string local_addr;
  bool open_store = false;
  std::string max_restarts = "0";
  std::string log_dir;
  std::string redirects = "0";
  std::string tee = "0";
  std::vector<std::string> local_ranks_filter;
  std::string grace = "5";
  std::string monitor_interval = "0.1";
  std::string start_method = "spawn";
  std::string module;
  bool run_path = false;
  bool no_python = false;
  bool use_env = false;
  std::vector<std::string> questions;  // the value of each of launch_questions(); empty: not asked
};

void declare_options(CLI::App& app, Arguments& a) {
  app.add_option("--nproc-per-node", a.nproc_per_node,
                 "processes to start here: a number, auto, cpu or gpu (default 1)")
      ->group("Processes");
  app.add_option("--nnodes", a.nnodes, "hosts: a number, or MIN:MAX (default 1)")->group("Processes");
  app.add_option("--node-rank", a.node_rank, "which of the hosts this is, with --rdzv-backend static (default 0)")
      ->group("Processes");
  app.add_option("--role", a.role, "passed on as ROLE_NAME (default default)")->group("Processes");
  app.add_option("--bind", a.bind, "cores: each process gets its own share of the cores; none")
      ->check(CLI::IsMember({"none", "cores"}))
      ->group("Processes");

  app.add_flag("--standalone", a.standalone, "one host, a free port (the default)")->group("Meeting");
  app.add_option("--master-addr", a.master_addr, "the address of node 0 to meet at (default 127.0.0.1)")
      ->group("Meeting");
  app.add_option("--master-port", a.master_port,
                 "the port to meet at (default a free one on one host, 29500 on several)")
      ->group("Meeting");
  app.add_option("--rdzv-backend", a.rdzv_backend,
                 "static: hosts are numbered by --node-rank; c10d: as they arrive (default static)")
      ->check(CLI::IsMember({"static", "c10d"}))
      ->group("Meeting");
  app.add_option("--rdzv-endpoint", a.rdzv_endpoint,
                 "HOST:PORT to meet at; with c10d HOST serves it (default port 29400)")
      ->group("Meeting");
  app.add_option("--rdzv-id", a.rdzv_id, "the run's name, the same on all hosts")->group("Meeting");
  app.add_option("--rdzv-conf", a.rdzv_conf,
                 "name=seconds,...: join_timeout (600), last_call_timeout (30), keep_alive_interval (5) times "
                 "keep_alive_max_attempt (3); is_host=0 or 1")
      ->group("Meeting");
  app.add_option("--monitor-interval", a.monitor_interval, "seconds between looks at the other hosts (default 0.1)")
      ->group("Meeting");
  app.add_flag("--open-store", a.open_store, "let processes join that do not know the job's token (Python's)")
      ->group("Meeting");

  app.add_option("--log-dir", a.log_dir, "folder for logs and error files (default a temporary one)")->group("Output");
  app.add_option("-r,--redirects", a.redirects, "to files: 0 nothing, 1 stdout, 2 stderr, 3 both, or 0:1,1:2 by rank")
      ->group("Output");
  app.add_option("-t,--tee", a.tee, "to files and here: the same choices")->group("Output");
  a.questions.resize(launch_questions().entries().size());
  for (std::size_t i = 0; i < a.questions.size(); ++i) {
    const auto& question = launch_questions().entries()[i];
    app.add_option(question.option, a.questions[i], question.help)->type_name(question.value_name)->group("Output");
  }
  app.add_option("--local-ranks-filter", a.local_ranks_filter, "show only these ranks' output: 0,2")
      ->delimiter(',')
      ->group("Output");

  app.add_option(
         "--max-restarts", a.max_restarts,
         "how often all ranks start again after a failure; not after exit code 2, a wrong command line (default 0)")
      ->group("Stopping");
  app.add_option("--grace,--shutdown-timeout", a.grace, "seconds between SIGTERM and SIGKILL (default 5)")
      ->group("Stopping");

  app.add_option("--start-method", a.start_method, "accepted: spawn, fork or forkserver")
      ->check(CLI::IsMember({"spawn", "fork", "forkserver"}))
      ->group("Accepted as torchrun's");
  app.add_option("--local-addr", a.local_addr, "accepted: ranks meet at the address of the store")
      ->group("Accepted as torchrun's");
  app.add_flag("--no-python", a.no_python, "accepted: programs are always run as they are")
      ->group("Accepted as torchrun's");
  app.add_flag("--use-env", a.use_env, "accepted: always so")->group("Accepted as torchrun's");
  // These two make sense for Python programs only. They are declared so that understand() can say what to do instead.
  app.add_option("-m,--module", a.module)->group("");
  app.add_flag("--run-path", a.run_path)->group("");

  for (auto* option : app.get_options()) {
    auto name = option->get_lnames().front();
    if (name == "help" || name == "version") continue;
    for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(c));
    option->envname("PET_" + name);
  }
}

// Finds the program among the arguments. Before the program, underscores in the names of options become dashes. The
// arguments after the program belong to the program.
std::vector<std::string>::iterator split_off_command(const CLI::App& app, std::vector<std::string>& arguments) {
  auto argument = arguments.begin();
  for (; argument != arguments.end() && argument->size() > 1 && argument->front() == '-'; ++argument) {
    if (*argument == "--") return argument;
    const auto equals = std::min(argument->find('='), argument->size());
    if (argument->compare(0, 2, "--") == 0) std::replace(argument->begin(), argument->begin() + equals, '_', '-');
    const bool is_long = argument->compare(0, 2, "--") == 0;
    const auto* option = app.get_option_no_throw(is_long ? argument->substr(0, equals) : argument->substr(0, 2));
    const bool has_value = is_long ? equals < argument->size() : argument->size() > 2;
    if (option && option->get_items_expected_max() > 0 && !has_value && argument + 1 != arguments.end()) ++argument;
  }
  return argument;
}

// The number that `text` writes in at most five digits; -1 if `text` is anything else.
int small_number(const std::string& text) {
  const bool is_number = !text.empty() && text.size() < 6 && text.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? std::stoi(text) : -1;
}

// The whole of `text` as a number from `least` to `most`; none if it is anything else.
template <class T>
std::optional<T> number_in(const std::string& text, T least, T most) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || !(value >= least && value <= most)) return std::nullopt;
  return value;
}

int parse_whole(const std::string& option, const std::string& text, int most = std::numeric_limits<int>::max()) {
  const auto value = number_in(text, 0, most);
  const bool has_limit = most < std::numeric_limits<int>::max();
  TANDEM_CHECK(value, option, " ", text, ": expected a whole number ",
               has_limit ? "from 0 to " + std::to_string(most) : "of at least 0");
  return *value;
}

LaunchOptions::Duration parse_seconds(const std::string& option, const std::string& text, double least, double most) {
  const auto value = number_in(text, least, most);
  TANDEM_CHECK(value, fmt::format("{} {}: expected seconds, from {} to {}", option, text, least, most));
  return LaunchOptions::Duration(static_cast<std::int64_t>(*value * 1000));
}

int parse_process_count(const std::string& text) {
  if (text == "auto" || text == "cpu") return available_cores();
  TANDEM_CHECK(text != "gpu", "--nproc-per-node gpu: this build runs on the CPU alone; give a number, cpu or auto");
  const int count = small_number(text);
  // Chosen: far more ranks than a host has cores or GPUs. A larger number is a typing error, and would use up the
  // host's memory.
  constexpr int most = 1024;
  TANDEM_CHECK(count > 0 && count <= most, "--nproc-per-node ", text, ": expected a number from 1 to ", most,
               ", auto, cpu or gpu");
  return count;
}

void parse_node_count(const std::string& text, LaunchOptions& options) {
  const auto colon = std::min(text.find(':'), text.size());
  options.min_nodes = small_number(text.substr(0, colon));
  options.max_nodes = colon < text.size() ? small_number(text.substr(colon + 1)) : options.min_nodes;
  TANDEM_CHECK(options.min_nodes > 0 && options.max_nodes >= options.min_nodes, "--nnodes ", text,
               ": expected a number of at least 1, or MIN:MAX with MIN at most MAX");
}

void parse_endpoint(const std::string& text, LaunchOptions& options) {
  // Allowed forms: HOST, HOST:PORT, [IPV6]:PORT, IPV6.
  const bool is_bracketed = !text.empty() && text.front() == '[';
  const auto host_end = is_bracketed ? text.find(']') : text.size();
  const auto colon = is_bracketed ? text.find(':', std::min(host_end, text.size())) : text.rfind(':');
  const bool has_port = colon != std::string::npos && (is_bracketed || text.find(':') == colon);
  options.master_addr = is_bracketed ? text.substr(1, host_end - 1) : has_port ? text.substr(0, colon) : text;
  options.master_port = has_port ? small_number(text.substr(colon + 1)) : 0;
  TANDEM_CHECK(!options.master_addr.empty() && host_end != std::string::npos && options.master_port >= 0 &&
                   options.master_port <= 65535,
               "--rdzv-endpoint ", text, ": expected HOST:PORT",
               options.max_nodes == 1 ? ", with port 0 for a free one" : "");
}

void parse_conf(const std::string& text, LaunchOptions& options) {
  double keep_alive_interval = 5, keep_alive_attempts = 3;
  const auto seconds = [](double value) { return LaunchOptions::Duration(static_cast<std::int64_t>(value * 1000)); };
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const auto equals = std::min(part.find('='), part.size());
    const auto name = part.substr(0, equals);
    const auto value = equals < part.size() ? part.substr(equals + 1) : "";
    if (name == "is_host") {
      const bool is_true = value == "1" || value == "true" || value == "True";
      TANDEM_CHECK(is_true || value == "0" || value == "false" || value == "False", "--rdzv-conf is_host=", value,
                   ": expected 0 or 1");
      options.serves_store = is_true;
      continue;
    }
    char* end = nullptr;
    const double number = std::strtod(value.c_str(), &end);
    const auto check_number = [&] {
      TANDEM_CHECK(!value.empty() && *end == '\0' && std::isfinite(number) && number >= 0 && number < 1e8,
                   "--rdzv-conf ", part, ": expected a number, as in ", name, "=60");
    };
    if (name == "timeout" || name == "join_timeout") {
      check_number();
      options.join_timeout = seconds(number);
    } else if (name == "last_call_timeout") {
      check_number();
      options.last_call = seconds(number);
    } else if (name == "keep_alive_interval") {
      check_number();
      keep_alive_interval = number;
    } else if (name == "keep_alive_max_attempt") {
      check_number();
      keep_alive_attempts = number;
    } else {
      TANDEM_CHECK(name == "close_timeout" || name == "read_timeout" || name == "store_type" || name == "use_libuv",
                   "--rdzv-conf ", part,
                   ": expected names of timeout, join_timeout, last_call_timeout, "
                   "keep_alive_interval, keep_alive_max_attempt, is_host (and, without effect, close_timeout, "
                   "read_timeout, store_type, use_libuv)");
    }
  }
  options.silence_allowed = seconds(std::clamp(keep_alive_interval * keep_alive_attempts, 1.0, 1e8));
}

void place_nodes(const Arguments& a, LaunchOptions& options) {
  parse_node_count(a.nnodes, options);
  const bool is_static = a.rdzv_backend == "static";
  const int node_rank = parse_whole("--node-rank", a.node_rank);
  const int master_port = parse_whole("--master-port", a.master_port, 65535);
  if (!a.rdzv_endpoint.empty()) {
    TANDEM_CHECK(a.master_addr.empty() && master_port == 0, "--rdzv-endpoint ", a.rdzv_endpoint,
                 ": says the same as --master-addr and --master-port, give only one of them");
    parse_endpoint(a.rdzv_endpoint, options);
  } else {
    if (!a.master_addr.empty()) options.master_addr = a.master_addr;
    options.master_port = master_port;
  }
  if (options.max_nodes == 1) {
    TANDEM_CHECK(node_rank == 0, "--node-rank ", node_rank, ": a job of one host has node 0 only");
    return;
  }
  TANDEM_CHECK(!a.standalone, "--standalone --nnodes ", a.nnodes, ": a standalone job has one host");
  TANDEM_CHECK(!a.master_addr.empty() || !a.rdzv_endpoint.empty(), "--nnodes ", a.nnodes,
               ": several hosts need an address of one of them to meet at: --master-addr (with --node-rank), or "
               "--rdzv-backend c10d --rdzv-endpoint HOST:PORT");
  if (options.master_port == 0) options.master_port = is_static ? 29500 : 29400;
  if (!is_static) return;
  TANDEM_CHECK(options.min_nodes == options.max_nodes, "--nnodes ", a.nnodes,
               ": a range of hosts needs --rdzv-backend c10d; static has a fixed number");
  TANDEM_CHECK(node_rank < options.max_nodes, "--node-rank ", node_rank, ": with --nnodes ", a.nnodes,
               " there are nodes 0 to ", options.max_nodes - 1);
  options.node_rank = node_rank;
}

LaunchOptions understand(const Arguments& a) {
  TANDEM_CHECK(a.module.empty() && !a.run_path, a.run_path ? "--run-path" : "--module",
               ": tandemrun runs programs as they are; for Python write: tandemrun [options] python -m MODULE");
  LaunchOptions options;
  options.processes = parse_process_count(a.nproc_per_node);
  place_nodes(a, options);
  parse_conf(a.rdzv_conf, options);
  options.role = a.role;
  options.bind_cores = a.bind == "cores";
  options.run_id = a.rdzv_id;
  options.open_store = a.open_store;
  options.max_restarts = parse_whole("--max-restarts", a.max_restarts);
  options.log_dir = a.log_dir;
  options.redirects = parse_stream_choice("--redirects", a.redirects);
  options.tee = parse_stream_choice("--tee", a.tee);
  if (!a.local_ranks_filter.empty()) {
    options.shown_local_ranks.emplace();
    for (const auto& text : a.local_ranks_filter) {
      const int rank = parse_whole("--local-ranks-filter", text);
      TANDEM_CHECK(rank < options.processes, "--local-ranks-filter ", rank, ": there are ranks 0 to ",
                   options.processes - 1);
      options.shown_local_ranks->insert(rank);
    }
  }
  options.grace = parse_seconds("--grace", a.grace, 0, 1e6);
  options.monitor_interval = parse_seconds("--monitor-interval", a.monitor_interval, 0.001, 60);
  return options;
}

}  // namespace

StreamChoice parse_stream_choice(const std::string& option, const std::string& text) {
  const auto digit = [&](const std::string& part) {
    TANDEM_CHECK(part.size() == 1 && part[0] >= '0' && part[0] <= '3', option, " ", text,
                 ": expected 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or by local rank 0:1,1:2");
    return part[0] - '0';
  };
  StreamChoice choice;
  if (text.find(':') == std::string::npos) {
    choice.otherwise = digit(text);
    return choice;
  }
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const auto colon = part.find(':');
    const int rank = small_number(part.substr(0, colon));
    choice.by_local_rank[rank] = digit(rank >= 0 && colon != std::string::npos ? part.substr(colon + 1) : "");
  }
  return choice;
}

AnnexList<LaunchQuestion>& launch_questions() {
  static AnnexList<LaunchQuestion> questions(add_distributed_annexes);
  return questions;
}

LaunchCommand parse_launch_command(std::vector<std::string> arguments) {
  CLI::App app("Starts the processes of a training job on this host, and meets the launchers of its other hosts.");
  app.formatter(std::make_shared<Help>());
  app.allow_extras(false);
  app.footer("Every option has a default from the environment, such as PET_NPROC_PER_NODE.");
  app.set_version_flag("--version", [] { return version_text("tandemrun"); });
  app.get_help_ptr()->disable_flag_override();
  app.get_version_ptr()->disable_flag_override();
  Arguments parsed;
  declare_options(app, parsed);
  const auto split = split_off_command(app, arguments);
  LaunchCommand command;
  command.program.assign(split != arguments.end() && *split == "--" ? split + 1 : split, arguments.end());
  try {
    app.parse(std::vector<std::string>(std::make_reverse_iterator(split), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    command.text = app.help();
    return command;
  } catch (const CLI::CallForVersion&) {
    command.text = app.version();
    return command;
  } catch (const CLI::ExtrasError&) {
    detail::fail(unknown_option(app));
  } catch (const CLI::ParseError& error) {
    detail::fail(error.what());
  }
  for (std::size_t i = 0; i < parsed.questions.size(); ++i) {
    if (parsed.questions[i].empty()) continue;
    command.text = launch_questions().entries()[i].answer(parsed.questions[i]);
    return command;
  }
  command.options = understand(parsed);
  TANDEM_CHECK(!command.program.empty(), "no program given: tandemrun [options] program [arguments]");
  return command;
}

}  // namespace tandem::distributed
