#include <tandem/core/base/deadline.h>
#include <tandem/distributed/groups/executor.h>
#include <tandem/distributed/groups/members.h>
#include <tandem/distributed/groups/signs_of_life.h>
#include <tandem/distributed/job/together.h>
#include <tandem/distributed/store/store.h>
#include <tandem/distributed/system/host_identity.h>

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace tandem::distributed {
namespace {

using Clock = RunningTime;
constexpr char failed = '!';  // the first character of a failed rank's text
// The time between two checks whether a rank is still alive. It is half the pause of the watchdog's thread, which
// writes the signs of life. In large groups it grows with the number of ranks, so that their checks leave the store
// time for other queries.
constexpr std::chrono::milliseconds look{250};
constexpr std::chrono::hours no_limit{24 * 365};  // for ranks that wait for rank 0, which has a limit itself

// A round in which all ranks exchange a text. It uses the store, because a rank can wait there for longer than the
// timeout of a group's operation.
class TextRound {
 public:
  TextRound(ProcessGroup& group, const std::string& mine) : group_(group), store_(*group.store()) {
    round_ = store_.add("together/" + std::to_string(group.rank()), 1);
    store_.set(key(group.rank()), mine);
  }

  // A rank calls this when it has the texts of all ranks. All ranks have then started this round, so they have read the
  // texts of the last round, and reported whether it failed.
  void remove_last_round() {
    store_.delete_key(key(group_.rank(), round_ - 1));
    if (group_.rank() == 0)
      for (const auto& last : {all(round_ - 1), seen(round_ - 1)}) store_.delete_key(last);
  }

  // A rank calls this before it leaves because of an error. Rank 0 may be serving the store, so it waits until `others`
  // other ranks have read the texts. It waits at most 2 s, because the job fails anyway and should not hang.
  void leave(int others) {
    const auto until = Clock::now() + std::chrono::seconds(2);
    std::int64_t ranks = store_.add(seen(round_), 1);
    while (group_.rank() == 0 && ranks <= others && Clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      ranks = store_.add(seen(round_), 0);
    }
  }

  // Returns every rank's text, by rank. Rank 0 waits for the texts one by one and publishes them as one value, or the
  // reason why one does not come. The other ranks only wait for rank 0. Throws a PeerError if a rank has left, gives no
  // sign of life or takes too long, or if the group has failed.
  std::vector<std::string> texts_of_all(const OwnWork& work) try {
    std::vector<std::string> texts;
    if (group_.rank() != 0) {
      await(key(0), 0, work);
      const auto published = await(all(round_), 0, {work.what, no_limit});
      if (published[0] == failed) throw PeerError(published.substr(1));
      return split_texts(published);
    }
    for (int r = 0; r < group_.size(); ++r) texts.push_back(await(key(r), r, work));
    store_.set(all(round_), join_texts(texts));
    return texts;
  } catch (const PeerError& error) {
    if (group_.rank() == 0) store_.set(all(round_), failed + std::string(error.what()));
    leave(group_.size() - 2);  // one of the other ranks is gone
    throw;
  }

 private:
  // Waits for a key that `rank` sets, and returns its value.
  std::string await(const std::string& wanted, int rank, const OwnWork& work) {
    const auto start = Clock::now();
    SeenSign sign;
    for (;;) {
      try {
        store_.wait({wanted}, look * (1 + group_.size() / 64));
        return store_.get(wanted);
      } catch (const Error&) {
        if (store_.check({wanted})) continue;
      }
      ask_for_signs(store_);
      const auto name = [&] { return member_of(store_, rank).name(); };
      if (has_left(store_, rank) && !store_.check({wanted}))
        throw PeerError(name() + " has left, while the other ranks wait for " + work.what);
      if (const auto failure = failure_of_group(store_); !failure.empty()) throw PeerError(failure);
      sign.update(last_sign(store_, rank));
      // If this rank's own signs are missing too, the group has no watchdog, so no rank gives signs of life.
      const bool is_silent = Clock::now() - sign.since > group_.timeout();
      if (is_silent && !(sign.text.empty() && last_sign(store_, group_.rank()).empty()))
        throw PeerError(name() + " has given no sign of life for " + seconds_text(group_.timeout()) +
                        ", while the other ranks wait for " + work.what);
      if (Clock::now() - start > work.longest)
        throw PeerError(name() + " is alive, but the other ranks have waited for " + work.what + " for " +
                        seconds_text(work.longest) + ", the limit for this work");
    }
  }

  static std::string key(int rank, std::int64_t round) { return fmt::format("together/{}/{}", round, rank); }
  std::string key(int rank) const { return key(rank, round_); }
  // The key for the texts of all ranks.
  static std::string all(std::int64_t round) { return fmt::format("together/{}/all", round); }
  // The key for the number of ranks that have noticed the failure of a round.
  static std::string seen(std::int64_t round) { return fmt::format("together/{}/seen", round); }

  ProcessGroup& group_;
  Store& store_;
  std::int64_t round_;
};

// Returns every rank's text, by rank.
std::vector<std::string> texts_of_all(ProcessGroup& group, const std::string& mine, const OwnWork& work) {
  if (group.size() == 1) return {mine};
  TextRound round(group, mine);
  const auto all = round.texts_of_all(work);
  round.remove_last_round();
  if (std::any_of(all.begin(), all.end(), [](const auto& text) { return text[0] == failed; }))
    round.leave(group.size() - 1);
  return all;
}

}  // namespace

void run_together(ProcessGroup& group, const std::function<void()>& f, const OwnWork& work) {
  std::optional<EarlierFailure> mine;
  try {
    f();
  } catch (const PeerError&) {
    throw;  // the group has failed, and the other ranks know
  } catch (const std::exception& error) {
    mine.emplace(error.what());
  } catch (...) {
    mine.emplace(unknown_exception);
  }
  const auto outcomes = texts_of_all(group, mine ? failed + std::string(mine->what()) : "", work);
  for (int r = 0; r < group.size(); ++r) {
    if (outcomes[r].empty()) continue;
    if (r == group.rank()) throw *mine;
    throw PeerFailure("rank " + std::to_string(r) + " failed: " + outcomes[r].substr(1));
  }
}

void run_first(ProcessGroup& group, const std::function<void()>& f, const OwnWork& work) {
  const auto run_where = [&](bool acts) {
    run_together(
        group,
        [&] {
          if (acts) f();
        },
        work);
  };
  run_where(group.rank() == 0);
  run_where(group.rank() != 0);
}

std::string once_per_host(ProcessGroup& group, const std::function<std::string()>& f, const std::string& host,
                          const OwnWork& work) {
  const auto hosts = texts_of_all(group, "/" + host, work);
  const auto first = static_cast<std::size_t>(std::find(hosts.begin(), hosts.end(), "/" + host) - hosts.begin());
  const bool acts = static_cast<std::size_t>(group.rank()) == first;
  const auto mine = run_together(
      group, [&] { return acts ? f() : std::string(); }, work);
  return texts_of_all(group, "/" + mine, work).at(first).substr(1);
}

std::string once_per_host(ProcessGroup& group, const std::function<std::string()>& f, const OwnWork& work) {
  return once_per_host(group, f, loopback_identity(), work);
}

}  // namespace tandem::distributed
