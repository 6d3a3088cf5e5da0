// Signs of life: how the ranks of a group learn, through its store, who lives, who has left, and why the group failed.
#pragma once

#include <tandem/core/base/deadline.h>
#include <tandem/distributed/store/store.h>

#include <string>
#include <utility>

namespace tandem::distributed {

// No other code reads or writes these keys of the group's store:
//
//   key         written by                                       says
//   watch       each rank that has waited for long               how often the ranks were asked for signs of life
//   progress/R  the watchdog of rank R, after each question      that R lives, and what it does
//   left/R      rank R when it leaves; the store's server when   that R is gone
//               R's connection ends
//   failure     the first rank that fails                        why the group failed
//
// A rank is *gone* when it has left or its process has ended. It is *silent* when it is not gone, but answers no
// questions: its process may be stopped, or its host unreachable. Watchdogs mention a rank in errors when it is silent
// for 2 s, and run_together() gives it up when it is silent for the group's timeout. A group without watchdogs has no
// signs of life, so no rank of it counts as silent.

inline std::string progress_key(int rank) { return "progress/" + std::to_string(rank); }
inline std::string left_key(int rank) { return "left/" + std::to_string(rank); }
std::string value_of(Store& store, const std::string& key);  // empty: no such key

// Asks all ranks for a sign of life.
inline void ask_for_signs(Store& store) { store.add("watch", 1); }
// A text that changes with every question; empty: no rank has asked yet.
inline std::string last_question(Store& store) { return value_of(store, "watch"); }
inline void give_sign(Store& store, int rank, const std::string& sign) { store.set(progress_key(rank), sign); }
// What `rank` has given last; each is different from the one before. Empty: none yet.
inline std::string last_sign(Store& store, int rank) { return value_of(store, progress_key(rank)); }

// The last sign of life of another rank, and when this rank has seen it first.
struct SeenSign {
  std::string text;
  Deadline since = RunningTime::now();

  void update(std::string last) {
    if (last == text) return;
    text = std::move(last);
    since = RunningTime::now();
  }
};

// From now on, the end of this process counts as leaving.
inline void leave_when_gone(Store& store, int rank) { store.set_when_gone(left_key(rank)); }
inline void leave(Store& store, int rank) { store.set(left_key(rank), ""); }
inline bool has_left(Store& store, int rank) { return store.check({left_key(rank)}); }
// Rank 0 may be serving the store, so it leaves last: it waits for all other ranks to leave, but for at most 2 s.
void leave_together(Store& store, int rank, int size);

// Tells all ranks why this rank fails. Returns why the group failed first, which may be another rank's reason. Without
// a store that is `failure`.
std::string report_to_ranks(Store& store, const std::string& failure);
// Why the group failed; empty: it has not failed.
inline std::string failure_of_group(Store& store) { return value_of(store, "failure"); }
// `rank` has closed a connection. Waits until the store says why the group failed, or that `rank` is gone, or for two
// seconds. A rank that gave up waiting for a third one closes its connections a moment before it says so.
void await_reason(Store& store, int rank);

}  // namespace tandem::distributed
