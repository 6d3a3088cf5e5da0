// Implements the GPU thread, which acts as all GPUs, and its queues.
#include "device_memory.h"
#include "random_order.h"
#include "stream_state.h"

#include <omp.h>

#include <algorithm>
#include <exception>

namespace emulation {

// These objects are never destroyed, because the GPU thread outlives main().
std::mutex& mutex = *new std::mutex;
std::condition_variable& changed = *new std::condition_variable;
int waiting = 0;
std::vector<cudaStream_t>& streams = *new std::vector<cudaStream_t>;

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds late{2};  // the delay of work for which no thread waits
std::uint64_t changes = 0, numbers = 0;
cudaStream_t running = nullptr;
enum class State { not_started, works, is_to_rest, rests } state = State::not_started;

// Advances the work at the front of one stream. It mostly chooses the work that was submitted last, because work that
// must wait was submitted after the work that it waits for. Returns whether a piece of work was finished.
bool take_a_step(std::unique_lock<std::mutex>& lock) {
  const auto now = Clock::now();
  std::vector<cudaStream_t> order;
  for (const auto stream : streams) {
    if (!stream->queue.empty() && (waiting > 0 || now - stream->queue.front().since > late)) order.push_back(stream);
  }
  static Random random(seed_of_orders());
  if (random() % 4 == 0) {
    std::shuffle(order.begin(), order.end(), random);
  } else {
    std::sort(order.begin(), order.end(),
              [](auto* a, auto* b) { return a->queue.front().number > b->queue.front().number; });
  }
  for (const auto stream : order) {
    const auto advance = stream->queue.front().advance;
    running = stream;
    lock.unlock();
    const bool is_finished = advance();
    lock.lock();
    if (!is_finished) continue;
    stream->queue.pop_front();
    ++stream->done;
    if (stream->queue.empty() && stream->is_destroyed) {
      std::erase(streams, stream);
      delete stream;
    }
    notify();
    return true;
  }
  return false;
}

void be_the_gpu() {
  take_fault_stack();
  omp_set_num_threads(1);  // threads of a team would not be the GPU thread
  std::unique_lock lock(mutex);
  for (;;) {
    if (state == State::is_to_rest) {
      state = State::rests;
      notify();
      changed.wait(lock, [] { return false; });
    }
    const auto before = changes;
    try {
      if (take_a_step(lock)) continue;
    } catch (const std::exception& error) {
      die("%s", error.what());
    }
    const bool is_idle = std::all_of(streams.begin(), streams.end(), [](auto* s) { return s->queue.empty(); });
    const auto news = [&] { return changes != before; };
    if (is_idle) changed.wait(lock, news);
    else changed.wait_for(lock, late / 2, news);
  }
}

}  // namespace

void notify() {
  ++changes;
  changed.notify_all();
}

cudaStream_t running_stream() { return running; }
int device_of(cudaStream_t stream) { return stream->device; }

bool is_open(const std::shared_ptr<Completion>& completion) { return completion && completion->open > 0; }

void push(cudaStream_t stream, std::function<bool()> advance) {
  static const auto* gpu = new std::thread(be_the_gpu);  // never joined: it ends with the process
  static_cast<void>(gpu);
  if (state == State::not_started) state = State::works;
  stream->queue.push_back({std::move(advance), ++numbers, Clock::now()});
  ++stream->asked;
  notify();
}

void rest() {
  std::unique_lock lock(mutex);
  if (state != State::works) return;
  state = State::is_to_rest;
  notify();
  changed.wait_for(lock, std::chrono::seconds(5), [] { return state == State::rests; });
}

void complete(Completion& completion) {
  const std::lock_guard lock(mutex);
  if (--completion.open > 0) return;
  completion.end = Clock::now();
  notify();
}
bool is_done(const std::shared_ptr<Completion>& completion) {
  const std::lock_guard lock(mutex);
  return !is_open(completion);
}

void wait_for_stream(cudaStream_t stream) {
  std::unique_lock lock(mutex);
  wait_until(lock, [&, asked = stream->asked] { return stream->done >= asked; });
}
void wait_for_gpu(int device) {
  std::unique_lock lock(mutex);
  wait_until(lock, [&] {
    return std::all_of(streams.begin(), streams.end(),
                       [&](auto* stream) { return stream->device != device || stream->queue.empty(); });
  });
}

}  // namespace emulation
