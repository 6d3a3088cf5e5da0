// Chooses the address of this host over which a group of ranks communicates.
#pragma once

#include <string>

namespace tandem::distributed {

// Returns a numeric address of this host ("10.1.0.7"). `interface` is the name of a network interface ("eth0") or a
// network ("10.1.0.0/16"). Throws an Error if this host has no such interface or no address in that network.
std::string local_address(const std::string& interface);

// Returns a numeric address at which other hosts can probably reach this host. The function first tries `on_the_way`,
// the address from which this host reaches a service that all hosts know, then the address of the host's name, then any
// other address. It skips loopback addresses, because the host's name has a loopback address on some systems. The
// result is 127.0.0.1 if this host has no other address.
std::string reachable_address(const std::string& on_the_way);

}  // namespace tandem::distributed
