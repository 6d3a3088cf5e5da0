// The options for jobs on several hosts. Their names and defaults are torchrun's.
#include <tandem/core/base/check.h>
#include <tandem/distributed/launch/launch_option_group.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

namespace tandem::distributed {
namespace {

class NodeOptions final : public LaunchOptionGroup {
 public:
  explicit NodeOptions(CLI::App& app);
  void understand(LaunchOptions& options) const override;

 private:
  bool has_address() const {
    const auto& given = app_.get_option("--master-addr")->results();
    return !given.empty() && !given.front().empty();
  }
  void parse_node_count(LaunchOptions& options) const;
  void parse_endpoint(LaunchOptions& options) const;
  void parse_conf(LaunchOptions& options) const;
  void place(LaunchOptions& options) const;

  const CLI::App& app_;
  // The values as given, not checked yet.
  std::string count_ = "1";
  std::string rank_ = "0";
  std::string backend_ = "static";
  std::string endpoint_;
  std::string conf_;
  std::string monitor_interval_ = "0.1";
};

NodeOptions::NodeOptions(CLI::App& app) : app_(app) {
  app.option_defaults()->group("Processes");
  app.add_option("--nnodes", count_, "hosts: a number, or MIN:MAX (default 1)");
  app.add_option("--node-rank", rank_, "which of the hosts this is, with --rdzv-backend static (default 0)");
  app.option_defaults()->group("Meeting");
  app.add_option("--rdzv-backend", backend_,
                 "static: hosts are numbered by --node-rank; c10d: as they arrive (default static)")
      ->check(CLI::IsMember({"static", "c10d"}));
  app.add_option("--rdzv-endpoint", endpoint_, "HOST:PORT to meet at; with c10d HOST serves it (default port 29400)");
  app.add_option("--rdzv-conf", conf_,
                 "name=seconds,...: join_timeout (600), last_call_timeout (30), keep_alive_interval (5) times "
                 "keep_alive_max_attempt (3); is_host=0 or 1");
  app.add_option("--monitor-interval", monitor_interval_, "seconds between checks of the other hosts (default 0.1)");
}

void NodeOptions::understand(LaunchOptions& options) const {
  parse_node_count(options);
  if (!endpoint_.empty()) {
    TANDEM_CHECK(!has_address() && options.master_port == 0, "--rdzv-endpoint ", endpoint_,
                 ": means the same as --master-addr and --master-port; use only one of them");
    parse_endpoint(options);
  }
  place(options);
  parse_conf(options);
  options.monitor_interval = parse_seconds("--monitor-interval", monitor_interval_, 0.001, 60);
}

void NodeOptions::parse_node_count(LaunchOptions& options) const {
  const auto colon = std::min(count_.find(':'), count_.size());
  options.min_nodes = small_number(count_.substr(0, colon));
  options.max_nodes = colon < count_.size() ? small_number(count_.substr(colon + 1)) : options.min_nodes;
  TANDEM_CHECK(options.min_nodes > 0 && options.max_nodes >= options.min_nodes, "--nnodes ", count_,
               ": expected a number of at least 1, or MIN:MAX with MIN at most MAX");
}

void NodeOptions::parse_endpoint(LaunchOptions& options) const {
  // Allowed forms: HOST, HOST:PORT, [IPV6]:PORT, IPV6.
  const std::string& text = endpoint_;
  const bool is_bracketed = text.front() == '[';
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

void NodeOptions::place(LaunchOptions& options) const {
  const bool is_static = backend_ == "static";
  const int rank = parse_whole("--node-rank", rank_);
  if (options.max_nodes == 1) {
    TANDEM_CHECK(rank == 0, "--node-rank ", rank, ": a job on one host has only node 0");
    return;
  }
  TANDEM_CHECK(app_.count("--standalone") == 0, "--standalone --nnodes ", count_, ": a standalone job has one host");
  TANDEM_CHECK(has_address() || !endpoint_.empty(), "--nnodes ", count_,
               ": several hosts need the address of one of them to meet at: --master-addr (with --node-rank), or "
               "--rdzv-backend c10d --rdzv-endpoint HOST:PORT");
  if (options.master_port == 0) options.master_port = is_static ? 29500 : 29400;
  if (!is_static) return;
  TANDEM_CHECK(options.min_nodes == options.max_nodes, "--nnodes ", count_,
               ": a range of hosts needs --rdzv-backend c10d; static has a fixed number");
  TANDEM_CHECK(rank < options.max_nodes, "--node-rank ", rank, ": with --nnodes ", count_, " there are nodes 0 to ",
               options.max_nodes - 1);
  options.node_rank = rank;
}

void NodeOptions::parse_conf(LaunchOptions& options) const {
  double keep_alive_interval = 5, keep_alive_attempts = 3;
  const auto seconds = [](double value) { return LaunchOptions::Duration(static_cast<std::int64_t>(value * 1000)); };
  std::istringstream parts(conf_);
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

}  // namespace
}  // namespace tandem::distributed

namespace tandem {

void add_node_options() {
  using namespace distributed;
  launch_option_groups.add([](CLI::App& app) { return std::make_unique<NodeOptions>(app); });
}

}  // namespace tandem
