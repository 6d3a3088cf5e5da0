#include <tandem/core/base/check.h>
#include <tandem/core/base/thread.h>
#include <tandem/core/profile/gpu_trace.h>
#include <tandem/core/profile/lane_totals.h>
#include <tandem/core/profile/profile_lanes.h>
#include <tandem/core/profile/trace_recorder.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace tandem::detail {
namespace {

constexpr std::chrono::milliseconds write_period{250};

// The events of one thread that the writer thread has yet to write.
struct Lane {
  Lane(std::string name, int number) : name(std::move(name)), number(number) {}
  const std::string name;
  const int number;
  bool is_taken = true;       // whether a living thread uses it; guarded by Recorder::mutex_
  bool is_announced = false;  // whether the trace contains the lane's name; only the writer thread uses it
  LaneTotals totals;          // of this trace; only the writer thread uses them
  std::mutex mutex;           // guards events
  std::vector<Event> events;
};

// The lanes of this process, and the thread that writes their events to the file while a trace is running.
class Recorder {
 public:
  // The Recorder is never destroyed, because threads may end after static objects have been destroyed.
  static Recorder& get() {
    static auto* recorder = new Recorder;
    return *recorder;
  }

  void start(const std::string& path, int rank) {
    const std::lock_guard starting(start_stop_);
    TANDEM_CHECK(!writer_.joinable(), "Profile::start: a profile is already being written; stop() it first");
    auto file = std::make_unique<TraceFile>(path, rank);
    for (Lane* lane : lanes()) {
      const std::lock_guard lock(lane->mutex);
      lane->events.clear();
      lane->is_announced = false;
      lane->totals = {};
    }
    file_ = std::move(file);
    is_stopping_ = false;
    started_.store(profile_now());
    for (const GpuTrace& gpus : gpu_traces.entries())
      if (const auto why = gpus.start(); !why.empty()) file_->add_label("no lanes of GPUs: " + why);
    try {
      writer_ = start_thread("the thread that writes the profile", [this] { run(); });
    } catch (const Error&) {
      for (const GpuTrace& gpus : gpu_traces.entries()) gpus.stop();
      started_.store(0);
      file_.reset();
      throw;
    }
  }

  void stop() {
    const std::lock_guard stopping(start_stop_);
    if (!writer_.joinable()) return;
    for (const GpuTrace& gpus : gpu_traces.entries()) gpus.stop();
    const auto began = started_.exchange(0);
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    wake_.notify_all();
    writer_.join();
    write_lanes();
    summary_ = {static_cast<double>(profile_now() - began) * 1e-9, {}};
    for (const Lane* lane : lanes()) lane->totals.add_to(summary_, lane->name);
    const auto file = std::move(file_);
    file->close();
  }

  ProfileSummary summary() {
    const std::lock_guard lock(start_stop_);
    return summary_;
  }

  // Returns when the current trace began, in nanoseconds, or 0 if no trace is running.
  std::int64_t started() const { return started_.load(std::memory_order_relaxed); }

  // Assigns a lane to a thread: an unused lane of that name, or a new one.
  Lane* take_lane(const std::string& name) {
    const std::lock_guard lock(mutex_);
    int same = 1;
    for (const auto& [lane, base] : lanes_) {
      if (base != name) continue;
      if (!std::exchange(lane->is_taken, true)) return lane.get();
      ++same;
    }
    return new_lane(name, same == 1 ? name : name + ' ' + std::to_string(same));
  }
  void give_back(Lane* lane) {
    const std::lock_guard lock(mutex_);
    lane->is_taken = false;
  }
  // Returns the only lane of that name, for a source that is not a thread.
  Lane* lane_named(const std::string& name) {
    const std::lock_guard lock(mutex_);
    for (const auto& [lane, base] : lanes_)
      if (base == name) return lane.get();
    return new_lane(name, name);
  }

 private:
  Lane* new_lane(const std::string& base, const std::string& name) {
    lanes_.emplace_back(std::make_unique<Lane>(name, static_cast<int>(lanes_.size())), base);
    return lanes_.back().first.get();
  }

  std::vector<Lane*> lanes() {
    const std::lock_guard lock(mutex_);
    std::vector<Lane*> all;
    for (const auto& [lane, base] : lanes_) all.push_back(lane.get());
    return all;
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, write_period, [this] { return is_stopping_; })) {
      lock.unlock();
      // After a failed write, events need not be collected any more.
      if (!write_lanes()) started_.store(0);
      lock.lock();
    }
  }

  // Only one thread at a time runs this: the writer thread, or stop() after that thread has ended.
  bool write_lanes() {
    for (Lane* lane : lanes()) {
      std::vector<Event> events;
      {
        const std::lock_guard lock(lane->mutex);
        events.swap(lane->events);
      }
      if (events.empty()) continue;
      if (!std::exchange(lane->is_announced, true)) file_->add_lane(lane->number, lane->name);
      for (const Event& event : events) {
        file_->add(lane->number, event);
        lane->totals.add(event);
      }
    }
    return file_->write();
  }

  std::mutex start_stop_;  // held by start() and stop(), the only functions that set the next three members
  std::unique_ptr<TraceFile> file_;
  std::thread writer_;
  ProfileSummary summary_;
  std::atomic<std::int64_t> started_{0};

  std::mutex mutex_;  // guards the members below
  std::condition_variable wake_;
  bool is_stopping_ = false;
  std::vector<std::pair<std::unique_ptr<Lane>, std::string>> lanes_;  // each lane with the requested name
};

// The lane of the calling thread, assigned at its first range.
class ThreadLane {
 public:
  ~ThreadLane() {
    if (lane_) Recorder::get().give_back(lane_);
  }
  Lane& get() {
    if (lane_ && name_ != thread_name()) Recorder::get().give_back(std::exchange(lane_, nullptr));
    if (!lane_) lane_ = Recorder::get().take_lane(name_ = thread_name());
    return *lane_;
  }

 private:
  const char* name_ = nullptr;
  Lane* lane_ = nullptr;
};
thread_local ThreadLane thread_lane;

void add(Lane& lane, Event event) {
  const std::lock_guard lock(lane.mutex);
  lane.events.push_back(std::move(event));
}

}  // namespace

void start_trace(const std::string& path, int rank) { Recorder::get().start(path, rank); }
void stop_trace() { Recorder::get().stop(); }
ProfileSummary trace_summary() { return Recorder::get().summary(); }
std::int64_t trace_began() { return Recorder::get().started(); }
void record(Event event) { add(thread_lane.get(), std::move(event)); }
void record_in(const std::string& lane, Event event) { add(*Recorder::get().lane_named(lane), std::move(event)); }

}  // namespace tandem::detail
