#pragma once
#include "ports.h"
#include "ranks.h"
#include "store.h"

// The ring of `world` ranks that so far share nothing but a store: each listens on a port, tells the others which one,
// connects to the next rank, and accepts the previous one.
inline course::Ring meet(const course::Store& store, int rank, int world) {
  (void)store, (void)rank, (void)world;
  throw course::NotWritten();  // your code
}
