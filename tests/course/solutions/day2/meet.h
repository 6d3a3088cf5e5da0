#pragma once
#include "ports.h"
#include "ranks.h"
#include "store.h"

inline course::Ring meet(const course::Store& store, int rank, int world) {
  const auto [listener, port] = course::listen_on_a_free_port();
  store.set("port-" + std::to_string(rank), std::to_string(port));
  const int next = course::connect_to(std::stoi(store.get("port-" + std::to_string((rank + 1) % world))));
  return {rank, world, next, course::accept_one(listener)};
}
