// LaneTotals: sums up how the time of a trace's lane was spent.
#pragma once

#include <tandem/core/profile/profile.h>
#include <tandem/core/profile/trace_file.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tandem::detail {

// Time that a thread spends directly inside a range named "wait for ..." counts as waiting, because a thread that waits
// for a collective may run it itself. Only one thread at a time may use this class.
class LaneTotals {
 public:
  // Call this for every range of the lane in the order in which they end, which is the order in which they are
  // recorded.
  void add(const Event& event);
  // Appends a row for each name.
  void add_to(ProfileSummary& summary, const std::string& lane) const;

 private:
  struct Total {
    std::int64_t count = 0, all = 0, self = 0;  // the last two in nanoseconds
  };
  struct Span {
    std::int64_t begin, duration, self;
    Total* total;
  };
  std::map<std::pair<std::string, std::string>, Total> totals_;  // by name and suffix
  // The ranges that no other range encloses so far. A later range may enclose them, because an outer range ends last.
  std::vector<Span> outermost_;
};

}  // namespace tandem::detail
