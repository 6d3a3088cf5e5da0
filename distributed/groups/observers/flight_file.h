// The format of a flight recorder's file: one FlightHeader, followed by a ring of FlightEntry.
#pragma once

#include <cstdint>

namespace tandem::distributed {

// One operation of a group. Entry n is at index (n - 1) % capacity of the ring. Times are nanoseconds of the host's
// steady clock, or 0 for "not yet". Strings end with a zero byte and are truncated if they are too long.
struct alignas(64) FlightEntry {
  enum class State : std::uint8_t {
    started,  // the program has called the operation
    running,  // this rank takes part in it; on a GPU: it is in the GPU's queue
    done,
    failed
  };
  std::uint64_t number;    // counts from 1; 0: the entry is empty or being written
  std::uint64_t sequence;  // among the group's collectives, counts from 1; 0: a message, or nothing to move
  std::int64_t started, running, ended;  // when the operation entered that state; `ended`: done or failed
  State state;
  std::uint8_t kind, reduce_op, dtype;  // of Operation and DType
  std::uint16_t group;                  // its index in FlightHeader::groups
  std::uint16_t ndim;
  std::int32_t root;
  std::uint32_t arrays;
  std::int64_t shape[6];  // of the first output, or else of the first input
  char name[88];          // "gradient bucket 2"
};
static_assert(sizeof(FlightEntry) == 192);

struct FlightGroup {
  char name[124];  // "gloo of ranks 0-3": the same on all ranks of the group, and unique in the job
  std::int32_t size;
};

struct alignas(64) FlightHeader {
  static constexpr char right_magic[8] = "TANDMFR";
  static constexpr std::uint32_t right_version = 1;
  static constexpr std::uint32_t right_capacity = 1000;
  static constexpr std::uint32_t most_groups = 64;

  char magic[8];
  std::uint32_t version, capacity, header_bytes, entry_bytes;
  std::int32_t rank, world_size;
  std::int32_t pid;
  std::uint32_t has_left;  // 1: the rank has left its job cleanly
  std::int64_t made_utc;   // nanoseconds since 1970, at the same moment as made_steady
  std::int64_t made_steady;
  std::int64_t alive;   // time of the last sign of life (there are two per second); steady clock
  std::uint64_t count;  // entries written so far
  std::uint32_t group_count;
  std::uint32_t groups_left_out;  // groups beyond most_groups, whose operations are not recorded
  char host[128];
  char job[64];        // the same for all ranks of one generation of the job, and unique
  char failure[1024];  // the reason of the rank's first failure; empty: nothing failed
  FlightGroup groups[most_groups];
};

}  // namespace tandem::distributed
