#pragma once
#include <algorithm>

#include "board.h"

inline void shared_all_reduce(course::Board& board, unsigned operation, int rank, int world, float* values,
                              std::size_t size) {
  std::copy_n(values, size, board.numbers(rank));
  board.raise(rank, 2 * operation);
  board.wait_for_all(2 * operation);
  for (std::size_t i = 0; i < size; ++i) {
    values[i] = board.numbers(0)[i];
    for (int r = 1; r < world; ++r) values[i] += board.numbers(r)[i];
  }
  board.raise(rank, 2 * operation + 1);
  board.wait_for_all(2 * operation + 1);
}
