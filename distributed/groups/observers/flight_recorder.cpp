#include <tandem/core/base/check.h>
#include <tandem/core/io/file_system.h>
#include <tandem/distributed/groups/observers/flight_recorder.h>
#include <tandem/distributed/system/host_identity.h>
#include <tandem/distributed/system/signal_stack.h>
#include <tandem/distributed/system/temporary_folder.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>

namespace tandem::distributed {
namespace {

std::int64_t nanoseconds(FlightRecorder::Time time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

template <std::size_t n>
void put_text(char (&to)[n], const std::string& text) {
  const auto size = std::min(text.size(), n - 1);
  std::memcpy(to, text.data(), size);
  to[size] = '\0';
}

// Describes the file of the latest recorder of the process, for the handler of SIGUSR2, which copies it.
struct Copy {
  const void* memory;
  std::size_t bytes;
  char folder[4096], file[4096];
};
Copy copy_of_latest;
bool has_latest = false;
std::atomic_flag copy_is_used;

// Guards copy_of_latest and has_latest, also against the handler, which may run on any thread. The lock blocks SIGUSR2
// on its thread, because a handler that interrupts this thread would deadlock.
class CopyLock {
 public:
  CopyLock() {
    sigset_t usr2;
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &usr2, &before_);
    while (copy_is_used.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~CopyLock() {
    copy_is_used.clear(std::memory_order_release);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  CopyLock(const CopyLock&) = delete;
  CopyLock& operator=(const CopyLock&) = delete;

 private:
  sigset_t before_;
};

// Calls only async-signal-safe functions.
void copy_latest(int) {
  const int before = errno;
  const CopyLock lock;
  if (has_latest) {
    mkdir(copy_of_latest.folder, 0700);
    unlink(copy_of_latest.file);
    const int file = open(copy_of_latest.file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file >= 0) {
      [[maybe_unused]] const auto written = write(file, copy_of_latest.memory, copy_of_latest.bytes);
      close(file);
    }
  }
  errno = before;
}

void copy_on_signal(const std::filesystem::path& path, const void* memory, std::size_t bytes) {
  const auto folder = path.parent_path() / "copy", file = folder / path.filename();
  if (file.native().size() >= sizeof copy_of_latest.file) return;
  const CopyLock lock;
  copy_of_latest.memory = memory;
  copy_of_latest.bytes = bytes;
  std::strcpy(copy_of_latest.folder, folder.c_str());
  std::strcpy(copy_of_latest.file, file.c_str());
  has_latest = true;
  struct sigaction action {};
  if (sigaction(SIGUSR2, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action = on_signal_stack(copy_latest);
  sigaction(SIGUSR2, &action, nullptr);
}

}  // namespace

FlightRecorder::FlightRecorder(const Options& options)
    : options_(options),
      path_(std::filesystem::absolute(options.folder) / ("rank-" + std::to_string(options.rank))),
      in_use_(use_folder(options.folder)) {
  bytes_ = sizeof(FlightHeader) + options.capacity * sizeof(FlightEntry);
  // Do not reuse an existing file, because another process may have mapped it.
  ::unlink(path_.c_str());
  const FileDescriptor file(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  TANDEM_CHECK(file.is_open(), "cannot make ", path_.string(), ": ", explain_file_error(errno));
  // Reserve the disk space. Otherwise, writing to the mapped memory would kill the process if the disk is full.
  int error = posix_fallocate(file.get(), 0, static_cast<off_t>(bytes_));
  void* memory = MAP_FAILED;
  if (!error) {
    memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file.get(), 0);
    if (memory == MAP_FAILED) error = errno;
  }
  if (error) ::unlink(path_.c_str());
  TANDEM_CHECK(!error, "cannot map ", path_.string(), ": ", explain_file_error(error));

  header_ = static_cast<FlightHeader*>(memory);
  entries_ = reinterpret_cast<FlightEntry*>(header_ + 1);
  header_->version = FlightHeader::right_version;
  header_->capacity = static_cast<std::uint32_t>(options.capacity);
  header_->header_bytes = sizeof(FlightHeader);
  header_->entry_bytes = sizeof(FlightEntry);
  header_->rank = options.rank;
  header_->world_size = options.world_size;
  header_->pid = getpid();
  header_->made_utc = std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
  header_->made_steady = header_->alive = nanoseconds(std::chrono::steady_clock::now());
  put_text(header_->host, host_name());
  put_text(header_->job, options.job);
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(header_->magic, FlightHeader::right_magic, sizeof header_->magic);
  copy_on_signal(path_, memory, bytes_);
}

FlightRecorder::~FlightRecorder() {
  {
    const CopyLock lock;
    if (copy_of_latest.memory == header_) has_latest = false;
  }
  const bool went_well = !header_->failure[0] && std::uncaught_exceptions() == 0;
  if (went_well) header_->has_left = 1;
  munmap(header_, bytes_);
  if (!options_.is_temporary) return;
  if (went_well) {
    ::unlink(path_.c_str());
    ::rmdir(path_.parent_path().c_str());  // fails as long as the file of another rank exists
  } else {
    std::fprintf(stderr, "note: rank %d recorded its last operations in %s; tandemrun --explain %s names a late rank\n",
                 options_.rank, path_.c_str(), path_.parent_path().c_str());
  }
}

int FlightRecorder::add_group(const std::string& backend, const Members& members) {
  std::vector<int> ranks;
  for (const auto& member : members) ranks.push_back(member.rank);
  const auto name = backend + " of " + rank_list(ranks, ranks.size());
  const std::lock_guard lock(mutex_);
  const auto before = std::count(names_.begin(), names_.end(), name);
  names_.push_back(name);
  const auto index = header_->group_count;
  if (index == FlightHeader::most_groups) {
    ++header_->groups_left_out;
    return -1;
  }
  auto& group = header_->groups[index];
  // The number comes first, so truncating a long list of ranks does not lose it.
  put_text(group.name, (before ? std::to_string(before + 1) + ". " : "") + name);
  group.size = static_cast<std::int32_t>(members.size());
  std::atomic_ref(header_->group_count).store(index + 1, std::memory_order_release);
  return static_cast<int>(index);
}

std::uint64_t FlightRecorder::start(int group, std::uint64_t sequence, const Operation& operation, Time when) {
  if (group < 0) return 0;
  const auto number = std::atomic_ref(header_->count).fetch_add(1, std::memory_order_relaxed) + 1;
  FlightEntry& entry = entries_[(number - 1) % options_.capacity];
  std::atomic_ref(entry.number).store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  entry.sequence = sequence;
  entry.started = nanoseconds(when);
  entry.running = entry.ended = 0;
  entry.state = FlightEntry::State::started;
  entry.kind = static_cast<std::uint8_t>(operation.kind);
  entry.reduce_op = static_cast<std::uint8_t>(operation.reduce_op);
  entry.group = static_cast<std::uint16_t>(group);
  entry.root = operation.root;
  entry.arrays = static_cast<std::uint32_t>(operation.inputs.size() + operation.outputs.size());
  entry.ndim = 0;
  entry.dtype = 0;
  if (entry.arrays) {
    const Array& array = operation.outputs.empty() ? operation.inputs.front() : operation.outputs.front();
    const auto& shape = array.shape();
    entry.dtype = static_cast<std::uint8_t>(array.dtype());
    entry.ndim = static_cast<std::uint16_t>(shape.ndim());
    std::copy(shape.begin(), shape.end(), entry.shape);
  }
  put_text(entry.name, operation.name);
  std::atomic_ref(entry.number).store(number, std::memory_order_release);
  return number;
}

FlightEntry* FlightRecorder::find(std::uint64_t number) {
  FlightEntry& entry = entries_[(number - 1) % options_.capacity];
  return std::atomic_ref(entry.number).load(std::memory_order_acquire) == number ? &entry : nullptr;
}

void FlightRecorder::set_running(std::uint64_t number, Time when) {
  if (auto* entry = find(number)) {
    entry->running = nanoseconds(when);
    entry->state = FlightEntry::State::running;
  }
}

void FlightRecorder::end(std::uint64_t number, bool has_failed, Time when) {
  if (auto* entry = find(number)) {
    entry->ended = nanoseconds(when);
    entry->state = has_failed ? FlightEntry::State::failed : FlightEntry::State::done;
  }
}

void FlightRecorder::fail(const std::string& failure) {
  const std::lock_guard lock(mutex_);
  if (!header_->failure[0]) put_text(header_->failure, failure);
}

void FlightRecorder::show_life() {
  std::atomic_ref(header_->alive).store(nanoseconds(std::chrono::steady_clock::now()), std::memory_order_relaxed);
}

}  // namespace tandem::distributed
