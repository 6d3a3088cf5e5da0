// What tells hosts apart: names, addresses, boots.
#pragma once

#include <string>

namespace tandem::distributed {

// Whether this address or name is this host's loopback address.
bool is_loopback(const std::string& host);

std::string host_name();

// A text that names the machine's boot. Processes on one machine have the same text, even in different containers.
std::string machine_identity();

// A text that names the machine's boot and this process's network namespace. Processes with the same text reach each
// other through 127.0.0.1.
std::string loopback_identity();

}  // namespace tandem::distributed
