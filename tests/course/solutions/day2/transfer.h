#pragma once
#include "ranks.h"

inline void exchange(const course::Ring& ring, const void* out, std::size_t out_bytes, void* in, std::size_t in_bytes) {
  auto from = static_cast<const char*>(out);
  auto to = static_cast<char*>(in);
  while (out_bytes > 0 || in_bytes > 0) {
    course::wait_until_possible(out_bytes > 0 ? ring.next : -1, in_bytes > 0 ? ring.previous : -1);
    if (out_bytes > 0) {
      const std::size_t sent = course::send_some(ring.next, from, out_bytes);
      from += sent, out_bytes -= sent;
    }
    if (in_bytes > 0) {
      const std::size_t received = course::receive_some(ring.previous, to, in_bytes);
      to += received, in_bytes -= received;
    }
  }
}

inline void send_all(int socket, const void* from, std::size_t bytes) {
  exchange({.next = socket}, from, bytes, nullptr, 0);
}

inline void receive_all(int socket, void* to, std::size_t bytes) {
  exchange({.previous = socket}, nullptr, 0, to, bytes);
}
