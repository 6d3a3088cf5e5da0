#include <tandem/core/check.h>
#include <tandem/core/profile.h>
#include <tandem/core/profile_lanes.h>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#ifdef TANDEM_HAS_CUDA
#include <tandem/core/cuda/gpu_trace.h>
#endif
#if defined(TANDEM_HAS_CUDA) && __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define TANDEM_HAS_NVTX 1
#else
#define TANDEM_HAS_NVTX 0
#endif

namespace tandem {

std::atomic<bool> detail::ranges_are_wanted{TANDEM_HAS_NVTX != 0};

std::int64_t detail::profile_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string detail::json_escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '"' || c == '\\') escaped += '\\';
    if (static_cast<unsigned char>(c) < 0x20) escaped += ' ';
    else escaped += c;
  }
  return escaped;
}

namespace {

using detail::profile_now;

constexpr std::chrono::milliseconds write_period{250};

struct Event {
  const char* name;
  const char* suffix;
  std::int64_t begin, end;
  std::string notes;
};

// What a thread has to say and the writer has not yet written.
struct Lane {
  Lane(std::string name, int number) : name(std::move(name)), number(number) {}
  const std::string name;
  const int number;
  bool is_taken = true;       // by a thread that lives; Recorder::mutex_ guards it
  bool is_announced = false;  // in this trace; only for the writer
  std::mutex mutex;           // guards events
  std::vector<Event> events;
};

// The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU ("Trace Event Format"),
// as an array. Each write ends the array, and the next one begins on top of that end.
class TraceFile {
 public:
  TraceFile(const std::string& path, int rank)
      : path_(path),
        rank_(rank),
        file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
    const std::string number = std::to_string(rank);
    text_ = "[\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":" + number + ",\"args\":{\"name\":\"rank " +
            number + "\"}}";
    if (file_ < 0) failure_ = reason(errno);
    if (write()) return;
    if (file_ >= 0) ::close(file_);
    detail::fail("can't write the profile ", path, ": ", failure_,
                 ": name a file in a folder where you may write");
  }
  ~TraceFile() {
    if (file_ >= 0) ::close(file_);
  }

  // What a viewer shows beside the process.
  void add_label(const std::string& text) {
    text_ += ",\n{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":" + std::to_string(rank_) +
             ",\"args\":{\"labels\":\"" + detail::json_escaped(text) + "\"}}";
  }

  void add_lane(int lane, const std::string& name) {
    text_ += ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":" + std::to_string(rank_) +
             ",\"tid\":" + std::to_string(lane) + ",\"args\":{\"name\":\"" + detail::json_escaped(name) +
             "\"}}";
  }

  void add(int lane, const Event& event) {
    char times[96];
    const auto duration = event.end - event.begin;
    std::snprintf(times, sizeof times, "\"ts\":%lld.%03lld,\"dur\":%lld.%03lld",
                  static_cast<long long>(event.begin / 1000), static_cast<long long>(event.begin % 1000),
                  static_cast<long long>(duration / 1000), static_cast<long long>(duration % 1000));
    text_ += ",\n{\"ph\":\"X\",\"name\":\"" + detail::json_escaped(event.name) + event.suffix +
             "\",\"pid\":" + std::to_string(rank_) + ",\"tid\":" + std::to_string(lane) + ',' + times;
    if (!event.notes.empty()) text_ += ",\"args\":{" + event.notes + '}';
    text_ += '}';
  }

  // What was added since the last time. False once something has failed.
  bool write() {
    const std::string text = std::exchange(text_, {});
    if (!failure_.empty()) return false;
    if (text.empty()) return true;
    if (put(text + end, size_)) {
      size_ += static_cast<off_t>(text.size());
      return true;
    }
    failure_ = reason(errno);
    // Back to what was there; the bytes under it are the file's already.
    if (size_ > 0 && (!put(end, size_) || ::ftruncate(file_, size_ + static_cast<off_t>(end.size())) != 0))
      failure_ += ", and its end is not valid JSON";
    return false;
  }

  void close() {
    write();
    if (::close(std::exchange(file_, -1)) != 0 && failure_.empty()) failure_ = reason(errno);
    TANDEM_CHECK(failure_.empty(), "the profile ", path_, " is not complete: ", failure_,
                 ": free space there, or write it to another file system; it holds what came before that");
  }

 private:
  static std::string reason(int error) { return std::generic_category().message(error); }

  bool put(const std::string& text, off_t at) {
    for (std::size_t done = 0; done < text.size();) {
      const auto n = ::pwrite(file_, text.data() + done, text.size() - done, at + static_cast<off_t>(done));
      if (n > 0) done += static_cast<std::size_t>(n);
      else if (n == 0 || errno != EINTR) return false;
    }
    return true;
  }

  const std::string end = "\n]\n";
  const std::string path_;
  const int rank_;
  int file_;
  off_t size_ = 0;  // without the end
  std::string text_;
  std::string failure_;
};

// The lanes of this process, and the thread that writes down what is in them while there is a trace.
class Recorder {
 public:
  // Never destroyed: threads may end after static objects have.
  static Recorder& get() {
    static auto* recorder = new Recorder;
    return *recorder;
  }

  void start(const std::string& path, int rank) {
    const std::lock_guard starting(start_stop_);
    TANDEM_CHECK(!writer_.joinable(), "Profile::start: a profile is being written already; stop() it first");
    auto file = std::make_unique<TraceFile>(path, rank);
    for (Lane* lane : lanes()) {
      const std::lock_guard lock(lane->mutex);
      lane->events.clear();
      lane->is_announced = false;
    }
    file_ = std::move(file);
    is_stopping_ = false;
    started_.store(profile_now());
    detail::ranges_are_wanted = true;
#ifdef TANDEM_HAS_CUDA
    if (const auto why = cuda::start_gpu_trace(); !why.empty()) file_->add_label("no lanes of GPUs: " + why);
#endif
    writer_ = std::thread([this] { run(); });
  }

  void stop() {
    const std::lock_guard stopping(start_stop_);
    if (!writer_.joinable()) return;
#ifdef TANDEM_HAS_CUDA
    cuda::stop_gpu_trace();
#endif
    detail::ranges_are_wanted = TANDEM_HAS_NVTX != 0;
    started_.store(0);
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    wake_.notify_all();
    writer_.join();
    write_lanes();
    const auto file = std::move(file_);
    file->close();
  }

  // When the trace began that is being written; 0: none is.
  std::int64_t started() const { return started_.load(std::memory_order_relaxed); }

  // A lane for a thread: a free one of that name, or a new one.
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
  // The one lane of that name, for a source that is no thread.
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
      // Where nothing can be written, nothing need pile up.
      if (!write_lanes()) started_.store(0);
      lock.lock();
    }
  }

  // One at a time: the writer, and stop() when that has ended.
  bool write_lanes() {
    for (Lane* lane : lanes()) {
      std::vector<Event> events;
      {
        const std::lock_guard lock(lane->mutex);
        events.swap(lane->events);
      }
      if (events.empty()) continue;
      if (!std::exchange(lane->is_announced, true)) file_->add_lane(lane->number, lane->name);
      for (const Event& event : events) file_->add(lane->number, event);
    }
    return file_->write();
  }

  std::mutex start_stop_;
  std::unique_ptr<TraceFile> file_;
  std::thread writer_;
  std::atomic<std::int64_t> started_{0};

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  bool is_stopping_ = false;
  std::vector<std::pair<std::unique_ptr<Lane>, std::string>> lanes_;  // and the name that was asked for
};

// The calling thread's, from its first range on.
class ThreadLane {
 public:
  ~ThreadLane() {
    if (lane_) Recorder::get().give_back(lane_);
  }
  void name(const char* name) {
    if (name_ == name) return;
    if (lane_) Recorder::get().give_back(std::exchange(lane_, nullptr));
    name_ = name;
  }
  Lane& get() {
    if (!lane_) lane_ = Recorder::get().take_lane(name_);
    return *lane_;
  }

 private:
  const char* name_ = "thread";
  Lane* lane_ = nullptr;
};
thread_local ThreadLane thread_lane;

void add(Lane& lane, Event event) {
  const std::lock_guard lock(lane.mutex);
  lane.events.push_back(std::move(event));
}

}  // namespace

void detail::profile_range(const std::string& lane, const std::string& name, std::int64_t begin,
                           std::int64_t end, const std::string& notes) {
  auto& recorder = Recorder::get();
  const auto started = recorder.started();
  if (started != 0 && begin >= started)
    add(*recorder.lane_named(lane), {Profile::lasting_name(name), "", begin, end, notes});
}

void Profile::start(const std::string& path, int rank) { Recorder::get().start(path, rank); }
void Profile::stop() { Recorder::get().stop(); }
void Profile::name_thread(const char* name) { thread_lane.name(name); }

const char* Profile::lasting_name(const std::string& name) {
  static auto* names = new std::set<std::string>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  return names->insert(name).first->c_str();
}

void ProfileRange::begin(const char* name, const char* suffix) {
  name_ = name;
  suffix_ = suffix;
#if TANDEM_HAS_NVTX
  nvtxRangePushA(*suffix ? (std::string(name) + suffix).c_str() : name);
#endif
  if (Recorder::get().started() != 0) begin_ = profile_now();
}

void ProfileRange::end() {
#if TANDEM_HAS_NVTX
  nvtxRangePop();
#endif
  if (begin_ == 0) return;
  const auto started = Recorder::get().started();
  // The trace may have ended meanwhile, and another begun.
  if (started != 0 && begin_ >= started)
    add(thread_lane.get(), {name_, suffix_, begin_, profile_now(), std::move(notes_)});
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
