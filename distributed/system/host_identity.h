// Identifies hosts by their names, addresses and boots.
#pragma once

#include <string>

namespace tandem::distributed {

// Returns whether this name is localhost or ends with .localhost, in upper or lower case, with or without a trailing
// dot. Such names refer to this machine, even if /etc/hosts does not list them (RFC 6761, section 6.3).
bool is_localhost(std::string host);
// Returns whether this address or name is this host's loopback address.
bool is_loopback(const std::string& host);

std::string host_name();

// Returns a text that identifies the machine's boot. It is equal for all processes on one machine, even in different
// containers.
std::string machine_identity();

// Returns a text that identifies the machine's boot and this process's network namespace. Processes with the same text
// can reach each other through 127.0.0.1.
std::string loopback_identity();

}  // namespace tandem::distributed
