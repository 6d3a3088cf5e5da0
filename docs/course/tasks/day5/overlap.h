#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "buckets.h"

// A thread that does what it is given, in that order, while the caller goes on.
class CommunicationThread {
 public:
  CommunicationThread() { throw course::NotWritten(); }  // your code
  // Ends when all that was started is done.
  ~CommunicationThread() {}  // your code

  // Returns at once.
  void start(std::function<void()> job) { (void)job; }  // your code

  // Returns when all that was started is done. If a job threw, throws what it threw, each time; later jobs are not
  // run.
  void wait() {}  // your code
};
