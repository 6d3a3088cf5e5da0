// Signs of life: through the group's store, the ranks find out who is alive, who has left, and why the group failed.
#pragma once

#include <tandem/core/base/deadline.h>
#include <tandem/distributed/store/store.h>

#include <string>
#include <utility>

namespace tandem::distributed {

// No other code reads or writes these keys of the group's store:
//
//   key         written by                                       says
//   watch       each rank that has waited for long               how often ranks have asked for signs of life
//   progress/R  the watchdog of rank R, after each question      that R is alive, and what it is doing
//   left/R      rank R when it leaves; the store's server when   that R is gone
//               R's connection ends
//   failure     the first rank that fails                        why the group failed
//
// A rank is *gone* when it has left or its process has ended. It is *silent* when it is not gone, but does not answer
// questions: its process may be stopped, or its host unreachable. Watchdogs mention a rank in errors after it has been
// silent for 2 s. run_together() stops waiting for a rank that has been silent for the group's timeout. A group without
// watchdogs has no signs of life, so none of its ranks counts as silent.

inline std::string progress_key(int rank) { return "progress/" + std::to_string(rank); }
inline std::string left_key(int rank) { return "left/" + std::to_string(rank); }
std::string value_of(Store& store, const std::string& key);  // empty if there is no such key

// Asks all ranks for a sign of life.
inline void ask_for_signs(Store& store) { store.add("watch", 1); }
// Returns a text that changes with every question, or an empty string if no rank has asked yet.
inline std::string last_question(Store& store) { return value_of(store, "watch"); }
inline void give_sign(Store& store, int rank, const std::string& sign) { store.set(progress_key(rank), sign); }
// Returns the last sign of `rank`, or an empty string if there is none yet. Each sign differs from the previous one.
inline std::string last_sign(Store& store, int rank) { return value_of(store, progress_key(rank)); }

// The last sign of life of another rank, and the time when this rank first saw it.
struct SeenSign {
  std::string text;
  Deadline since = RunningTime::now();

  void update(std::string last) {
    if (last == text) return;
    text = std::move(last);
    since = RunningTime::now();
  }
};

// Tells the store that the end of this process counts as leaving.
inline void leave_when_gone(Store& store, int rank) { store.set_when_gone(left_key(rank)); }
inline void leave(Store& store, int rank) { store.set(left_key(rank), ""); }
inline bool has_left(Store& store, int rank) { return store.check({left_key(rank)}); }
// Leaves the group. Rank 0 may be serving the store, so it leaves last: it waits up to 2 s for all other ranks to
// leave.
void leave_together(Store& store, int rank, int size);

// Tells all ranks why this rank failed. Returns the reason why the group failed first, which may be another rank's.
// Returns `failure` if the store is gone.
std::string report_to_ranks(Store& store, const std::string& failure);
// Returns why the group failed, or an empty string if it has not failed.
inline std::string failure_of_group(Store& store) { return value_of(store, "failure"); }
// Called after `rank` has closed a connection. Waits up to two seconds until the store says why the group failed or
// that `rank` is gone. A rank that gave up waiting for a third rank closes its connections a moment before it reports
// the reason.
void await_reason(Store& store, int rank);

}  // namespace tandem::distributed
