#include <tandem/core/base/check.h>
#include <tandem/core/base/deadline.h>
#include <tandem/distributed/groups/members.h>
#include <tandem/distributed/job/job_store.h>
#include <tandem/distributed/job/rendezvous.h>
#include <tandem/distributed/system/host_identity.h>
#include <tandem/distributed/system/random_text.h>
#include <tandem/distributed/system/socket.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace tandem::distributed {
namespace {

using std::chrono::milliseconds;

// Returns the address at which the ranks meet, for messages.
std::string meeting_place(const Environment& environment) {
  return environment.store_path.empty() ? endpoint_name(environment.master_addr, environment.master_port)
                                        : environment.store_path;
}

// The keys of a meeting are prefixed with the run's name:
//   meetings                       the number of meetings so far
//   guests                         the guest book: "WORD:RANK:WORLD_SIZE " of each process but rank 0, in any meeting
//   answer/WORD                    the meeting's number, or "!" and the reason why the process can't take part
//   meeting/NUMBER/claims/RANK     the number of processes that claim to be this rank
//   meeting/NUMBER/host/RANK       the loopback identity of the rank's host; set when the rank has arrived
//   meeting/NUMBER/hosts           the same for all ranks, one per line; set when all have arrived
class Meeting {
 public:
  Meeting(const Environment& environment, std::shared_ptr<Store> store, Store::Timeout timeout)
      : rank_(environment.rank),
        size_(environment.world_size),
        place_(meeting_place(environment)),
        store_(std::move(store)),
        timeout_(timeout),
        deadline_(RunningTime::now() + timeout) {}

  // Returns a store whose keys only this meeting uses. Sets `hosts` to every rank's loopback identity, by rank.
  std::shared_ptr<Store> meet(std::vector<std::string>& hosts) {
    const auto number = rank_ == 0 ? std::to_string(store_->add("meetings", 1)) : ask_for_number();
    meeting_ = prefix_store("meeting/" + number, store_);
    TANDEM_CHECK(meeting_->add(claim(rank_), 1) == 1, "two processes claim to be rank ", rank_,
                 " of this job (RANK): each needs its own rank");
    meeting_->set(host(rank_), loopback_identity());
    if (rank_ == 0) receive_guests(number);
    std::istringstream lines(wait_for_all());
    for (std::string line; std::getline(lines, line);) hosts.push_back(line);
    return prefix_store("keys", meeting_);
  }

 private:
  static std::string claim(int rank) { return "claims/" + std::to_string(rank); }
  static std::string host(int rank) { return "host/" + std::to_string(rank); }

  std::string ask_for_number() {
    const auto word = random_text(4);
    store_->append(guests, word + ":" + std::to_string(rank_) + ":" + std::to_string(size_) + " ");
    std::string number;
    try {
      number = store_->get("answer/" + word);
    } catch (const Error& error) {
      TANDEM_CHECK(!have_met(), "rank ", rank_, ": all ", size_, " processes of this job have already met at ", place_,
                   ". Either another process has the same RANK as this one, or the job restarts and its new rank 0"
                   " has not arrived");
      detail::fail("rank ", rank_, ": rank 0 has not arrived at ", place_,
                   ": check whether it was started, with the same ", advice, " (", error.what(), ")");
    }
    store_->delete_key("answer/" + word);
    TANDEM_CHECK(!number.starts_with("!"), "rank ", rank_, ": ", number.substr(1));
    return number;
  }

  bool have_met() const {
    try {
      const auto last = store_->add("meetings", 0);
      return last > 0 && store_->check({"meeting/" + std::to_string(last) + "/hosts"});
    } catch (const Error&) {  // the store is gone
      return false;
    }
  }

  // Rank 0 answers every process that writes to the guest book, until all ranks have arrived. It reads the book again
  // after a pause of 1 to 20 ms, which is short for a user, and long for a store that many jobs use.
  void receive_guests(const std::string& number) {
    std::vector<int> missing;
    for (int rank = 1; rank < size_; ++rank) missing.push_back(rank);
    std::set<std::string> answered;
    for (auto pause = milliseconds(1); !missing.empty(); pause = std::min(pause * 2, milliseconds(20))) {
      // Rank 0 also answers ranks that have already arrived, and ranks that the job does not have: several processes
      // may claim to be the same rank, or expect a different size of the job.
      std::istringstream book(store_->check({guests}) ? store_->get(guests) : "");
      for (std::string entry; book >> entry;) {
        if (!answered.insert(entry).second) continue;
        answer(entry, number);
        pause = milliseconds(1);
      }
      // Asks for the first missing rank only, because asking for each in every turn would take size^2 queries.
      const auto is_here = [&](int rank) { return meeting_->check({host(rank)}); };
      while (!missing.empty() && is_here(missing.front())) missing.erase(missing.begin());
      const auto now = RunningTime::now(), last_look = now + milliseconds(1000);
      if (now >= deadline_) std::erase_if(missing, [&](int r) { return RunningTime::now() < last_look && is_here(r); });
      if (missing.empty()) break;
      check_time(missing);
      std::this_thread::sleep_for(pause);
    }
    store_->delete_key(guests);
    std::string hosts;
    for (int rank = 0; rank < size_; ++rank) hosts += meeting_->get(host(rank)) + "\n";
    meeting_->set("hosts", hosts);
  }

  void answer(const std::string& entry, const std::string& number) {
    const auto rank = entry.find(':'), size = entry.rfind(':');
    std::string text = number;
    if (entry.substr(size + 1) != std::to_string(size_)) {
      const auto told = " was told that the job has " + entry.substr(size + 1) + " processes (WORLD_SIZE)";
      refused_ = ". A rank " + entry.substr(rank + 1, size - rank - 1) + " arrived that" + told;
      text = "!it" + told + ", and rank 0 that it has " + std::to_string(size_);
    }
    store_->set("answer/" + entry.substr(0, rank), text);
  }

  std::string wait_for_all() {
    try {
      return meeting_->get("hosts");
    } catch (const Error&) {
      std::vector<int> missing;
      const auto end = RunningTime::now() + std::chrono::seconds(1);
      for (int rank = 0; rank < size_ && RunningTime::now() < end; ++rank) {
        if (!meeting_->check({host(rank)})) missing.push_back(rank);
      }
      if (!missing.empty()) check_time(missing);
      throw;
    }
  }

  void check_time(const std::vector<int>& missing) const {
    TANDEM_CHECK(RunningTime::now() < deadline_, rank_list(missing), " of ", size_, " ",
                 missing.size() == 1 ? "has" : "have", " not arrived within ",
                 std::chrono::duration<double>(timeout_).count(), " s at ", place_, ": check whether ",
                 missing.size() == 1 ? "it was" : "they were", " started, with the same ", advice, refused_);
  }

  static constexpr const char* guests = "guests";
  static constexpr const char* advice =
      "WORLD_SIZE, run id (TORCHELASTIC_RUN_ID) and address (MASTER_ADDR and MASTER_PORT, or --init-method)";

  const int rank_;
  const int size_;
  const std::string place_;
  const std::shared_ptr<Store> store_;
  const Store::Timeout timeout_;
  const Deadline deadline_;
  std::shared_ptr<Store> meeting_;
  std::string refused_;  // a sentence about the last process that expected a different size of the job; empty: none
};

}  // namespace

std::shared_ptr<Store> connect_store(Environment& environment, Store::Timeout timeout) {
  auto store = prefix_store("tandem/" + environment.run_id, open_job_store(environment, timeout));
  std::vector<std::string> hosts;
  store = Meeting(environment, std::move(store), timeout).meet(hosts);
  if (!environment.knows_host) set_hosts(environment, hosts);
  return store;
}

}  // namespace tandem::distributed
