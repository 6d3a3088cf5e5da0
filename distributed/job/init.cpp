#include <tandem/core/base/check.h>
#include <tandem/core/base/number_in.h>
#include <tandem/core/base/standard_output.h>
#include <tandem/distributed/groups/device_group.h>
#include <tandem/distributed/groups/host/host_group.h>
#include <tandem/distributed/groups/local_group.h>
#include <tandem/distributed/job/init.h>
#include <tandem/distributed/job/program.h>
#include <tandem/distributed/job/rendezvous.h>

#include <cstdlib>
#include <string_view>
#include <utility>

namespace tandem::distributed {
namespace {

struct Endpoint {
  std::string host;
  std::string port;
};

constexpr std::string_view tcp = "tcp://", file = "file://";

Endpoint parse_endpoint(const std::string& method) {
  const auto colon = method.rfind(':');
  TANDEM_CHECK(colon > tcp.size() && colon + 1 < method.size(), "init method '", method,
               "' is not of the form tcp://HOST:PORT");
  std::string host = method.substr(tcp.size(), colon - tcp.size());
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const std::string port = method.substr(colon + 1);
  TANDEM_CHECK(number_in(port, 1, 65535), "init method '", method, "' has the port ", port,
               ", expected a number from 1 to 65535");
  return {host, port};
}

// Returns the function that makes NCCL groups. Throws an Error if the build has no NCCL.
const MakeDeviceGroup& nccl() {
  const auto groups = device_groups.entries();
  TANDEM_CHECK(!groups.empty(),
               "this build has no CUDA, and so no NCCL (cmake --preset cuda): expected the backend auto, gloo, shm or "
               "mpi");
  return groups.front();
}

Observers observers_of_job(const Environment& environment, Store& store) {
  Observers observers;
  for (const auto& make : job_observers.entries()) {
    for (auto& observer : make(environment, store)) observers.push_back(std::move(observer));
  }
  return observers;
}

}  // namespace

Environment environment_for(const std::string& method) {
  check_init_method(method);
  if (method.starts_with(file)) {
    auto environment = read_environment(::getenv, false);
    environment.store_path = method.substr(file.size());
    return environment;
  }
  if (!method.starts_with(tcp)) return read_environment();
  const auto endpoint = parse_endpoint(method);
  const auto variable = [&](const char* name) -> const char* {
    const std::string_view asked = name;
    if (asked == "MASTER_ADDR") return endpoint.host.c_str();
    if (asked == "MASTER_PORT") return endpoint.port.c_str();
    return std::getenv(name);
  };
  auto environment = read_environment(variable);
  // The launcher serves a store only at its own address. At any other address, rank 0 serves it.
  const char* address = std::getenv("MASTER_ADDR");
  const char* port = std::getenv("MASTER_PORT");
  if (!address || !port || endpoint.host != address || endpoint.port != port) environment.uses_agent_store = false;
  return environment;
}

void check_init_method(const std::string& method) {
  if (method.starts_with(tcp)) {
    parse_endpoint(method);
  } else {
    const bool names_file = method.starts_with(file) && method.size() > file.size();
    TANDEM_CHECK(method == "env://" || names_file, "init method '", method,
                 "' is not one of env://, tcp://HOST:PORT and file://PATH");
  }
}

namespace {

std::shared_ptr<ProcessGroup> group_of_job(const InitOptions& options) {
  auto environment = environment_for(options.init_method);
  if (environment.is_elastic)
    throw UsageError(
        "this program calls init(), whose process group does not survive a rank: start it without --elastic");
  const bool on_gpus =
      options.backend == GroupBackend::nccl || (options.backend == GroupBackend::automatic && !options.device.is_cpu());
  if (on_gpus) nccl();  // Error without NCCL
  if (environment.world_size == 1) return local_group();
  environment.open_store = options.open_store;
  auto store = connect_store(environment, options.timeout);
  const auto observers = observers_of_job(environment, *store);
  auto host =
      host_group(std::move(store), {environment.rank, environment.world_size, options.timeout, options.interface,
                                    on_gpus ? GroupBackend::automatic : options.backend, observers, on_gpus});
  if (!on_gpus) return host;
  const Device device =
      options.device.is_cpu() ? Device::cuda(gpu_of(environment, device_count(Device::Kind::cuda))) : options.device;
  return nccl()(std::move(host), device, environment.rank, observers);
}

}  // namespace

std::shared_ptr<ProcessGroup> init(const InitOptions& options) {
  prepare_standard_streams();
  auto group = group_of_job(options);
  if (options.when_met) options.when_met(*group);
  return group;
}

}  // namespace tandem::distributed
