// Which of this host's addresses a group of ranks talks over.
#pragma once

#include <string>

namespace tandem::distributed {

// An address of this host, in digits. `interface` is a name ("eth0") or a network ("10.1.0.0/16"): Error when
// this host has no such interface.
std::string local_address(const std::string& interface);

// One at which other hosts are likely to reach it, in digits: `on_the_way`, from which this host reaches a service that
// all know, then where the host's name leads, then any. The loopback where this host has nothing else; some systems
// give the host's name an address of that.
std::string reachable_address(const std::string& on_the_way);

std::string host_name();

// Equal for processes on one machine, in whatever container: the same boot.
std::string machine_identity();

// Equal for processes that reach each other through 127.0.0.1: the same boot of the same machine, the same
// network namespace.
std::string loopback_identity();

}  // namespace tandem::distributed
