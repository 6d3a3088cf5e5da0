#include <tandem/core/base/check.h>
#include <tandem/core/base/deadline.h>
#include <tandem/core/base/number_in.h>
#include <tandem/distributed/system/host_address.h>
#include <tandem/distributed/system/host_identity.h>
#include <tandem/distributed/system/network_interface.h>
#include <tandem/distributed/system/resolver.h>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

namespace tandem::distributed {
namespace {

struct Address {
  std::string interface;
  std::string text;
  std::vector<unsigned char> bytes;  // 4 for IPv4 or 16 for IPv6, in network byte order
};

std::vector<unsigned char> bytes_of(const sockaddr* address) {
  const auto* begin =
      address->sa_family == AF_INET
          ? reinterpret_cast<const unsigned char*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr)
          : reinterpret_cast<const unsigned char*>(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  return {begin, begin + (address->sa_family == AF_INET ? 4 : 16)};
}

std::string text_of(const std::vector<unsigned char>& bytes) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(bytes.size() == 4 ? AF_INET : AF_INET6, bytes.data(), text, sizeof text);
  return text;
}

// Returns IPv4 addresses before IPv6 addresses, because every rank of a job is likely to have an IPv4 address.
std::vector<Address> addresses_of_this_host() {
  ifaddrs* list = nullptr;
  TANDEM_CHECK(getifaddrs(&list) == 0, "can't list the network interfaces: ", std::strerror(errno));
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  std::vector<Address> result;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
      if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != family) continue;
      const auto bytes = bytes_of(i->ifa_addr);
      result.push_back({i->ifa_name, text_of(bytes), bytes});
    }
  }
  return result;
}

// Returns whether other hosts cannot use this address, because it is a loopback address, or an IPv6 address that is
// valid on one link only (fe80::/10).
bool is_of_one_host(const std::vector<unsigned char>& address) {
  if (address.size() == 4) return address[0] == 127;
  const bool is_loopback = text_of(address) == "::1", is_of_link = address[0] == 0xfe && (address[1] & 0xc0) == 0x80;
  return is_loopback || is_of_link;
}

bool in_network(const std::vector<unsigned char>& address, const std::vector<unsigned char>& network, int prefix) {
  if (address.size() != network.size()) return false;
  for (int bit = 0; bit < prefix; ++bit) {
    const unsigned char mask = 0x80u >> (bit % 8);
    if ((address[bit / 8] & mask) != (network[bit / 8] & mask)) return false;
  }
  return true;
}

std::string address_in(const std::string& network) {
  const auto slash = network.find('/');
  const std::string base = network.substr(0, slash);
  unsigned char bytes[16];
  std::size_t size = 0;
  if (inet_pton(AF_INET, base.c_str(), bytes) == 1) size = 4;
  else if (inet_pton(AF_INET6, base.c_str(), bytes) == 1) size = 16;
  const auto prefix = number_in(network.substr(slash + 1), 0, static_cast<int>(size) * 8);
  TANDEM_CHECK(size > 0 && prefix, "interface '", network, "' is not a network like 10.1.0.0/16");
  for (const auto& a : addresses_of_this_host()) {
    if (in_network(a.bytes, {bytes, bytes + size}, *prefix)) return a.text;
  }
  detail::fail("host ", host_name(), " has no address in the network ", network);
}

}  // namespace

std::string local_address(const std::string& interface) {
  if (interface.find('/') != std::string::npos) return address_in(interface);
  std::string names;
  for (const auto& a : addresses_of_this_host()) {
    if (a.interface == interface) return a.text;
    if (names.find(a.interface) == std::string::npos) names += (names.empty() ? "" : ", ") + a.interface;
  }
  detail::fail("host ", host_name(), " has no network interface '", interface, "'; it has ", names);
}

std::string reachable_address(const std::string& on_the_way) {
  auto addresses = addresses_of_this_host();
  std::erase_if(addresses, [](const Address& a) { return is_of_one_host(a.bytes); });
  const auto is_ours = [&](const std::string& text) {
    return std::any_of(addresses.begin(), addresses.end(), [&](const Address& a) { return a.text == text; });
  };
  if (is_ours(on_the_way)) return on_the_way;
  // In 10 s, the resolver has time to give up on its first name server (after 5 s, resolv.conf(5)) and ask the second.
  std::string reason;
  const auto found = resolve(host_name(), 0, RunningTime::now() + std::chrono::seconds(10), reason);
  for (const addrinfo* i = found.get(); i != nullptr; i = i->ai_next) {
    const std::string text = text_of(bytes_of(i->ai_addr));
    if (is_ours(text)) return text;
  }
  return addresses.empty() ? "127.0.0.1" : addresses.front().text;
}

}  // namespace tandem::distributed

namespace tandem {

void add_network_interfaces() {
  using namespace distributed;
  addresses_for_other_hosts.add([](const std::string& interface, const std::string& on_the_way) {
    return interface.empty() ? reachable_address(on_the_way) : local_address(interface);
  });
}

}  // namespace tandem
