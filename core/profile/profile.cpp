#include <tandem/core/profile/profile.h>
#include <tandem/core/profile/profile_lanes.h>
#include <tandem/core/profile/trace_recorder.h>

#include <chrono>
#include <mutex>
#include <set>
#include <utility>

#if defined(TANDEM_HAS_CUDA) && __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define TANDEM_HAS_NVTX 1
#else
#define TANDEM_HAS_NVTX 0
#endif

namespace tandem {

std::atomic<bool> detail::ranges_are_wanted{TANDEM_HAS_NVTX != 0};

std::int64_t detail::profile_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void detail::profile_range(const std::string& lane, const std::string& name, std::int64_t begin, std::int64_t end,
                           const std::string& notes) {
  const auto began = trace_began();
  if (began != 0 && begin >= began) record_in(lane, {Profile::lasting_name(name), "", begin, end, notes});
}

void Profile::start(const std::string& path, int rank) {
  detail::start_trace(path, rank);
  detail::ranges_are_wanted = true;
}
void Profile::stop() {
  detail::ranges_are_wanted = TANDEM_HAS_NVTX != 0;
  detail::stop_trace();
}
ProfileSummary Profile::summary() { return detail::trace_summary(); }
void Profile::name_thread(const char* name) { detail::name_lane(name); }

const char* Profile::lasting_name(const std::string& name) {
  static auto* names = new std::set<std::string>;
  static std::mutex mutex;  // guards names
  const std::lock_guard lock(mutex);
  return names->insert(name).first->c_str();
}

void ProfileRange::begin() {
  is_wanted_ = true;
#if TANDEM_HAS_NVTX
  nvtxRangePushA(*suffix_ ? (std::string(name()) + suffix_).c_str() : name());
#endif
  if (detail::trace_began() != 0) begin_ = detail::profile_now();
}

void ProfileRange::end() {
#if TANDEM_HAS_NVTX
  nvtxRangePop();
#endif
  if (begin_ == 0) return;
  const auto began = detail::trace_began();
  // This range may have outlived its trace, and another trace may have begun.
  if (began != 0 && begin_ >= began)
    detail::record({path_ ? path_ : name(), suffix_, begin_, detail::profile_now(), std::move(notes_)});
}

const char* ProfileRange::module_path() {
  for (const Scope* scope = innermost(); scope; scope = scope->outer())
    if (const char* const path = static_cast<const ProfileRange*>(scope)->path_) return path;
  return nullptr;
}

void ProfileRange::note(const char* key, std::string_view value) {
  if (begin_ == 0) return;
  notes_ += (notes_.empty() ? "\"" : ",\"") + std::string(key) + "\":\"" + detail::json_escaped(value) + '"';
}

void ProfileRange::note(const char* key, std::int64_t value) {
  if (begin_ == 0) return;
  notes_ += (notes_.empty() ? "\"" : ",\"") + std::string(key) + "\":" + std::to_string(value);
}

}  // namespace tandem
