#pragma once
#include "ports.h"
#include "ranks.h"
#include "store.h"

// The ring of `world` ranks that so far share only a store. Each rank listens on a port, publishes its number, connects
// to the next rank, and accepts the previous rank.
inline course::Ring meet(const course::Store& store, int rank, int world) {
  (void)store, (void)rank, (void)world;
  throw course::NotWritten();  // your code
}
