// The file of a flight recorder: one FlightHeader, then a ring of FlightEntry.
#pragma once

#include <cstdint>

namespace tandem::distributed {

// One operation of a group. Entry n is in place (n - 1) % capacity. Times are nanoseconds of the host's steady clock;
// 0: not yet. Texts end with a zero byte, and are cut where they are too long.
struct alignas(64) FlightEntry {
  enum class State : std::uint8_t {
    started,  // the program has called the operation
    running,  // this rank takes part in it; on a GPU: it is in the GPU's queue
    done,
    failed
  };
  std::uint64_t number;    // from 1 on; 0: nothing yet, or the entry is being written
  std::uint64_t sequence;  // among the collectives of the group, from 1 on; 0: a message, or nothing to move
  std::int64_t started, running, ended;  // when the entry came into that state; `ended`: done or failed
  State state;
  std::uint8_t kind, reduce_op, dtype;  // of Operation and DType
  std::uint16_t group;                  // its place in FlightHeader::groups
  std::uint16_t ndim;
  std::int32_t root;
  std::uint32_t arrays;
  std::int64_t shape[6];  // of the first output, or else of the first input
  char name[88];          // "gradient bucket 2"
};
static_assert(sizeof(FlightEntry) == 192);

struct FlightGroup {
  char name[124];  // "gloo of ranks 0-3": the same on all its ranks, and no other group of the job has it
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
  std::int64_t alive;   // the last sign of life, which comes twice a second; steady
  std::uint64_t count;  // entries written so far
  std::uint32_t group_count;
  std::uint32_t groups_left_out;  // beyond most_groups; their operations are not recorded
  char host[128];
  char job[64];        // equal for all ranks of one generation of the job, and for no others
  char failure[1024];  // why the rank's first operation failed; empty: none did
  FlightGroup groups[most_groups];
};

}  // namespace tandem::distributed
