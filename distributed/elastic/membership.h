// Membership: decides which processes of an elastic job train together.
#pragma once

#include <tandem/distributed/store/store.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tandem::distributed {

// The processes of an elastic job form one generation after another. A generation is an ordered list of members, whose
// places in the list are their ranks. It ends when a member fails, is gone or is late, and when a newcomer arrives. The
// members that are left and the newcomers then form the next generation. All of this happens in the launcher's store,
// under these keys (G: a generation, counted from 1; ID: a process):
//
//   arrivals/G    "ID:STEPS " of each process that wants to be in generation G
//   settled/G/ID  set when this member of G has arrived for the next generation, or is gone. For G = 0, ID is the
//                 launcher's rank
//   members/G     "ID ID ...": the generation. The first proposal counts
//   changed/G     set when G has to end
//   gone/ID       set when the process is gone
//   begun         set when a process has made a step
//   closed/G      how many members of G have finished the training
//   ended         set when all members of a generation have finished the training
//
// A process arrives before it settles. When all members of a generation have settled, the arrivals therefore contain
// every member that is left, and any process may propose the next generation.
class Membership {
 public:
  struct Options {
    int rank = 0;  // of this process, and
    int size = 1;  // the number of processes, as the launcher started them
    // A process that does not arrive within half of this time, counted from when another has arrived, is left out.
    Store::Timeout timeout = std::chrono::seconds(30);
    int min_ranks = 1;
  };

  Membership(std::shared_ptr<Store> store, const Options& options);

  // Ends the current generation, and waits until this process is a member of the next one. `steps` is the number of
  // steps that this process has made, or -1 if it has no weights yet. The members with the most steps come first, so
  // rank 0 has the weights that count. Returns false if the training has ended. Throws an Error if this process was
  // left out, if too few processes arrive, or if none of them has weights although the training has begun.
  bool join(std::int64_t steps);
  // Ends the current generation: makes has_changed() true on all members.
  void change() noexcept;
  bool has_changed() const { return store_->check({changed_key()}); }
  std::string changed_key() const { return "changed/" + std::to_string(generation_); }
  void begin() { store_->set("begun", ""); }
  // Waits until all members have called finish(). Throws a PeerError if the generation ends before, or a
  // member is late.
  void finish();

  // Returns a store for the process group of this generation. Its waits throw a PeerError when the generation ends.
  std::shared_ptr<Store> group_store() const;
  int generation() const { return generation_; }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  // Returns a text that says which members have gone and come since the previous generation.
  std::string difference() const;

 private:
  using Ids = std::vector<std::string>;
  struct Arrival {
    std::string id;
    std::int64_t steps;
  };

  std::string settled_key(const std::string& id) const;
  void arrive(std::int64_t steps);
  bool await_next();
  std::vector<Arrival> arrivals() const;
  void propose(std::vector<Arrival> arrivals) const;

  const std::shared_ptr<Store> store_;
  const Options options_;
  const std::string id_;  // "RANK-RANDOM", with the launcher's rank
  int generation_ = 0;
  int rank_ = -1;
  Ids previous_;
  Ids members_;
};

}  // namespace tandem::distributed
