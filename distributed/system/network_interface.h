// Which of this host's addresses a group of ranks talks over.
#pragma once

#include <string>

namespace tandem::distributed {

// An address of this host, in digits ("10.1.0.7"). `interface` is the name of a network interface ("eth0") or a network
// ("10.1.0.0/16"). Error when this host has no such interface or no address in that network.
std::string local_address(const std::string& interface);

// An address at which other hosts are likely to reach this host, in digits. The function tries in this order:
// `on_the_way`, the address from which this host reaches a service that all hosts know; the address of the host's name;
// any other address. It skips loopback addresses, because some systems give the host's name a loopback address. The
// result is 127.0.0.1 if this host has no other address.
std::string reachable_address(const std::string& on_the_way);

}  // namespace tandem::distributed
