// Resolves host names, with a deadline. The system's resolver may take minutes if a name server does not answer.
#pragma once

#include <tandem/distributed/system/socket.h>

#include <netdb.h>

#include <memory>
#include <string>

namespace tandem::distributed {

// Returns the list of TCP addresses of `host`. If there are none, or if the resolver has not answered by the deadline,
// the function returns null and sets `reason`. If an answer arrives later, the next call for this host and port returns
// it. A numeric address needs no resolver.
std::shared_ptr<const addrinfo> resolve(const std::string& host, int port, Deadline deadline, std::string& reason);

}  // namespace tandem::distributed
