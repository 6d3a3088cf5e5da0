#include <tandem/core/base/scope.h>
#include <tandem/core/profile/profile.h>
#include <tandem/core/profile/profile_lanes.h>
#include <tandem/core/profile/trace_recorder.h>

#include <chrono>
#include <utility>
#include <vector>

#if defined(TANDEM_HAS_CUDA) && __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define TANDEM_HAS_NVTX 1
#else
#define TANDEM_HAS_NVTX 0
#endif

namespace tandem {
namespace detail {

std::int64_t profile_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void profile_range(const std::string& lane, const std::string& name, std::int64_t begin, std::int64_t end,
                   const std::string& notes) {
  const auto began = trace_began();
  if (began != 0 && begin >= began) record_in(lane, {lasting_name(name), "", begin, end, notes});
}

namespace {

// Records scopes as ranges of the trace.
class Ranges final : public ScopeObserver {
 public:
  bool began(const Scope& scope) override {
#if TANDEM_HAS_NVTX
    nvtxRangePushA(*scope.suffix() ? (std::string(scope.name()) + scope.suffix()).c_str() : scope.name());
#endif
    if (trace_began() == 0) return false;
    open().push_back({&scope, profile_now(), {}});
    return true;
  }

  void ended(const Scope& scope) override {
#if TANDEM_HAS_NVTX
    nvtxRangePop();
#endif
    if (open().empty() || open().back().scope != &scope) return;
    Range range = std::move(open().back());
    open().pop_back();
    const auto began = trace_began();
    // This range may have outlived its trace, and another trace may have begun.
    if (began != 0 && range.begin >= began)
      record({scope.path() ? scope.path() : scope.name(), scope.suffix(), range.begin, profile_now(),
              std::move(range.notes)});
  }

  void noted(const Scope& scope, const char* key, std::string_view value) override {
    add(scope, key, '"' + json_escaped(value) + '"');
  }
  void noted(const Scope& scope, const char* key, std::int64_t value) override {
    add(scope, key, std::to_string(value));
  }

 private:
  struct Range {
    const Scope* scope;
    std::int64_t begin;  // nanoseconds
    std::string notes;   // members of a JSON object
  };
  // The ranges of this thread that have begun but not ended, outermost first.
  static std::vector<Range>& open() {
    static thread_local std::vector<Range> ranges;
    return ranges;
  }
  static void add(const Scope& scope, const char* key, const std::string& value) {
    for (Range& range : open())
      if (range.scope == &scope) range.notes += (range.notes.empty() ? "\"" : ",\"") + std::string(key) + "\":" + value;
  }
};

Ranges ranges;

}  // namespace

void show_scopes_to_nvtx() {
  if (TANDEM_HAS_NVTX) ScopeObserver::set(&ranges);
}

}  // namespace detail

void Profile::start(const std::string& path, int rank) {
  detail::start_trace(path, rank);
  ScopeObserver::set(&detail::ranges);
}
void Profile::stop() {
  if (!TANDEM_HAS_NVTX) ScopeObserver::set(nullptr);
  detail::stop_trace();
}
ProfileSummary Profile::summary() { return detail::trace_summary(); }

}  // namespace tandem
