// The tests of day 5. Each says what is wrong in words. When all are right, your thread is measured on a limited link.
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>

#include "model_of_cost.h"
#include "overlap.h"

using course::expect;
using course::Ring;
using Clock = std::chrono::steady_clock;

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void jobs_run_in_order_beside_the_caller() {
  const auto caller = std::this_thread::get_id();
  CommunicationThread thread;
  for (int pass = 0; pass < 2; ++pass) {
    std::vector<int> done;
    std::atomic<int> running = 0;
    std::atomic<bool> side_by_side = false, by_caller = false;
    for (int i = 0; i < 3; ++i)
      thread.start([&, i] {
        if (running++ > 0) side_by_side = true;
        if (std::this_thread::get_id() == caller) by_caller = true;
        sleep_for(0.1);
        done.push_back(i);
        --running;
      });
    expect(!by_caller, "start runs the job itself: backward would stop meanwhile");
    thread.wait();
    expect(done.size() == 3, "wait returned when ", done.size(), " of 3 jobs were done (pass ", pass, ")");
    expect(!side_by_side, "two jobs ran at the same time: their messages would mix on the same sockets");
    for (int i = 0; i < 3; ++i)
      expect(done[i] == i, "job ", done[i], " ran instead of job ", i, ": a stack, not a queue?");
  }
  thread.wait();  // nothing to wait for
}

// Waits some seconds at most until `condition()`, and returns whether it came to be.
template <typename Condition>
bool comes_true(const Condition& condition) {
  for (int i = 0; i < 500 && !condition(); ++i) sleep_for(0.01);
  return condition();
}

void start_returns_while_a_job_runs() {
  std::atomic<bool> runs = false;
  std::atomic<int> returned = 0, returned_in_time = -1;
  CommunicationThread thread;
  thread.start([&] {
    runs = true;
    comes_true([&] { return returned == 2; });
    returned_in_time = returned.load();
  });
  returned = 1;
  const bool began = comes_true([&] { return runs.load(); });
  thread.start([] {});
  returned = 2;
  thread.wait();
  expect(returned_in_time != 0, "start returned when its job was done: it must return at once");
  expect(began, "the first job had not begun a long time after start: does the thread sleep until wait is called?");
  expect(returned_in_time == 2, "start waited for the running job: is the lock held meanwhile?");
}

void ends_are_clean() {
  { CommunicationThread thread; }
  std::atomic<int> done = 0;
  {
    CommunicationThread thread;
    for (int i = 0; i < 3; ++i) thread.start([&] { sleep_for(0.05), ++done; });
  }
  expect(done == 3, "the destructor returned when ", done.load(), " of 3 jobs were done");
}

void failures_are_told() {
  CommunicationThread thread;
  std::atomic<bool> ran = false;
  thread.start([] { throw std::runtime_error("the other end is closed"); });
  thread.start([&] { ran = true; });
  for (const char* when : {"", " when it was called again"}) {
    std::string said;
    try {
      thread.wait();
    } catch (const std::exception& error) {
      said = error.what();
    }
    expect(said == "the other end is closed", "a job threw, and wait did not", when,
           ": training would continue with gradients that are not averaged");
  }
  expect(!ran, "a job ran after one had failed: the ranks are out of step by then");
}

// As in training: bucket 0 fails while backward goes on, and the hooks start the others.
void jobs_after_a_failure_are_left_out() {
  for (int round = 0; round < 50; ++round) {
    std::atomic<bool> ran = false;
    bool threw = false;
    CommunicationThread thread;
    thread.start([] { throw std::runtime_error("the other end is closed"); });
    sleep_for(0.002);
    for (int i = 0; i < 3; ++i) thread.start([&] { ran = true; });
    try {
      thread.wait();
    } catch (const std::exception&) {
      threw = true;
    }
    expect(threw, "wait() did not throw, although a job had thrown before the others were started");
    expect(!ran, "a job that was started after one had failed ran: the ranks are out of step by then");
  }
}

void ends_are_right() {
  const auto is = [](std::vector<double> full, std::vector<double> takes, double expected, const char* what) {
    const double found = last_bucket_ends(full, takes);
    expect(std::abs(found - expected) < 1e-9, "last_bucket_ends: ", what, ": expected ", expected, ", found ", found);
  };
  is({2}, {3}, 5, "full at 2, takes 3");
  is({1, 5}, {2, 1}, 6, "the second is full long after the first has ended");
  is({1, 2}, {5, 1}, 7, "the second must wait until the first has ended");
  is({4, 2, 3}, {1, 1, 1}, 7, "the second is full before the first, but buckets start in order");
  is({1, 2, 10}, {1, 1, 0.5}, 10.5, "a last small bucket");
}

void caps_are_weighed() {
  const std::vector<std::size_t> caps{1, 4000, 1000000};
  const std::vector<std::size_t> bytes(100, 1000);
  std::vector<double> ready(100);
  for (int p = 0; p < 100; ++p) ready[p] = 0.001 * (100 - p);
  const auto is = [&](std::size_t found, std::size_t expected, const char* what) {
    expect(found == expected, "best_cap: ", what, ": expected ", expected, ", found ", found);
  };
  is(best_cap(caps, bytes, ready, 4, 0.05, 1e9), 1000000,
     "messages are expensive and bytes are cheap, so one bucket is best");
  is(best_cap(caps, bytes, ready, 4, 0, 1e6), 1,
     "messages are free, so small buckets are best: they are full early and leave little for the end (is a bucket "
     "full when the last of its gradients is final?)");
  is(best_cap(caps, bytes, ready, 4, 0.0005, 1e6), 4000, "both cost something");
  is(best_cap(caps, bytes, ready, 1, 0.0005, 1e6), 1, "a single rank sends nothing: all caps are equal");
}

// Two ranks, eight layers whose backward takes 10 ms each, 100,000 bytes of gradients each, and a link on which an
// all-reduce of m bytes takes 1 ms and m / (10 MB/s).
double step_seconds(bool overlaps, int layers_in_a_bucket) {
  const auto seconds = course::run_ranks(2, [=](const Ring& ring) -> std::vector<float> {
    std::vector<float> gradients(8 * 25'000, 1);
    const auto all_reduce = [&](int layer) {
      const auto start = Clock::now();
      const std::size_t size = std::size_t(layers_in_a_bucket) * 25'000;
      ring_all_reduce(ring, gradients.data() + layer / layers_in_a_bucket * size, size);
      sleep_for(0.001 + size * 4 / 10e6 - seconds_since(start));
    };
    double best = 1e9;
    for (int step = 0; step < 2; ++step) {
      std::unique_ptr<CommunicationThread> thread(overlaps ? new CommunicationThread : nullptr);
      const auto start = Clock::now();
      for (int layer = 0; layer < 8; ++layer) {
        sleep_for(0.01);
        if (overlaps && layer % layers_in_a_bucket == layers_in_a_bucket - 1)
          thread->start([&, layer] { all_reduce(layer); });
      }
      if (overlaps) thread->wait();
      else
        for (int layer = 0; layer < 8; layer += layers_in_a_bucket) all_reduce(layer);
      best = std::min(best, seconds_since(start));
    }
    return {float(best)};
  });
  return std::max(seconds[0][0], seconds[1][0]);
}

int main() {
  const int failed = course::run({
      {"1 CommunicationThread",
       "Is the thread notified when there is a job, and when it must end? Is `wait` notified when the last job is "
       "done, even if a job before it failed?",
       [] {
         jobs_run_in_order_beside_the_caller();
         start_returns_while_a_job_runs();
         ends_are_clean();
         failures_are_told();
         jobs_after_a_failure_are_left_out();
       }},
      {"2 last_bucket_ends", "", ends_are_right},
      {"3 best_cap", "", caps_are_weighed},
  });
  if (failed) return failed;
  std::printf("\nA step of 80 ms of backward and 800 KB of gradients, on two ranks and a link of 10 MB/s:\n");
  std::printf("  layers in a bucket   one after the other   your thread   your formula\n");
  for (const int layers : {1, 2, 4, 8}) {
    std::vector<double> full, takes;
    for (int layer = layers; layer <= 8; layer += layers) {
      full.push_back(0.01 * layer);
      takes.push_back(0.001 + layers * 100e3 / 10e6);
    }
    std::printf("  %18d   %16.0f ms   %8.0f ms   %9.0f ms\n", layers, 1000 * step_seconds(false, layers),
                1000 * step_seconds(true, layers), 1000 * last_bucket_ends(full, takes));
  }
}
