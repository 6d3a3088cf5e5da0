// What is known of ranks that are late, and of ranks that have ended.
#pragma once

// What a rank has written into the store: the operation that it is in, counted from 1, or 0 while it computes; how many
// operations it has done; for how many seconds it has given no sign of life.
struct Progress {
  int in_operation, done;
  double silent;
};

// How a rank ended.
struct End {
  int rank;
  double seconds;    // when its report says that it failed; without a report, when the launcher saw its end
  int exit_code;     // 0 if a signal ended it
  int signal;        // 0 if it exited by itself
  bool was_stopped;  // the launcher had told it to stop before
  bool has_report;   // it wrote down why it failed
};
