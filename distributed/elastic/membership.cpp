#include <tandem/core/base/check.h>
#include <tandem/core/base/deadline.h>
#include <tandem/distributed/elastic/change_watch.h>
#include <tandem/distributed/elastic/membership.h>
#include <tandem/distributed/groups/process_group.h>
#include <tandem/distributed/system/random_text.h>

#include <algorithm>
#include <sstream>
#include <thread>
#include <tuple>

namespace tandem::distributed {
namespace {

using std::chrono::milliseconds;

// The pause between two looks at the store. A wait in the store ends at once when its keys are there.
constexpr milliseconds look{20};

std::string members_key(int generation) { return "members/" + std::to_string(generation); }

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::ptrdiff_t place_of(const std::string& id, const std::vector<std::string>& ids) {
  return std::ranges::find(ids, id) - ids.begin();
}

std::string missing_from(const std::vector<std::string>& ids, const std::vector<std::string>& others) {
  std::string text;
  for (const auto& id : ids) {
    if (place_of(id, others) == std::ssize(others)) text += (text.empty() ? "" : ", ") + id;
  }
  return text.empty() ? "none" : text;
}

double seconds(milliseconds time) { return static_cast<double>(time.count()) / 1000; }

bool have_arrived(Store& store, const std::vector<std::string>& keys) try {
  store.wait(keys, look);
  return true;
} catch (const Error&) {
  return store.check(keys);  // throws if the store is gone
}

}  // namespace

Membership::Membership(std::shared_ptr<Store> store, const Options& options)
    : store_(std::move(store)), options_(options), id_(std::to_string(options.rank) + "-" + random_text(1)) {
  store_->set_when_gone("gone/" + id_);
  for (int rank = 0; rank < options.size; ++rank) previous_.push_back(std::to_string(rank));
}

std::string Membership::settled_key(const std::string& id) const {
  return "settled/" + std::to_string(generation_) + "/" + id;
}

bool Membership::join(std::int64_t steps) {
  const bool is_member = rank_ >= 0;
  for (;;) {
    while (!is_member && store_->check({members_key(generation_ + 1)})) ++generation_;
    if (generation_ > 0) previous_ = words_of(store_->get(members_key(generation_)));
    if (!store_->check({members_key(generation_ + 1)})) arrive(steps);
    if (!await_next()) return false;
    members_ = words_of(store_->get(members_key(++generation_)));
    const auto place = place_of(id_, members_);
    rank_ = place < std::ssize(members_) ? static_cast<int>(place) : -1;
    if (rank_ >= 0) return true;
    TANDEM_CHECK(!is_member, "generation ", generation_, " of the training began without this process (", id_,
                 "), which did not arrive within ", options_.timeout.count() / 2000.0,
                 " s: was it stopped, or does a step take longer than that? The launcher can start it again "
                 "(--max-restarts)");
  }
}

// The order of these calls matters: see the class. If this process ends between two of them, the others notice.
void Membership::arrive(std::int64_t steps) {
  const auto next = std::to_string(generation_ + 1);
  const auto settled = settled_key(generation_ == 0 ? std::to_string(options_.rank) : id_);
  store_->set_when_gone("changed/" + next);
  store_->set_when_gone("settled/" + next + "/" + id_);
  store_->append("arrivals/" + next, id_ + ":" + std::to_string(steps) + " ");
  store_->set(settled, "");
  store_->set(changed_key(), "");
}

// Waits until the next generation is decided, or decides it. Returns false if the training has ended.
bool Membership::await_next() {
  const auto start = RunningTime::now();
  // A newcomer must not leave out members: they may be in the middle of a step.
  const auto patience = generation_ == 0 ? options_.timeout : rank_ >= 0 ? options_.timeout / 2 : Store::Timeout::max();
  std::vector<std::string> settled;
  for (const auto& id : previous_) settled.push_back(settled_key(id));
  while (!store_->check({members_key(generation_ + 1)})) {
    if (store_->check({"ended"})) return false;
    const bool have_settled = have_arrived(*store_, settled);
    const auto waited = std::chrono::duration_cast<milliseconds>(RunningTime::now() - start);
    std::vector<Arrival> present;
    if (have_settled || waited >= patience) {
      present = arrivals();
      if (std::ssize(present) >= options_.min_ranks) {
        propose(std::move(present));
        continue;
      }
    }
    const bool is_late = waited >= 2 * options_.timeout;
    TANDEM_CHECK(!is_late || have_settled || rank_ >= 0, "waited ", seconds(waited), " s for the ", previous_.size(),
                 " processes of generation ", generation_, ", which neither ended a step nor failed in this time");
    TANDEM_CHECK(!is_late, "the training needs at least ", options_.min_ranks, " processes (min_ranks), and has ",
                 present.size(), ": no other process came within ", seconds(waited), " s");
    if (have_settled) std::this_thread::sleep_for(look);
  }
  return true;
}

// Returns the processes that have arrived for the next generation and are not gone.
std::vector<Membership::Arrival> Membership::arrivals() const {
  std::vector<Arrival> result;
  for (const auto& word : words_of(store_->get("arrivals/" + std::to_string(generation_ + 1)))) {
    const auto colon = word.find(':');
    const auto id = word.substr(0, colon);
    if (!store_->check({"gone/" + id})) result.push_back({id, std::stoll(word.substr(colon + 1))});
  }
  return result;
}

void Membership::propose(std::vector<Arrival> arrivals) const {
  // Members that have made the last step come before those that have not, then in their old order. Newcomers follow, in
  // the order of the launcher's ranks.
  const auto order = [&](const Arrival& one) {
    const auto place = place_of(one.id, previous_);
    return std::tuple(-one.steps, place, place < std::ssize(previous_) ? 0 : std::stoi(one.id));
  };
  std::ranges::sort(arrivals, {}, order);
  TANDEM_CHECK(arrivals.front().steps >= 0 || !store_->check({"begun"}),
               "all processes that had the weights are gone: start the job again, from a checkpoint if it has one");
  std::string ids;
  for (const auto& one : arrivals) ids += one.id + " ";
  store_->compare_set(members_key(generation_ + 1), "", ids);
}

void Membership::change() noexcept try { store_->set(changed_key(), ""); } catch (const std::exception&) {
  // The store is gone, so the launcher is, and this process ends with it.
}

void Membership::finish() {
  if (store_->add("closed/" + std::to_string(generation_), 1) == size()) store_->set("ended", "");
  try {
    InterruptibleStore(store_, store_, changed_key()).wait({"ended"}, options_.timeout / 2);
  } catch (const Error& error) {  // a member is late: the next generation begins without it
    throw PeerError(error.what());
  }
}

std::shared_ptr<Store> Membership::group_store() const {
  auto keys = prefix_store("generation/" + std::to_string(generation_), store_);
  return std::make_shared<InterruptibleStore>(std::move(keys), store_, changed_key());
}

std::string Membership::difference() const {
  return "gone: " + missing_from(previous_, members_) + "; new: " + missing_from(members_, previous_);
}

}  // namespace tandem::distributed
