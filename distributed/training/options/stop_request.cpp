#include <tandem/core/base/number_in.h>
#include <tandem/core/base/thread.h>
#include <tandem/distributed/system/signal_name.h>
#include <tandem/distributed/system/signal_stack.h>
#include <tandem/distributed/system/terminal.h>
#include <tandem/distributed/training/options/stop_request.h>

#include <fmt/format.h>
#include <semaphore.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <string_view>

namespace tandem::distributed {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};

// The only state that the signal handler accesses.
std::atomic<int> received{0};
std::atomic<std::int64_t> received_at{0};  // ns
sem_t has_received;

std::int64_t nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void take(int signal) {
  const int error = errno;
  int none = 0;
  if (received.compare_exchange_strong(none, signal)) {
    received_at = nanoseconds();
    sem_post(&has_received);
  } else if (nanoseconds() - received_at >= 1'000'000'000) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);  // delivered when this handler returns
  }
  errno = error;
}

// Returns the launcher's grace time, or nullopt if no launcher has set it.
std::optional<Seconds> grace_time() {
  const char* const text = std::getenv("TANDEM_GRACE");
  if (!text) return {};
  const auto seconds = number_in<double>(text);
  if (!seconds || *seconds <= 0) return {};
  return Seconds(*seconds);
}

}  // namespace

StopRequest::StopRequest(ProcessGroup& group, const Options& options) : group_(group), options_(options) {
  if (!options.takes_signals) return;
  received = 0;
  sem_init(&has_received, 0, 0);
  const auto action = on_signal_stack(take);
  sigset_t handled;
  sigemptyset(&handled);
  for (const int signal : signals) {
    struct sigaction previous {};
    sigaction(signal, nullptr, &previous);
    // A shell makes a background job ignore SIGINT, and nohup makes its job ignore SIGHUP.
    if (previous.sa_handler == SIG_IGN) continue;
    sigaction(signal, &action, nullptr);
    previous_.emplace_back(signal, previous);
    sigaddset(&handled, signal);
  }
  // A process inherits blocked signals from the one that started it.
  pthread_sigmask(SIG_UNBLOCK, &handled, nullptr);
  if (const auto grace = grace_time(); grace && group.rank() == 0)
    watcher_ = start_thread<std::jthread>("the watch over the grace time",
                                          [this, grace](const std::stop_token& stop) { watch_grace(stop, *grace); });
}

void StopRequest::expect() {
  sigset_t held;
  sigemptyset(&held);
  sigaddset(&held, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &held, nullptr);
}

StopRequest::~StopRequest() {
  if (!options_.takes_signals) return;
  for (const auto& [signal, action] : previous_) sigaction(signal, &action, nullptr);
  watcher_.request_stop();
  sem_post(&has_received);
}

StopRequest::Reason StopRequest::mine(bool is_writing) const {
  const bool time_is_up = options_.max_time && Clock::now() - start_ >= *options_.max_time;
  return {options_.takes_signals ? received.load() : 0, group_.rank() == 0 && time_is_up, !is_writing};
}

StopRequest::Reason StopRequest::poll(bool is_writing) {
  if (!options_.takes_signals && !options_.max_time) return {};
  const auto now = Clock::now();
  if (watcher_.joinable()) {
    const std::lock_guard lock(mutex_);
    longest_step_ = std::max<Seconds>(longest_step_, now - last_step_);
    last_step_ = now;
  }
  if (group_.size() == 1) return mine(is_writing);
  if (--left_ > 0) return {};
  // The ranks ask each other ten times a second. Rank 0 says after how many steps they ask again.
  const double wanted = static_cast<double>(stride_) * 0.1 / std::max(Seconds(now - asked_).count(), 1e-9);
  asked_ = now;
  const auto next = std::clamp<std::int64_t>(std::llround(wanted), 1, 2 * stride_);
  const auto reason = mine(is_writing);
  Array said = Array::from(
      std::vector<std::int64_t>{reason.signal, reason.time_is_up, is_writing, group_.rank() == 0 ? next : 0});
  if (options_.device != Device{}) said = said.to(options_.device);
  group_.all_reduce(said, ReduceOp::max, "whether to stop")->wait();
  said = said.to(Device{});
  const auto* const answers = said.data<std::int64_t>();
  left_ = stride_ = answers[3];
  return {static_cast<int>(answers[0]), answers[1] != 0, answers[2] == 0};
}

void StopRequest::saving(const std::string& path) {
  const std::lock_guard lock(mutex_);
  next_checkpoint_ = path;
  saving_since_ = Clock::now();
}

// A stop has to wait for a checkpoint as for a step.
void StopRequest::saved() {
  const std::lock_guard lock(mutex_);
  checkpoint_ = std::exchange(next_checkpoint_, {});
  longest_step_ = std::max<Seconds>(longest_step_, Clock::now() - saving_since_);
}

void StopRequest::watch_grace(const std::stop_token& stop, Seconds grace) {
  while (sem_wait(&has_received) != 0) {
  }
  if (received == SIGUSR1) return;  // no launcher kills the process after that signal
  // The last twentieth of the grace time is left for printing the message.
  const auto deadline = Clock::now() + grace * 0.95;
  while (!stop.stop_requested()) {
    if (Clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      continue;
    }
    const std::lock_guard lock(mutex_);
    const bool is_saving = !next_checkpoint_.empty();
    const auto since = is_saving ? std::min(saving_since_, last_step_) : last_step_;
    const Seconds now_running = Clock::now() - since, running = std::max<Seconds>(longest_step_, now_running);
    // A step that takes much longer than all earlier steps may never end, because the other ranks may be gone.
    std::string what =
        fmt::format("a {} takes {:.0f} s: --grace {:.0f} would have sufficed", is_saving ? "checkpoint" : "step",
                    std::ceil(running.count()), std::ceil(2 * running.count()) + 1);
    if (!is_saving && longest_step_ == Seconds(0))
      what = fmt::format("no step has ended yet, for {:.0f} s: do the other ranks still run?", now_running.count());
    else if (!is_saving && now_running > 10 * longest_step_ + Seconds(1))
      what = fmt::format(
          "this step has not ended for {:.0f} s, the longest before took {:.2g} s: do the other ranks still run?",
          now_running.count(), longest_step_.count());
    std::cerr << start_of_line(STDERR_FILENO)
              << fmt::format(
                     "no checkpoint could be written within the launcher's grace time of {:.3g} s after {}: {}, and {}",
                     grace.count(), signal_name(received),
                     checkpoint_.empty() ? "there is none yet" : "the last one is " + checkpoint_, what)
              << std::endl;
    _exit(128 + received);
  }
}

}  // namespace tandem::distributed
