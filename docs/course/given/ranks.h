// Ranks for the tasks: real processes, and sockets between them.
#pragma once
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.h"

namespace course {

// This process and its two neighbours.
struct Ring {
  int rank = 0, world = 1;
  int next = -1, previous = -1;  // sockets
};

inline std::size_t bytes_sent = 0;             // by this process, through send_some
inline std::size_t calls_in_vain = 0;          // of this process: calls of the next two functions that moved nothing
inline constexpr std::size_t at_most = 60000;  // bytes that one call takes or gives: as with a network, not all at once

// Sends as many of the bytes as the socket takes now, and returns how many. Throws if the other end is gone.
inline std::size_t send_some(int socket, const void* from, std::size_t bytes) {
  const ssize_t sent = bytes == 0 ? 0 : send(socket, from, std::min(bytes, at_most), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN) throw std::runtime_error(std::string("send: ") + std::strerror(errno));
  calls_in_vain += sent <= 0;
  bytes_sent += std::max<ssize_t>(sent, 0);
  return std::max<ssize_t>(sent, 0);
}

// Receives as many of the bytes as have arrived, and returns how many. Throws if the other end is closed.
inline std::size_t receive_some(int socket, void* to, std::size_t bytes) {
  const ssize_t received = bytes == 0 ? 0 : recv(socket, to, std::min(bytes, at_most), MSG_DONTWAIT);
  if (received == 0 && bytes > 0) throw std::runtime_error("receive: the other end is closed");
  if (received < 0 && errno != EAGAIN) throw std::runtime_error(std::string("receive: ") + std::strerror(errno));
  calls_in_vain += received <= 0;
  return std::max<ssize_t>(received, 0);
}

// Sleeps until one socket can send, or the other one can receive. -1 means no socket.
inline void wait_until_possible(int send_to, int receive_from) {
  pollfd sockets[] = {{send_to, POLLOUT, 0}, {receive_from, POLLIN, 0}};
  poll(sockets, 2, -1);
}

// Runs `body` as `world` processes in a ring, and returns what each of them returns. Throws what a rank throws.
inline std::vector<std::vector<float>> run_ranks(int world,
                                                 const std::function<std::vector<float>(const Ring&)>& body) {
  constexpr std::size_t room = 1 << 22;
  struct Result {
    std::atomic<bool> not_written;
    char error[1000];
    std::size_t size;
    float values[room];
  };
  auto* results = static_cast<Result*>(
      mmap(nullptr, world * sizeof(Result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (results == MAP_FAILED) throw std::runtime_error("no memory for the results of the ranks");
  std::vector<int> ends(2 * world);  // 2r: from rank r to the next; 2r + 1: where the next one receives it
  for (int r = 0; r < world; ++r)
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, &ends[2 * r]) != 0) throw std::runtime_error("no sockets for the ranks");
  for (int rank = 0; rank < world; ++rank) {
    if (fork() != 0) continue;
    const Ring ring{rank, world, ends[2 * rank], ends[2 * ((rank + world - 1) % world) + 1]};
    for (const int end : ends)
      if (end != ring.next && end != ring.previous) close(end);
    Result& mine = results[rank];
    try {
      const auto values = body(ring);
      if (values.size() > room) throw std::runtime_error("a result has too many numbers");
      mine.size = values.size();
      std::copy(values.begin(), values.end(), mine.values);
    } catch (const NotWritten&) {
      mine.not_written = true;
    } catch (const std::exception& error) {
      std::strncpy(mine.error, error.what(), sizeof(mine.error) - 1);
    }
    _exit(0);
  }
  for (const int end : ends) close(end);
  std::string crash;
  for (int status; wait(&status) > 0;)
    if (WIFSIGNALED(status)) crash = "a rank was " + ended_by(WTERMSIG(status));
  std::vector<std::vector<float>> all;
  std::string said, consequence;
  bool not_written = false;
  for (int rank = 0; rank < world; ++rank) {
    not_written = not_written || results[rank].not_written;
    const std::string error = results[rank].error;
    if (error.empty()) continue;
    // A rank that misses another one is usually the consequence of that one's error, which is reported instead.
    bool misses_another = false;
    for (const char* words : {"is closed", "send:", "has given up"})
      misses_another = misses_another || error.find(words) != std::string::npos;
    auto& text = misses_another ? consequence : said;
    if (text.empty()) text = "rank " + std::to_string(rank) + ": " + error;
  }
  for (int rank = 0; rank < world; ++rank)
    all.emplace_back(results[rank].values, results[rank].values + results[rank].size);
  munmap(results, world * sizeof(Result));
  if (not_written) throw NotWritten();
  for (const auto& text : {crash, said, consequence})
    if (!text.empty()) throw std::runtime_error(text);
  return all;
}

// The number that rank `rank` contributes to a sum in a test. The digits of the sum to base 16 show how often each rank
// is in it.
inline float digit_of(int rank) { return float(1 << (4 * rank)); }

// The sum of all of them.
inline float all_digits(int world) {
  float sum = 0;
  for (int rank = 0; rank < world; ++rank) sum += digit_of(rank);
  return sum;
}

// Throws an explanation unless `sum` on rank `on` has each of `world` ranks exactly once. `where` says which number it
// is, and `if_lacking` says what may be wrong if a rank is not in it.
inline void expect_each_rank_once(double sum, int on, int world, const std::string& where,
                                  const std::string& if_lacking = "") {
  const long digits = long(sum);
  for (int rank = 0; rank < world; ++rank) {
    const long times = digits >> (4 * rank) & 15;
    const auto of = "the gradient of rank " + std::to_string(rank);
    expect(times != 0, "the sum on rank ", on, " lacks ", of, " (", where, ")", if_lacking);
    expect(times != 2, "the sum on rank ", on, " has ", of, " twice: did rank ", rank, " add its own twice? (", where,
           ")");
    expect(times == 1, "the sum on rank ", on, " has ", of, " ", times, " times (", where, ")");
  }
  expect(digits == sum && digits >> (4 * world) == 0, "rank ", on, " has ", sum,
         ", which is not a sum of the ranks' numbers (", where, ")");
}

}  // namespace course
