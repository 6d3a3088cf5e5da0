#include <tandem/core/array/device_memory.h>
#include <tandem/core/base/check.h>
#include <tandem/core/base/number_in.h>
#include <tandem/distributed/launch/launch_option_group.h>
#include <tandem/distributed/launch/launch_options.h>
#include <tandem/distributed/system/cores.h>
#include <tandem/distributed/system/unknown_option.h>
#include <tandem/distributed/system/version.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
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
  LaunchOptions options;  // the options that need no check
  std::string nproc_per_node = "1";
  std::string bind = "none";
  std::string master_addr;
  std::string master_port = "0";
  std::string max_restarts = "0";
  std::string redirects = "0";
  std::string tee = "0";
  std::vector<std::string> local_ranks_filter;
  std::string grace = "5";
  std::string accepted;  // this option and the next one have no effect
  bool accepted_flag = false;
  std::string module;
  bool run_path = false;
  std::vector<std::string> questions;  // the value for each entry of launch_questions; empty: not given
  std::vector<std::unique_ptr<LaunchOptionGroup>> groups;
};

void declare_options(CLI::App& app, Arguments& a) {
  app.option_defaults()->group("Processes");
  app.add_option("--nproc-per-node", a.nproc_per_node,
                 "processes to start here: a number, auto, cpu or gpu (default 1)");
  app.add_option("--role", a.options.role, "passed on as ROLE_NAME (default default)");
  app.add_option("--bind", a.bind, "cores: each process gets its own share of the cores; none")
      ->check(CLI::IsMember({"none", "cores"}));

  for (const auto& make : launch_option_groups.entries()) a.groups.push_back(make(app));
  app.option_defaults()->group("Meeting");
  app.add_flag("--standalone", a.accepted_flag, "one host, a free port (the default)");
  app.add_option("--master-addr", a.master_addr, "the address of node 0 to meet at (default 127.0.0.1)");
  app.add_option("--master-port", a.master_port,
                 "the port to meet at (default a free one on one host, 29500 on several)");
  app.add_option("--rdzv-id", a.options.run_id, "the run's name, the same on all hosts");
  app.add_flag("--open-store", a.options.open_store, "let processes without the job's token join, such as Python's");

  app.option_defaults()->group("Output");
  app.add_option("--log-dir", a.options.log_dir, "folder for logs and error files (default a temporary one)");
  app.add_option("-r,--redirects", a.redirects, "to files: 0 nothing, 1 stdout, 2 stderr, 3 both, or 0:1,1:2 by rank");
  app.add_option("-t,--tee", a.tee, "to files and here: the same choices");
  a.questions.resize(launch_questions.entries().size());
  for (std::size_t i = 0; i < a.questions.size(); ++i) {
    const auto& question = launch_questions.entries()[i];
    app.add_option(question.option, a.questions[i], question.help)->type_name(question.value_name);
  }
  app.add_option("--local-ranks-filter", a.local_ranks_filter, "show only these ranks' output: 0,2")->delimiter(',');

  app.option_defaults()->group("Stopping");
  app.add_option(
      "--max-restarts", a.max_restarts,
      "how often all ranks may restart after a failure, except after exit code 2, a wrong command line (default 0)");
  app.add_option("--grace,--shutdown-timeout", a.grace, "seconds between SIGTERM and SIGKILL (default 5)");

  app.option_defaults()->group("Accepted for compatibility with torchrun");
  app.add_option("--start-method", a.accepted, "accepted: spawn, fork or forkserver")
      ->check(CLI::IsMember({"spawn", "fork", "forkserver"}));
  app.add_option("--local-addr", a.accepted, "accepted: ranks meet at the address of the store");
  app.add_flag("--no-python", a.accepted_flag, "accepted: programs are always run as they are");
  app.add_flag("--use-env", a.accepted_flag, "accepted: always on");
  // These two are useful only for Python programs. With the declarations, understand() can say what to do instead.
  app.add_option("-m,--module", a.module)->group("");
  app.add_flag("--run-path", a.run_path)->group("");

  for (auto* option : app.get_options()) {
    auto name = option->get_lnames().front();
    if (name == "help" || name == "version") continue;
    for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(c));
    option->envname("PET_" + name);
  }
}

// Finds the program among the arguments. Replaces underscores with dashes in the names of the options that precede the
// program. The arguments after the program belong to the program.
std::vector<std::string>::iterator split_off_command(const CLI::App& app, std::vector<std::string>& arguments) {
  auto argument = arguments.begin();
  for (; argument != arguments.end() && argument->size() > 1 && argument->front() == '-'; ++argument) {
    if (*argument == "--") return argument;
    const auto equals = std::min(argument->find('='), argument->size());
    if (argument->compare(0, 2, "--") == 0) std::replace(argument->begin(), argument->begin() + equals, '_', '-');
    const bool is_long = argument->compare(0, 2, "--") == 0;
    if (cut_empty_value(app, *argument)) {
      argument = arguments.insert(argument + 1, "");
      continue;
    }
    const auto* option = app.get_option_no_throw(is_long ? argument->substr(0, equals) : argument->substr(0, 2));
    const bool has_value = is_long ? equals < argument->size() : argument->size() > 2;
    if (option && option->get_items_expected_max() > 0 && !has_value && argument + 1 != arguments.end()) ++argument;
  }
  return argument;
}

int parse_process_count(const std::string& text) {
  if (text == "auto" || text == "cpu") return available_cores();
  if (text == "gpu") {
    const int gpus = device_count(Device::Kind::cuda);
    TANDEM_CHECK(gpus > 0,
                 "--nproc-per-node gpu: there is no GPU here, or this build has no CUDA; give a number, cpu or "
                 "auto");
    return gpus;
  }
  const int count = small_number(text);
  // This is far more ranks than a host has cores or GPUs. A larger number is probably a typo, and would use up the
  // host's memory.
  constexpr int most = 1024;
  TANDEM_CHECK(count > 0 && count <= most, "--nproc-per-node ", text, ": expected a number from 1 to ", most,
               ", auto, cpu or gpu");
  return count;
}

LaunchOptions understand(const Arguments& a) {
  TANDEM_CHECK(a.module.empty() && !a.run_path, a.run_path ? "--run-path" : "--module",
               ": tandemrun runs programs directly; for Python, write: tandemrun [options] python -m MODULE");
  LaunchOptions options = a.options;
  options.processes = parse_process_count(a.nproc_per_node);
  if (!a.master_addr.empty()) options.master_addr = a.master_addr;
  options.master_port = parse_whole("--master-port", a.master_port, 65535);
  options.bind_cores = a.bind == "cores";
  options.max_restarts = parse_whole("--max-restarts", a.max_restarts);
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
  for (const auto& group : a.groups) group->understand(options);
  return options;
}

}  // namespace

int parse_whole(const std::string& option, const std::string& text, int most) {
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

LaunchCommand parse_launch_command(std::vector<std::string> arguments) {
  CLI::App app("Starts the processes of a training job on this host, and meets the launchers of its other hosts.");
  app.formatter(std::make_shared<Help>());
  app.allow_extras(false);
  app.footer("Every option can also be set in the environment, for example as PET_NPROC_PER_NODE.");
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
    command.text = launch_questions.entries()[i].answer(parsed.questions[i]);
    return command;
  }
  command.options = understand(parsed);
  TANDEM_CHECK(!command.program.empty(), "no program given: tandemrun [options] program [arguments]");
  return command;
}

}  // namespace tandem::distributed
