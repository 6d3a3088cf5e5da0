// The tests of day 2. Each says what is wrong in words.
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "cost.h"
#include "meet.h"
#include "ring.h"
#include "transfer.h"

using course::all_digits;
using course::expect;
using course::Ring;
using course::run_ranks;

// Sleeping costs no calls. Who asks again and again keeps a core busy while another rank is late.
void expect_sleep(const char* what) {
  expect(course::calls_in_vain < 200, what, " called send_some and receive_some ", course::calls_in_vain,
         " times in vain while the other rank was late: it does not sleep. Does wait_until_possible wait only for the "
         "direction that is not done?");
}

// Rank 0 sends, rank 1 receives, for several sizes.
void all_bytes_arrive() {
  for (const std::size_t size : {1, 1000, 300'001, 2'000'000}) {
    run_ranks(2, [size](const Ring& ring) -> std::vector<float> {
      std::vector<unsigned char> bytes(size, 255);
      if (ring.rank == 0) {
        for (std::size_t i = 0; i < size; ++i) bytes[i] = i % 251;
        send_all(ring.next, bytes.data(), size);
        expect(course::bytes_sent == size, "send_all sent ", course::bytes_sent, " of ", size,
               " bytes: send_some takes as many as fit, which may be fewer than you pass");
        return {};
      }
      receive_all(ring.previous, bytes.data(), size);
      for (std::size_t i = 0; i < size; ++i)
        expect(bytes[i] == i % 251, "receive_all: byte ", i, " of ", size, " is ", int(bytes[i]), ", expected ",
               i % 251,
               bytes[i] == 255 ? ": it returned before all bytes had arrived"
                               : ": a later part was put in the wrong place");
      return {};
    });
  }
}

void who_waits_sleeps() {
  for (const int late : {0, 1})
    run_ranks(2, [late](const Ring& ring) -> std::vector<float> {
      std::vector<float> numbers(1'000'000);
      if (ring.rank == late) std::this_thread::sleep_for(std::chrono::milliseconds(150));
      if (ring.rank == 0) send_all(ring.next, numbers.data(), numbers.size() * sizeof(float));
      else receive_all(ring.previous, numbers.data(), numbers.size() * sizeof(float));
      expect_sleep(ring.rank == 0 ? "send_all" : "receive_all");
      return {};
    });
}

void neighbours_exchange() {
  for (const int late : {0, 1})
    run_ranks(2, [late](const Ring& ring) -> std::vector<float> {
      if (ring.rank == late) std::this_thread::sleep_for(std::chrono::milliseconds(150));
      float out = 1, in = 0;
      exchange(ring, &out, sizeof(out), &in, sizeof(in));
      expect_sleep("exchange");
      return {};
    });
  for (const int world : {2, 3, 5})
    for (const std::size_t size : {3, 700'000})
      run_ranks(world, [=](const Ring& ring) -> std::vector<float> {
        const std::size_t from_previous = size + (ring.rank + world - 1) % world;  // all of another size
        std::vector<float> out(size + ring.rank, ring.rank), in(from_previous, -1);
        exchange(ring, out.data(), out.size() * sizeof(float), in.data(), in.size() * sizeof(float));
        for (const float value : in) {
          expect(value != -1, "exchange: it returned before all bytes had arrived");
          expect(value == (ring.rank + world - 1) % world, "exchange: it received a number of rank ", value,
                 ", the previous rank is ", (ring.rank + world - 1) % world);
        }
        return {};
      });
}

void ranks_meet() {
  for (const int world : {1, 2, 4}) {
    char folder[] = "/tmp/course-store-XXXXXX";
    expect(mkdtemp(folder) != nullptr, "no folder for the store");
    try {
      run_ranks(world, [&](const Ring& given) -> std::vector<float> {
        const course::Store store(folder);
        std::this_thread::sleep_for(std::chrono::milliseconds(37 * (given.rank * 7 % 5)));  // they come at any time
        const Ring ring = meet(store, given.rank, world);
        expect(ring.rank == given.rank && ring.world == world, "meet: the ring says rank ", ring.rank, " of ",
               ring.world, ", it is rank ", given.rank, " of ", world);
        char hello = char('a' + ring.rank), heard = 0;
        expect(write(ring.next, &hello, 1) == 1, "meet: `next` is not an open socket");
        expect(read(ring.previous, &heard, 1) == 1, "meet: `previous` is not an open socket");
        const int previous = (ring.rank + world - 1) % world;
        expect(heard == 'a' + previous, "meet: `previous` leads to rank ", heard - 'a', ", not to rank ", previous);
        return {};
      });
    } catch (...) {
      std::filesystem::remove_all(folder);
      throw;
    }
    std::filesystem::remove_all(folder);
  }
}

void ring_adds_everything_once() {
  for (const int world : {1, 2, 3, 4, 5})
    for (const std::size_t size : {1, 4, 7, 1000, 300'000}) {
      const auto sums = run_ranks(world, [size](const Ring& ring) {
        std::vector<float> values(size, course::digit_of(ring.rank));
        for (std::size_t i = 0; i < size; i += 3) values[i] = 0;  // every third number is 0 on all ranks
        ring_all_reduce(ring, values.data(), size);
        return values;
      });
      for (int rank = 0; rank < world; ++rank)
        for (std::size_t i = 0; i < size; ++i) {
          if (sums[rank][i] == (i % 3 == 0 ? 0 : all_digits(world))) continue;
          const auto where =
              "number " + std::to_string(i) + " of " + std::to_string(size) + ", " + std::to_string(world) + " ranks";
          expect(i % 3 != 0, "rank ", rank, " has ", sums[rank][i], " although all ranks had 0 (", where,
                 "): a chunk was stored in the place of another one");
          course::expect_each_rank_once(
              sums[rank][i], rank, world, where,
              ": it was not added in the first half, or the second half sent a chunk that was "
              "not complete yet");
        }
    }
}

void ring_sends_no_more_than_it_must() {
  for (const int world : {2, 3, 4, 6})
    run_ranks(world, [world](const Ring& ring) -> std::vector<float> {
      const std::size_t size = 12'000;
      std::vector<float> values(size, 1);
      ring_all_reduce(ring, values.data(), size);
      const std::size_t least = 2 * size * sizeof(float) * (world - 1) / world;
      expect(course::bytes_sent <= least, "rank ", ring.rank, " of ", world, " sent ", course::bytes_sent,
             " bytes, where a ring needs ", least, ": is a step's message one chunk, or the whole array?");
      expect(course::bytes_sent == least, "rank ", ring.rank, " of ", world, " sent only ", course::bytes_sent,
             " bytes with send_some. No algorithm needs less than ", least,
             4 * course::bytes_sent == least
                 ? ". That is a quarter: exchange counts bytes, and a float has sizeof(float) of them"
             : 2 * course::bytes_sent == least ? ". That is a half: are there both a reduce-scatter and an all-gather?"
                                               : "");
      return {};
    });
}

void ring_gives_all_ranks_the_same_bits() {
  for (const int world : {3, 4, 7}) {
    const auto sums = run_ranks(world, [](const Ring& ring) {
      std::vector<float> values(5003);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(1.0f + i * (ring.rank + 3.1f));
      ring_all_reduce(ring, values.data(), values.size());
      return values;
    });
    for (int rank = 1; rank < world; ++rank)
      for (std::size_t i = 0; i < sums[0].size(); ++i)
        expect(sums[rank][i] == sums[0][i], "number ", i, " is ", sums[0][i], " on rank 0 and ", sums[rank][i],
               " on rank ", rank,
               ": each rank added in a different order. One rank must add a chunk, and the others must copy it");
  }
}

void costs() {
  const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-9 + 1e-6 * std::abs(b); };
  expect(near(ring_seconds(1, 1e6, 1e-4, 1e9), 0), "ring_seconds: a single rank waits for no other, found ",
         ring_seconds(1, 1e6, 1e-4, 1e9));
  expect(near(ring_seconds(4, 0, 1e-4, 1e9), 6e-4),
         "ring_seconds: an empty array on 4 ranks is 6 messages one after the "
         "other, 6e-4 s with a latency of 1e-4 s; found ",
         ring_seconds(4, 0, 1e-4, 1e9));
  expect(near(ring_seconds(4, 8e6, 0, 1e9), 0.012),
         "ring_seconds: 8 MB on 4 ranks are 12 MB sent by each, 0.012 s at "
         "1 GB/s; found ",
         ring_seconds(4, 8e6, 0, 1e9));
  expect(near(ring_seconds(7, 3e6, 2e-5, 2e8), 2 * 6 * (2e-5 + 3e6 / 7 / 2e8)), "ring_seconds: wrong for 7 ranks");
  expect(near(direct_seconds(1, 1e6, 1e-4, 1e9), 0), "direct_seconds: a single rank sends nothing");
  expect(near(direct_seconds(4, 0, 1e-4, 1e9), 1e-4), "direct_seconds: an empty array costs one latency, found ",
         direct_seconds(4, 0, 1e-4, 1e9));
  expect(near(direct_seconds(4, 8e6, 0, 1e9), 0.024),
         "direct_seconds: 8 MB to each of 3 others are 24 MB, 0.024 s at "
         "1 GB/s; found ",
         direct_seconds(4, 8e6, 0, 1e9));
  expect(near(direct_seconds(7, 3e6, 2e-5, 2e8), 2e-5 + 6 * 3e6 / 2e8), "direct_seconds: wrong for 7 ranks");
}

int main() {
  return course::run({
      {"1 send_all, receive_all", "Is there a loop that ends when all bytes have been moved?",
       [] {
         all_bytes_arrive();
         who_waits_sleeps();
       }},
      {"2 exchange", "Every rank waits until it has sent, and no rank receives: do both in one loop.",
       neighbours_exchange},
      {"3 meet",
       "Does a rank accept before it has published its port and connected, or wait for a key that no rank sets?",
       ranks_meet},
      {"4 ring_all_reduce",
       "Does the size of a chunk that is sent differ from the size that the next rank expects, or is one in bytes and "
       "one in floats?",
       [] {
         ring_sends_no_more_than_it_must();
         ring_adds_everything_once();
         ring_gives_all_ranks_the_same_bits();
       }},
      {"5 ring_seconds, direct_seconds", "", costs},
  });
}
