#pragma once
#include <vector>

#include "progress.h"

inline std::vector<int> behind(const std::vector<Progress>& ranks, int operation) {
  std::vector<int> late;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (ranks[rank].in_operation < operation && ranks[rank].done < operation) late.push_back(rank);
  return late;
}

inline int cause(const std::vector<End>& ends) {
  int found = -1;
  double earliest = 0;
  for (const End& end : ends) {
    if (end.exit_code == 0 && end.signal == 0) continue;
    if (end.was_stopped && !end.has_report) continue;
    const double time = end.seconds - (end.signal != 0 && !end.has_report ? 1 : 0);
    if (found < 0 || time < earliest) found = end.rank, earliest = time;
  }
  return found;
}
