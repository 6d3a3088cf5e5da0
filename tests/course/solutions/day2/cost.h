#pragma once

inline double message(double bytes, double latency, double bandwidth) { return latency + bytes / bandwidth; }

inline double ring_seconds(int world, double bytes, double latency, double bandwidth) {
  return 2 * (world - 1) * message(bytes / world, latency, bandwidth);
}

inline double direct_seconds(int world, double bytes, double latency, double bandwidth) {
  return world == 1 ? 0 : message((world - 1) * bytes, latency, bandwidth);
}
