#include <tandem/distributed/host_group.h>
#include <tandem/distributed/init.h>
#include <tandem/distributed/local_group.h>

#include <cstdlib>

namespace tandem::distributed {
namespace {

struct Endpoint {
  std::string host;
  std::string port;
};

Endpoint parse_init_method(const std::string& method) {
  const std::string scheme = "tcp://";
  const auto colon = method.rfind(':');
  const bool has_scheme = method.compare(0, scheme.size(), scheme) == 0;
  TANDEM_CHECK(has_scheme && colon > scheme.size() && colon + 1 < method.size(), "init method '", method,
               "' is none of env:// and tcp://HOST:PORT");
  std::string host = method.substr(scheme.size(), colon - scheme.size());
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return {host, method.substr(colon + 1)};
}

}  // namespace

Environment environment_for(const std::string& method) {
  if (method == "env://") return read_environment();
  const auto endpoint = parse_init_method(method);
  const auto variable = [&](const char* name) -> const char* {
    const std::string_view asked = name;
    if (asked == "MASTER_ADDR") return endpoint.host.c_str();
    if (asked == "MASTER_PORT") return endpoint.port.c_str();
    return std::getenv(name);
  };
  auto environment = read_environment(variable);
  // The launcher serves its own address only; at another one rank 0 does.
  const char* address = std::getenv("MASTER_ADDR");
  const char* port = std::getenv("MASTER_PORT");
  if (!address || !port || endpoint.host != address || endpoint.port != port)
    environment.uses_agent_store = false;
  return environment;
}

void check_init_method(const std::string& method) {
  if (method != "env://") parse_init_method(method);
}

std::shared_ptr<ProcessGroup> init(const InitOptions& options) {
  const auto environment = environment_for(options.init_method);
  if (environment.world_size == 1) return local_group();
  return host_group(
      connect_store(environment, options.timeout),
      {environment.rank, environment.world_size, options.timeout, options.interface, options.backend});
}

}  // namespace tandem::distributed
