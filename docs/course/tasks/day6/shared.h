#pragma once
#include "board.h"
#include "check.h"

// Replaces `values` by the sum of all ranks' values, added in the order of the ranks. `operation` counts the
// calls from 1, and is the same on all ranks. `size` is at most Board::room.
inline void shared_all_reduce(course::Board& board, unsigned operation, int rank, int world, float* values,
                              std::size_t size) {
  (void)board, (void)operation, (void)rank, (void)world, (void)values, (void)size;
  throw course::NotWritten();  // your code
}
