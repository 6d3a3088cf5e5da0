#include <tandem/distributed/system/host_address.h>
#include <tandem/distributed/system/host_identity.h>

#include <limits.h>
#include <unistd.h>

#include <fstream>

namespace tandem::distributed {

AnnexList<ChooseAddress>& addresses_for_other_hosts() {
  static AnnexList<ChooseAddress> choices(add_distributed_annexes);
  return choices;
}

bool is_loopback(const std::string& host) { return host == "localhost" || host.starts_with("127.") || host == "::1"; }

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
