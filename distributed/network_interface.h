// Which of this host's addresses a group of ranks talks over.
#pragma once

#include <string>

namespace tandem::distributed {

// An address of this host, in digits. `interface` is a name ("eth0") or a network ("10.1.0.0/16"): Error when
// this host has no such interface. Empty: where the host's name leads, if that is an address of this host,
// else the loopback.
std::string local_address(const std::string& interface);

std::string host_name();

// Equal for processes that reach each other through 127.0.0.1: the same boot of the same machine, the same
// network namespace.
std::string loopback_identity();

}  // namespace tandem::distributed
