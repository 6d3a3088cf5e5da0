#include <tandem/core/base/thread.h>
#include <tandem/distributed/training/checkpoints/checkpoint_writer.h>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace tandem::distributed {
namespace {

// Calls f(array) for each array of the training in `state`.
template <class State, class F>
void for_each_array(State& state, const F& f) {
  for (auto* const arrays : {&state.model, &state.optimizer, &state.kept, &state.ddp, &state.of_rank})
    for (auto& entry : *arrays) f(entry.array);
}

}  // namespace

std::size_t PendingCheckpoint::bytes() const {
  std::size_t bytes = of_ranks ? of_ranks->bytes() : 0;
  for_each_array(state, [&](const Array& array) { bytes += array.bytes(); });
  return bytes;
}

void PendingCheckpoint::copy_arrays() {
  std::vector<NamedArray> theirs;
  if (of_ranks)
    for (const auto& expected : of_ranks->all())
      theirs.push_back({expected.name, Array::empty(expected.shape, expected.dtype)});
  for_each_array(state, [](Array& array) {
    // Row-major, as in the file, so the thread need not rearrange it.
    Array copy = Array::empty(array.shape(), array.dtype());
    copy.copy_from(array);
    array = copy;
  });
  std::ranges::move(theirs, std::back_inserter(state.of_rank));
}

void PendingCheckpoint::receive() {
  if (!of_ranks) return;
  for (std::size_t i = 0; i < state.of_rank.size(); ++i)
    state.of_rank[i].array.copy_from(of_ranks->take(of_ranks->all()[i]));
}

void PendingCheckpoint::write() { state.shards.empty() ? publish() : save_shard(folder, state, rank); }

void PendingCheckpoint::publish() {
  if (state.of_rank.empty()) state.to_write = of_ranks.get();
  lock->check();
  save_checkpoint(folder, state, keep_last, &proven);
  why_no_link = link_best_checkpoint(folder, best_step);
}

void CheckpointWriter::start(std::shared_ptr<PendingCheckpoint> checkpoint) {
  // The thread shares the task, so an abandoned thread uses nothing that this object destroys.
  const auto task = std::make_shared<std::packaged_task<void()>>([checkpoint] { checkpoint->write(); });
  checkpoint_ = std::move(checkpoint);
  done_ = task->get_future();
  deadline_ = RunningTime::now() + longest_;
  try {
    thread_ = start_thread("the thread that writes checkpoints", [task] {
      name_thread("checkpoint");
      (*task)();
    });
  } catch (const Error&) {
    (*task)();
  }
}

bool CheckpointWriter::is_over() const {
  return !is_busy() || done_.wait_for(std::chrono::seconds(0)) == std::future_status::ready ||
         RunningTime::now() >= deadline_;
}

std::shared_ptr<PendingCheckpoint> CheckpointWriter::wait() {
  auto done = std::exchange(done_, {});
  auto checkpoint = std::move(checkpoint_);
  if (!wait_until(done, deadline_)) {
    thread_.detach();
    // write() does not change what this reads.
    detail::fail("cannot write ", checkpoint_path(checkpoint->folder, checkpoint->state).string(),
                 ": the disk has not finished it within ",
                 fmt::format("{:.3g}", std::chrono::duration<double>(longest_).count()),
                 " s. Check the disk or network file system that holds the folder. Older checkpoints are unchanged.");
  }
  if (thread_.joinable()) thread_.join();
  done.get();
  return checkpoint;
}

}  // namespace tandem::distributed
