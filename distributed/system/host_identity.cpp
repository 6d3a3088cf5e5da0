#include <tandem/distributed/system/host_identity.h>

#include <arpa/inet.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>

namespace tandem::distributed {

bool is_localhost(std::string host) {
  std::transform(host.begin(), host.end(), host.begin(), [](unsigned char c) { return std::tolower(c); });
  if (host.ends_with('.')) host.pop_back();
  return host == "localhost" || host.ends_with(".localhost");
}

bool is_loopback(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  return is_localhost(host) || (inet_aton(host.c_str(), &v4) != 0 && ntohl(v4.s_addr) >> 24 == 127) ||
         (inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6));
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

std::string machine_identity() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id") >> std::ws, boot);
  return boot;
}

std::string loopback_identity() {
  char network[64] = "";
  [[maybe_unused]] const auto length = readlink("/proc/self/ns/net", network, sizeof network - 1);
  return machine_identity() + " " + network;
}

}  // namespace tandem::distributed
