#include <tandem/core/check.h>
#include <tandem/distributed/environment.h>
#include <tandem/distributed/tcp_store.h>

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string_view>

namespace tandem::distributed {
namespace {

// The variables as one launcher's processes see them. An empty variable counts as not set.
class Variables {
 public:
  explicit Variables(const std::function<const char*(const char*)>& variable) : variable_(variable) {}

  std::string text(const char* name) const {
    const char* value = variable_(name);
    return value ? value : "";
  }
  bool is_set(const char* name) const { return !text(name).empty(); }

  // The number in [low, high] that `name` holds.
  int number(const char* name, int low, int high) const {
    const auto value = text(name);
    int number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool is_number = error == std::errc() && end == value.data() + value.size();
    TANDEM_CHECK(is_number && number >= low && number <= high, name, " is \"", value,
                 "\", expected a number ", high == std::numeric_limits<int>::max() ? "of at least " : "from ",
                 low, high == std::numeric_limits<int>::max() ? "" : " to " + std::to_string(high),
                 ": start the program with tandemrun or torchrun, or unset it");
    return number;
  }
  int number(const char* name, int low, int high, int otherwise) const {
    return is_set(name) ? number(name, low, high) : otherwise;
  }
  bool truth(const char* name) const {
    const auto value = text(name);
    TANDEM_CHECK(value.empty() || value == "True" || value == "False", name, " is \"", value,
                 "\", expected True or False");
    return value == "True";
  }

 private:
  const std::function<const char*(const char*)>& variable_;
};

constexpr int any = std::numeric_limits<int>::max();

Environment read_torchrun(const Variables& variables) {
  for (const char* name : {"RANK", "WORLD_SIZE"}) {
    TANDEM_CHECK(variables.is_set(name), name, " is not set, but ", name[0] == 'R' ? "WORLD_SIZE" : "RANK",
                 " is: a launcher sets both (tandemrun, torchrun); for a process on its own unset both");
  }
  Environment result;
  result.world_size = variables.number("WORLD_SIZE", 1, any);
  result.rank = variables.number("RANK", 0, result.world_size - 1);
  // Without the local variables (set by hand, or by a launcher of another kind) each process is taken to be
  // alone on its host.
  result.local_world_size = variables.number("LOCAL_WORLD_SIZE", 1, result.world_size, 1);
  result.local_rank = variables.number(
      "LOCAL_RANK", 0, variables.is_set("LOCAL_WORLD_SIZE") ? result.local_world_size - 1 : any, 0);
  result.group_world_size = variables.number("GROUP_WORLD_SIZE", 1, result.world_size, 1);
  result.group_rank = variables.number("GROUP_RANK", 0, any, 0);

  result.master_addr = variables.text("MASTER_ADDR");
  if (variables.is_set("MASTER_PORT")) result.master_port = variables.number("MASTER_PORT", 1, 65535);
  if (result.world_size > 1) {
    for (const char* name : {"MASTER_ADDR", "MASTER_PORT"}) {
      TANDEM_CHECK(variables.is_set(name), name, " is not set, but WORLD_SIZE is ", result.world_size,
                   ": the processes of a job find each other at MASTER_ADDR:MASTER_PORT");
    }
  }
  result.run_id = variables.text("TORCHELASTIC_RUN_ID");
  result.restart_count = variables.number("TORCHELASTIC_RESTART_COUNT", 0, any, 0);
  result.uses_agent_store = variables.truth("TORCHELASTIC_USE_AGENT_STORE");
  result.store_token = variables.text("TANDEM_STORE_TOKEN");
  return result;
}

struct ServedStore {
  TcpStoreServer server;
  TcpStore client;
};

}  // namespace

Environment read_environment(const std::function<const char*(const char*)>& variable) {
  const Variables variables(variable);
  if (variables.is_set("RANK") || variables.is_set("WORLD_SIZE")) return read_torchrun(variables);
  return {};
}

Environment read_environment() {
  return read_environment([](const char* name) -> const char* { return std::getenv(name); });
}

std::shared_ptr<Store> connect_store(const Environment& environment, Store::Timeout timeout) {
  TANDEM_CHECK(
      !environment.master_addr.empty() && environment.master_port > 0,
      "this process has no MASTER_ADDR and MASTER_PORT, so there is no store to connect to: start it with "
      "tandemrun or torchrun");
  const TcpStore::Options client{environment.master_addr, environment.master_port, timeout,
                                 environment.store_token};
  std::shared_ptr<Store> store;
  if (environment.rank == 0 && !environment.uses_agent_store) {
    const bool is_one_host = environment.local_world_size == environment.world_size;
    const TcpStoreServer::Options server{is_one_host ? environment.master_addr : "", environment.master_port,
                                         environment.store_token};
    const std::shared_ptr<ServedStore> served(new ServedStore{TcpStoreServer(server), TcpStore(client)});
    store = std::shared_ptr<Store>(served, &served->client);
  } else {
    store = std::make_shared<TcpStore>(client);
  }
  return prefix_store(environment.run_id + "/" + std::to_string(environment.restart_count), std::move(store));
}

void report_failure(const std::string& message, std::chrono::system_clock::time_point when) noexcept try {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (!path || !*path) return;
  const auto now = when.time_since_epoch();
  // torchrun reads whole seconds; the nanoseconds let tandemrun tell failures apart that come within one
  // second.
  const nlohmann::json report = {
      {"message",
       {{"message", message},
        {"extraInfo",
         {{"py_callstack", message},  // what torchrun shows
          {"timestamp", std::to_string(std::chrono::duration_cast<std::chrono::seconds>(now).count())},
          {"timestamp_ns",
           std::to_string(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count())}}}}}};
  // The launcher may read while this is written, and a half-written report is none.
  const auto temporary = std::string(path) + "." + std::to_string(getpid());
  std::ofstream file(temporary);
  file << report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::flush;
  file.close();
  if (!file || std::rename(temporary.c_str(), path) != 0) std::remove(temporary.c_str());
} catch (...) {
}

}  // namespace tandem::distributed
