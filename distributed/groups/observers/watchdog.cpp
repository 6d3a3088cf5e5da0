#include <tandem/core/base/check.h>
#include <tandem/core/base/thread.h>
#include <tandem/distributed/groups/observers/watchdog.h>

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace tandem::distributed {
namespace {

// All three are chosen. A rank's question is answered within two periods, and each period costs the store two small
// queries.
constexpr std::chrono::milliseconds period{500};    // between two checks of the store
constexpr std::chrono::milliseconds patience{500};  // the watchdog asks the other ranks about slower operations
// In each period, the ranks of a waiting group together observe about so many ranks: all of them in groups of up to 45
// ranks, and in larger groups each rank observes a few, in turn. If each of 1,024 ranks observed all, the store would
// have a million queries in a period.
constexpr int observed_in_period = 2048;
constexpr double silent_seconds = 2;  // errors mention a rank after four periods without a sign of life

}  // namespace

Watchdog::Watchdog(const ObservedGroup& group, std::shared_ptr<FlightRecorder> recorder)
    : store_(group.store),
      rank_(group.rank),
      members_(group.members),
      fail_(group.fail),
      recorder_(std::move(recorder)),
      observed_(members_.size()) {
  thread_ = start_thread("the watchdog's thread", [this] { run(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_one();
  thread_.join();
}

void Watchdog::running(const ObservedOperation& operation, std::uint64_t, Time) noexcept {
  const std::lock_guard lock(mutex_);
  waiting_.push_back({&operation, Clock::now()});
}

void Watchdog::ended(const ObservedOperation& operation, std::uint64_t, Time, bool) noexcept {
  const std::lock_guard lock(mutex_);
  if (std::erase_if(waiting_, [&](const Waiting& one) { return one.operation == &operation; }) == 0) return;
  if (operation.sequence != 0) done_ = operation.sequence;
}

void Watchdog::show_life() {
  if (recorder_) recorder_->show_life();
}

void Watchdog::run() {
  look_at_store();
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, period, [this] { return stopping_; })) show_life();
}

// Checks the store regularly until the group ends or fails, or until the store is gone.
void Watchdog::look_at_store() {
  const int size = static_cast<int>(members_.size());
  int next = 0;  // the rank that was observed last, counted from this rank, so the ranks observe different ones
  try {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      show_life();
      lock.unlock();
      const auto question = last_question(*store_);
      if (question != question_) publish();
      question_ = question;
      auto failure = failure_of_group(*store_);
      lock.lock();
      const bool waits = !waiting_.empty() && Clock::now() - waiting_.front().since > patience;
      if (!waits) asking_since_.reset();
      else if (!asking_since_) asking_since_ = Clock::now();
      lock.unlock();
      if (failure.empty() && waits) {
        ask_for_signs(*store_);
        for (int i = std::min(size - 1, std::max(1, observed_in_period / size)); i > 0; --i) {
          next = next % (size - 1) + 1;
          observe((rank_ + next) % size);
        }
        failure = find_difference();
        if (!failure.empty()) failure = report_to_ranks(*store_, failure);
      }
      if (!failure.empty()) return fail_(failure);
      lock.lock();
      stop_.wait_for(lock, period, [this] { return stopping_; });
    }
  } catch (const std::exception&) {
    // The store is gone. Waits still end after their timeout, but the errors say less.
  }
}

// Writes this rank's progress to the store, one line each: beat, collectives done, sequence, what, signature.
void Watchdog::publish() {
  std::ostringstream text;
  {
    const std::lock_guard lock(mutex_);
    text << ++beat_ << '\n' << done_ << '\n';
    if (waiting_.empty()) {
      text << "0\n\n\n";
    } else {
      const ObservedOperation& oldest = *waiting_.front().operation;
      text << oldest.sequence << '\n' << oldest.what << '\n' << oldest.signature << '\n';
    }
  }
  give_sign(*store_, rank_, text.str());
}

// Reads the progress of `rank` from the store.
Watchdog::Progress Watchdog::observe(int rank) {
  const auto last = last_sign(*store_, rank);
  const std::lock_guard lock(mutex_);
  Progress& progress = observed_[rank];
  progress.sign.update(last);
  std::istringstream text(last);
  text >> progress.beat >> progress.done >> progress.sequence;
  text.ignore();
  std::getline(text, progress.what);
  std::getline(text, progress.signature);
  const auto now = Clock::now();
  const auto since = last.empty() ? asking_since_.value_or(now) : progress.sign.since;
  progress.silent = std::chrono::duration<double>(now - since).count();
  return progress;
}

// Returns a text if another rank's collective has the same number as this rank's, but a different name, kind, shape or
// dtype. Returns an empty string otherwise.
std::string Watchdog::find_difference() {
  const std::lock_guard lock(mutex_);
  for (const auto& waiting : waiting_) {
    const ObservedOperation& mine = *waiting.operation;
    for (std::size_t r = 0; r < members_.size(); ++r) {
      const Progress& other = observed_[r];
      if (mine.sequence == 0 || other.sequence != mine.sequence || other.signature == mine.signature) continue;
      return fmt::format("the ranks do not run the same operations: number {} of the group is {} on {} and {} on {}",
                         mine.sequence, mine.signature, members_[rank_].name(), other.signature, members_[r].name());
    }
  }
  return "";
}

std::vector<int> Watchdog::behind(std::uint64_t sequence) noexcept try {
  std::vector<int> ranks;
  for (int r = 0; r < static_cast<int>(members_.size()); ++r) {
    if (r == rank_) continue;
    const Progress other = observe(r);
    const bool came = other.sequence >= sequence || other.done >= sequence;
    if (other.silent > silent_seconds || (other.beat > 0 && !came)) ranks.push_back(r);
  }
  return ranks;
} catch (const std::exception&) {
  return {};
}

std::string Watchdog::whereabouts(const std::vector<int>& ranks) noexcept try {
  std::string text;
  for (const int r : ranks) {
    const Progress other = observe(r);
    const bool is_silent = other.silent > silent_seconds;
    if (other.beat == 0 && !is_silent) continue;
    if (!text.empty()) text += "; ";
    text += members_[r].name();
    if (other.beat == 0) {
      text += fmt::format(" has given no sign of life for {:.0f} s", other.silent);
      continue;
    }
    text += other.what.empty() ? fmt::format(" is in no operation of the group, {} done", other.done)
                               : fmt::format(" is in {}, {} done", other.what, other.done);
    text += is_silent ? fmt::format(", no sign of life for {:.0f} s", other.silent) : ", and alive";
  }
  return text;
} catch (const std::exception&) {
  return "";
}

}  // namespace tandem::distributed
