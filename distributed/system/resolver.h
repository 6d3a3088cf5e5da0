// The addresses of hosts, with a deadline: the system's resolver may take minutes where a name server is silent.
#pragma once

#include <tandem/distributed/system/socket.h>

#include <netdb.h>

#include <memory>
#include <string>

namespace tandem::distributed {

// Returns the addresses of `host` for TCP, a list. If there are none, or if the resolver has not answered by the
// deadline, the function returns null and sets `reason`. An answer that comes later serves the next call for this host
// and port. An address in digits needs no resolver.
std::shared_ptr<const addrinfo> resolve(const std::string& host, int port, Deadline deadline, std::string& reason);

}  // namespace tandem::distributed
