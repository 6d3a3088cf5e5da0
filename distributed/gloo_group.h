// GlooGroup: a process group of several ranks over TCP, for arrays in host memory.
#pragma once

#include <tandem/distributed/process_group.h>
#include <tandem/distributed/store.h>

#include <chrono>
#include <memory>
#include <string>

namespace tandem::distributed {

struct GlooOptions {
  int rank = 0;
  int size = 1;
  // The longest wait for a peer, in any operation and while connecting.
  std::chrono::milliseconds timeout = std::chrono::seconds(300);
  // The network interface, by name ("eth0") or by network ("10.1.0.0/16"). Empty: the loopback when all ranks
  // share a host, else the address of the host's name.
  std::string interface {};
};

// Connects every rank to every other; returns when all are there. `store` must hold no key of an earlier
// group (use a prefix_store). One thread of the group runs its operations in the order
// in which they were started. Destroying the group breaks off what is still running.
std::shared_ptr<ProcessGroup> gloo_group(std::shared_ptr<Store> store, const GlooOptions& options);

}  // namespace tandem::distributed
