// Random numbers: MT19937 in PyTorch's draw order, and the counter-based Philox.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace tandem {

// The serial generator for initialisation and sampling. With the same seed, it draws the same numbers as PyTorch's CPU
// generator, because std::mt19937 is the same algorithm. Weights and sample orders are therefore bitwise identical.
// Only one thread at a time may use a Generator.
class Generator {
 public:
  explicit Generator(std::uint64_t seed = 0) { manual_seed(seed); }
  void manual_seed(std::uint64_t seed);

  std::uint32_t next_u32() { return engine_(); }
  std::uint64_t next_u64();                 // two draws, the high word first
  float uniform(float low, float high);     // 24 random bits, in [low, high)
  double uniform(double low, double high);  // 53 random bits
  // Returns an integer in [low, high): a draw modulo the number of possible results. It uses one 32-bit draw, or two if
  // 2^28 or more results are possible. PyTorch switches to two draws at the same limit. Below it, the modulo makes a
  // result at most 1/16 more likely than another.
  std::int64_t integer(std::int64_t low, std::int64_t high);
  // Returns a standard normal number. The method (Box and Muller, 1958) computes two at a time, and the next call
  // returns the second.
  double normal();
  // Fills `values` like torch.randn and torch.normal. 16 or more numbers are computed in blocks of 16, for which the
  // float version has its own logarithm and sine. Fewer than 16 come from normal(). 16 is PyTorch's block size; another
  // size would produce different numbers. Fewer than 16 numbers are scaled before rounding, more numbers after it.
  void fill_normal(float* values, std::int64_t n, double mean = 0, double std = 1);
  void fill_normal(double* values, std::int64_t n, double mean = 0, double std = 1);
  // Returns a permutation of 0 .. n-1, like torch.randperm(n, generator=g).
  std::vector<std::int64_t> permutation(std::int64_t n);

  // state() returns the whole state of the generator as text. set_state() restores it, and throws an Error if the text
  // is not such a state.
  std::string state() const;
  void set_state(const std::string& state);

 private:
  std::mt19937 engine_;
  std::optional<double> next_normal_;
};

// Returns this thread's generator, which initialisation uses. manual_seed(s) is torch.manual_seed(s) for this thread.
// The main thread's generator starts with seed 0. Those of other threads start with different seeds, in the order in
// which the threads first use them, so that no two threads draw the same numbers by mistake.
Generator& default_generator();
void manual_seed(std::uint64_t seed);

// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) computes four random words as
// a pure function of a 128-bit counter and a 64-bit key. The words are the same on every device. With (seed, epoch) as
// the key and (sample index, draw) as the counter, results depend neither on the number of workers nor on the number of
// ranks.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

}  // namespace tandem
