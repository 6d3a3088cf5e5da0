#pragma once
#include "check.h"
#include "progress.h"

// The ranks that have not reached operation `operation`. All other ranks wait in it or are past it.
inline std::vector<int> behind(const std::vector<Progress>& ranks, int operation) {
  (void)ranks, (void)operation;
  throw course::NotWritten();  // your code
}

// The rank whose failure is the cause; -1 if none has failed. A rank that was stopped and has no report has only
// obeyed. The earliest failure is the cause. A rank that a signal ended without a report could not write down the time,
// so its end counts as one second earlier.
inline int cause(const std::vector<End>& ends) {
  (void)ends;
  throw course::NotWritten();  // your code
}
