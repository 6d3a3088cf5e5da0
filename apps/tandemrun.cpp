// Starts the processes of a training job on this host, with torchrun's options.
#include <tandem/core/check.h>
#include <tandem/distributed/cores.h>
#include <tandem/distributed/launcher.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace {

using tandem::distributed::LaunchOptions;

class Help : public CLI::Formatter {
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: tandemrun [options] program [arguments]\n";
  }
};

// What the command line says, before it is understood.
struct Arguments {
  std::string nnodes = "1";
  std::string nproc_per_node = "1";
  int node_rank = 0;
  bool standalone = false;
  std::string role = "default";
  std::string bind = "none";
  std::string master_addr;
  int master_port = 0;
  std::string rdzv_backend = "static";
  std::string rdzv_endpoint;
  std::string rdzv_id;
  std::string rdzv_conf;
  bool open_store = false;
  std::string log_dir;
  std::string redirects = "0";
  std::string tee = "0";
  std::vector<int> local_ranks_filter;
  double grace = 5;
  double monitor_interval = 0.1;
  std::string start_method = "spawn";
  bool no_python = false;
  bool use_env = false;
};

void declare_options(CLI::App& app, Arguments& a) {
  app.add_option("--nproc-per-node", a.nproc_per_node,
                 "processes to start: a number, auto, cpu or gpu (default 1)")
      ->group("Processes");
  app.add_option("--nnodes", a.nnodes, "hosts: 1")->group("Processes");
  app.add_option("--node-rank", a.node_rank, "which of the hosts this is: 0")->group("Processes");
  app.add_option("--role", a.role, "passed on as ROLE_NAME")->group("Processes");
  app.add_option("--bind", a.bind, "cores: each process gets its own share of the cores; none")
      ->check(CLI::IsMember({"none", "cores"}))
      ->group("Processes");
  app.add_flag("--standalone", a.standalone, "one host, a free port (the default)")->group("Meeting");
  app.add_option("--master-addr", a.master_addr, "the address of this host to meet at (default 127.0.0.1)")
      ->group("Meeting");
  app.add_option("--master-port", a.master_port, "the port to meet at (default 0, a free one)")
      ->check(CLI::Range(0, 65535))
      ->group("Meeting");
  app.add_option("--rdzv-backend", a.rdzv_backend, "static or c10d: the same on one host")
      ->check(CLI::IsMember({"static", "c10d"}))
      ->group("Meeting");
  app.add_option("--rdzv-endpoint", a.rdzv_endpoint, "HOST:PORT, another way to say address and port")
      ->group("Meeting");
  app.add_option("--rdzv-id", a.rdzv_id, "the run's name (default a random one)")->group("Meeting");
  app.add_option("--rdzv-conf", a.rdzv_conf, "accepted: name=value,... (one host needs none)")
      ->group("Meeting");
  app.add_flag("--open-store", a.open_store, "let processes join that do not know the job's token (Python's)")
      ->group("Meeting");
  app.add_option("--log-dir", a.log_dir, "folder for logs and error files (default a temporary one)")
      ->group("Output");
  app.add_option("-r,--redirects", a.redirects,
                 "to files: 0 nothing, 1 stdout, 2 stderr, 3 both, or 0:1,1:2 by rank")
      ->group("Output");
  app.add_option("-t,--tee", a.tee, "to files and here: the same choices")->group("Output");
  app.add_option("--local-ranks-filter", a.local_ranks_filter, "show only these ranks' output: 0,2")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber)
      ->group("Output");
  app.add_option("--grace", a.grace, "seconds between SIGTERM and SIGKILL (default 5)")
      ->check(CLI::Range(0.0, 1e6))
      ->group("Stopping");
  app.add_option("--monitor-interval", a.monitor_interval, "accepted: an end is noticed at once")
      ->check(CLI::PositiveNumber)
      ->group("Accepted as torchrun's");
  app.add_option("--start-method", a.start_method, "accepted: spawn, fork or forkserver")
      ->check(CLI::IsMember({"spawn", "fork", "forkserver"}))
      ->group("Accepted as torchrun's");
  app.add_flag("--no-python", a.no_python, "accepted: programs are always run as they are")
      ->group("Accepted as torchrun's");
  app.add_flag("--use-env", a.use_env, "accepted: always so")->group("Accepted as torchrun's");
}

// Where the program begins. Before it, underscores in options' names become dashes; behind it, nothing is
// ours.
std::vector<std::string>::iterator split_off_command(const CLI::App& app,
                                                     std::vector<std::string>& arguments) {
  auto argument = arguments.begin();
  for (; argument != arguments.end() && argument->size() > 1 && argument->front() == '-'; ++argument) {
    if (*argument == "--") return argument;
    const auto equals = std::min(argument->find('='), argument->size());
    if (argument->compare(0, 2, "--") == 0)
      std::replace(argument->begin(), argument->begin() + equals, '_', '-');
    const bool is_long = argument->compare(0, 2, "--") == 0;
    const auto* option =
        app.get_option_no_throw(is_long ? argument->substr(0, equals) : argument->substr(0, 2));
    const bool has_value = is_long ? equals < argument->size() : argument->size() > 2;
    if (option && option->get_items_expected_max() > 0 && !has_value && argument + 1 != arguments.end())
      ++argument;
  }
  return argument;
}

int parse_process_count(const std::string& text) {
  if (text == "auto" || text == "cpu") return tandem::distributed::available_cores();
  TANDEM_CHECK(text != "gpu",
               "--nproc-per-node gpu: this build runs on the CPU alone; give a number, cpu or auto");
  int count = 0;
  const bool is_number = text.size() < 6 && text.find_first_not_of("0123456789") == std::string::npos;
  if (is_number && !text.empty()) count = std::stoi(text);
  TANDEM_CHECK(count > 0, "--nproc-per-node ", text, ": expected a number of at least 1, auto, cpu or gpu");
  return count;
}

void parse_endpoint(const std::string& text, LaunchOptions& options) {
  const auto colon = text.rfind(':');
  const bool has_port = colon != std::string::npos && text.find(':') == colon;
  options.master_addr = has_port ? text.substr(0, colon) : text;
  const auto port = has_port ? text.substr(colon + 1) : "0";
  const bool is_number =
      !port.empty() && port.size() < 6 && port.find_first_not_of("0123456789") == std::string::npos;
  TANDEM_CHECK(!options.master_addr.empty() && is_number && std::stoi(port) <= 65535, "--rdzv-endpoint ",
               text, ": expected HOST:PORT, with port 0 for a free one");
  options.master_port = std::stoi(port);
}

LaunchOptions understand(const Arguments& a) {
  TANDEM_CHECK(a.nnodes == "1" || a.nnodes == "1:1", "--nnodes ", a.nnodes,
               ": tandemrun starts jobs of one host, expected 1 or 1:1");
  TANDEM_CHECK(a.node_rank == 0, "--node-rank ", a.node_rank, ": a job of one host has node 0 only");
  LaunchOptions options;
  options.processes = parse_process_count(a.nproc_per_node);
  options.role = a.role;
  options.bind_cores = a.bind == "cores";
  if (!a.rdzv_endpoint.empty()) {
    TANDEM_CHECK(a.master_addr.empty() && a.master_port == 0, "--rdzv-endpoint ", a.rdzv_endpoint,
                 ": says the same as --master-addr and --master-port, give only one of them");
    parse_endpoint(a.rdzv_endpoint, options);
  } else {
    if (!a.master_addr.empty()) options.master_addr = a.master_addr;
    options.master_port = a.master_port;
  }
  options.run_id = a.rdzv_id;
  options.open_store = a.open_store;
  options.log_dir = a.log_dir;
  options.redirects = tandem::distributed::parse_stream_choice("--redirects", a.redirects);
  options.tee = tandem::distributed::parse_stream_choice("--tee", a.tee);
  if (!a.local_ranks_filter.empty()) {
    for (const int rank : a.local_ranks_filter) {
      TANDEM_CHECK(rank < options.processes, "--local-ranks-filter ", rank, ": there are ranks 0 to ",
                   options.processes - 1);
    }
    options.shown_local_ranks.emplace(a.local_ranks_filter.begin(), a.local_ranks_filter.end());
  }
  options.grace = std::chrono::milliseconds(static_cast<std::int64_t>(a.grace * 1000));
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Starts the processes of a training job on this host.");
  app.formatter(std::make_shared<Help>());
  app.allow_extras(false);
  Arguments parsed;
  declare_options(app, parsed);
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto split = split_off_command(app, arguments);
  const std::vector<std::string> command(split != arguments.end() && *split == "--" ? split + 1 : split,
                                         arguments.end());
  LaunchOptions options;
  try {
    app.parse(std::vector<std::string>(std::make_reverse_iterator(split), arguments.rend()));
    options = understand(parsed);
    TANDEM_CHECK(!command.empty(), "no program given: tandemrun [options] program [arguments]");
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const std::exception& error) {
    std::cerr << "tandemrun: " << error.what() << "\n";
    return 2;
  }
  try {
    return tandem::distributed::launch(options, command);
  } catch (const std::exception& error) {
    std::cerr << "tandemrun: " << error.what() << "\n";
    return 1;
  }
}
