// The facts about ranks that are late, and about ranks that have ended.
#pragma once

// A rank's entry in the store: the operation that it is in, counted from 1, or 0 while it computes; the number of
// operations that it has done; and the seconds since its last sign of life.
struct Progress {
  int in_operation, done;
  double silent;
};

// The end of a rank.
struct End {
  int rank;
  double seconds;    // when its report says that it failed; without a report, when the launcher saw its end
  int exit_code;     // 0 if a signal ended it
  int signal;        // 0 if it exited by itself
  bool was_stopped;  // the launcher had told it to stop before
  bool has_report;   // it wrote down why it failed
};
