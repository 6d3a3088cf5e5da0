// What tells hosts apart: names, addresses, boots.
#pragma once

#include <string>

namespace tandem::distributed {

// Whether this name is localhost or ends with .localhost, in any case and with or without a dot at its end. Such names
// mean this machine, even if /etc/hosts does not list them (RFC 6761, section 6.3).
bool is_localhost(std::string host);
// Whether this address or name is this host's loopback address.
bool is_loopback(const std::string& host);

std::string host_name();

// A text that names the machine's boot. Processes on one machine have the same text, even in different containers.
std::string machine_identity();

// A text that names the machine's boot and this process's network namespace. Processes with the same text reach each
// other through 127.0.0.1.
std::string loopback_identity();

}  // namespace tandem::distributed
