// Connects tests to a store's server in the same process.
#pragma once

#include <tandem/distributed/store/tcp_store.h>

#include <chrono>
#include <string>
#include <utility>

namespace tandem::testing {

inline distributed::TcpStore::Options options_for(const distributed::TcpStoreServer& server,
                                                  distributed::Store::Timeout timeout = std::chrono::seconds(10),
                                                  std::string token = "") {
  return {"127.0.0.1", server.port(), timeout, std::move(token)};
}

}  // namespace tandem::testing
