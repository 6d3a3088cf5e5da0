// What streams, events and graphs are made of, for the sources of this emulation that work on them.
#pragma once

#include "streams.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace emulation {

// What was captured. `after` are the nodes that a node waits for.
struct Recording {
  struct Node {
    Start start;
    std::vector<std::size_t> after;
  };
  std::vector<Node> nodes;
  std::vector<std::shared_ptr<void>> held;
  std::vector<cudaStream_t> streams;  // that are captured; the first of them began it
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  bool is_spoiled = false;
};

}  // namespace emulation

struct EmulatedStream {
  int device = 0;
  std::uint64_t asked = 0, done = 0;  // pieces of work
  struct Item {
    std::function<bool()> advance;  // true when it is done
    std::uint64_t number;
    std::chrono::steady_clock::time_point since;
  };
  std::deque<Item> queue;
  bool is_destroyed = false;
  std::shared_ptr<emulation::Recording> capture;
  std::vector<std::size_t> latest;  // the nodes that the next node of this stream waits for
};
struct EmulatedEvent {
  bool has_timing = false;
  std::shared_ptr<emulation::Completion> after;
  std::weak_ptr<emulation::Recording> capture;
  bool is_captured = false;
  std::vector<std::size_t> latest;
};
struct EmulatedGraph {
  std::shared_ptr<emulation::Recording> recording;
};

namespace emulation {

extern std::mutex& mutex;  // guards everything here
extern std::condition_variable& changed;
extern int waiting;  // threads on the host that wait for the GPU
extern std::vector<cudaStream_t>& streams;

// Wakes up all that wait for something. The caller holds the lock, as for all that follows.
void notify();
bool is_open(const std::shared_ptr<Completion>& completion);
// Puts work at the end of a stream's queue. It is called until it says that it is done.
void push(cudaStream_t stream, std::function<bool()> advance);
// The stream itself. Ends the process where it is the default stream.
cudaStream_t stream_or_default(cudaStream_t stream);

template <class Done>
void wait_until(std::unique_lock<std::mutex>& lock, Done done) {
  ++waiting;
  notify();
  changed.wait(lock, done);
  --waiting;
}

// Work that a captured stream is asked for becomes a node.
void add_node(EmulatedStream& stream, Start start);
// The graph that is captured can't be made any more. Returns the error that the call returns.
cudaError_t spoil(Recording& capture, cudaError_t error);

}  // namespace emulation
