// Random numbers: MT19937 in PyTorch's draw order, and the counter-based Philox.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace tandem {

// The serial generator behind initialisation and sampling. With the same seed it draws the numbers that PyTorch's CPU
// generator draws (std::mt19937 is the same algorithm), so weights and sample orders are bitwise identical. Only one
// thread may use a Generator at a time.
class Generator {
 public:
  explicit Generator(std::uint64_t seed = 0) { manual_seed(seed); }
  void manual_seed(std::uint64_t seed);

  std::uint32_t next_u32() { return engine_(); }
  std::uint64_t next_u64();                 // two draws, the high word first
  float uniform(float low, float high);     // 24 random bits, in [low, high)
  double uniform(double low, double high);  // 53 random bits
  // A whole number in [low, high): a draw modulo the number of possible results. It takes one 32-bit draw, or two where
  // 2^28 or more results are possible. PyTorch changes to two draws there, too; below that limit the modulo makes a
  // result at most 1/16 more likely than another.
  std::int64_t integer(std::int64_t low, std::int64_t high);
  // A standard normal number. The method (Box and Muller, 1958) makes two at a time: the second one waits for the next
  // call.
  double normal();
  // Fills `values` as torch.randn and torch.normal do. 16 numbers or more are made in blocks of 16, for which the float
  // version has its own logarithm and sine; fewer come from normal(). 16 is PyTorch's figure: another one would give
  // other numbers. Fewer than 16 numbers are scaled before they are rounded, and more numbers after.
  void fill_normal(float* values, std::int64_t n, double mean = 0, double std = 1);
  void fill_normal(double* values, std::int64_t n, double mean = 0, double std = 1);
  // A permutation of 0 .. n-1: torch.randperm(n, generator=g).
  std::vector<std::int64_t> permutation(std::int64_t n);

  // The whole state of the generator as text. set_state() continues from such a text; Error when the text is not one.
  std::string state() const;
  void set_state(const std::string& state);

 private:
  std::mt19937 engine_;
  std::optional<double> next_normal_;
};

// This thread's generator, from which initialisation draws. manual_seed(s) is torch.manual_seed(s).
Generator& default_generator();
void manual_seed(std::uint64_t seed);

// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): four random words as a pure
// function of a 128-bit counter and a 64-bit key, the same on every device. With (seed, epoch) as the key and (sample
// index, draw) as the counter, results depend neither on the number of workers nor on the number of ranks.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

}  // namespace tandem
