// Random numbers: MT19937 in PyTorch's draw order, and the counter-based Philox.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace tandem {

// The serial generator behind initialisation and sampling. Given a seed it draws the numbers that PyTorch's CPU
// generator draws (std::mt19937 is the same algorithm), so weights and sample orders come out equal to the bit.
// Not for several threads at once.
class Generator {
 public:
  explicit Generator(std::uint64_t seed = 0) { manual_seed(seed); }
  void manual_seed(std::uint64_t seed);

  std::uint32_t next_u32() { return engine_(); }
  std::uint64_t next_u64();                 // two draws, the high word first
  float uniform(float low, float high);     // 24 random bits, in [low, high)
  double uniform(double low, double high);  // 53 random bits
  // A whole number in [low, high), from one or (from 2^28 numbers on) two draws modulo their count.
  std::int64_t integer(std::int64_t low, std::int64_t high);
  // Standard normal numbers by pairs (Box and Muller, 1958), one at a time: the second of a pair waits for the next
  // call.
  double normal();
  // What torch.randn gives: 16 and more in blocks of 16, which have their own logarithm and sine for float; fewer by
  // normal().
  void fill_normal(float* values, std::int64_t n);
  void fill_normal(double* values, std::int64_t n);
  // A permutation of 0 .. n-1: torch.randperm(n, generator=g).
  std::vector<std::int64_t> permutation(std::int64_t n);

  // Everything needed to go on from here, as text; set_state takes it back (Error when it is not such a text).
  std::string state() const;
  void set_state(const std::string& state);

 private:
  std::mt19937 engine_;
  std::optional<double> next_normal_;
};

// This thread's generator: what initialisation draws from. manual_seed(s) is torch.manual_seed(s).
Generator& default_generator();
void manual_seed(std::uint64_t seed);

// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): four random words as a pure
// function of a 128-bit counter and a 64-bit key, the same on every device. Key it by (seed, epoch) and count by
// (sample index, draw), and results depend neither on workers nor on ranks.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

}  // namespace tandem
