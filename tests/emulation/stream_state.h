// The state of streams, events and graphs, for the sources of this emulation that use it.
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

// Captured work. `after` lists the nodes that a node waits for.
struct Recording {
  struct Node {
    Start start;
    std::vector<std::size_t> after;
  };
  std::vector<Node> nodes;
  std::vector<std::shared_ptr<void>> held;
  std::vector<cudaStream_t> streams;  // the captured streams, beginning with the one that began the capture
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  bool is_spoiled = false;
};

}  // namespace emulation

struct EmulatedStream {
  int device = 0;
  std::uint64_t asked = 0, done = 0;  // numbers of pieces of work
  struct Item {
    std::function<bool()> advance;  // returns true when the work is done
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

extern std::mutex& mutex;  // guards everything in this file
extern std::condition_variable& changed;
extern int waiting;  // the number of host threads that wait for the GPU
extern std::vector<cudaStream_t>& streams;

// Wakes up all waiting threads. The caller holds the lock, for this function and all below.
void notify();
bool is_open(const std::shared_ptr<Completion>& completion);
// Puts work at the end of a stream's queue. `advance` is called until it returns true.
void push(cudaStream_t stream, std::function<bool()> advance);
// Returns the stream, or aborts the process if it is the default stream.
cudaStream_t stream_or_default(cudaStream_t stream);

template <class Done>
void wait_until(std::unique_lock<std::mutex>& lock, Done done) {
  ++waiting;
  notify();
  changed.wait(lock, done);
  --waiting;
}

// Adds work for a captured stream to the graph as a node.
void add_node(EmulatedStream& stream, Start start);
// Marks a captured graph as invalid. Returns the error for the call to return.
cudaError_t spoil(Recording& capture, cudaError_t error);

}  // namespace emulation
