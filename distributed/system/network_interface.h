// Which of this host's addresses a group of ranks talks over.
#pragma once

#include <string>

namespace tandem::distributed {

// An address of this host, in digits. `interface` is a name ("eth0") or a network ("10.1.0.0/16"): Error when
// this host has no such interface.
std::string local_address(const std::string& interface);

// An address at which other hosts are likely to reach this host, in digits. Tried in this order: `on_the_way`, the
// address from which this host reaches a service that all hosts know; the address of the host's name; any other
// address. The result is a loopback address only where this host has nothing else: some systems give the host's name
// a loopback address, which is therefore skipped.
std::string reachable_address(const std::string& on_the_way);

std::string host_name();

// A text that is equal for processes on one machine, in whatever containers they run: it names the machine's boot.
std::string machine_identity();

// A text that is equal for processes that reach each other through 127.0.0.1: it names the machine's boot and the
// network namespace.
std::string loopback_identity();

}  // namespace tandem::distributed
