// core/cpu/transpose.h: whole squares, parts of squares, and the memory around them.
#include <tandem/core/cpu/transpose.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

namespace tandem {
namespace {

// Transposes (rows, columns) with `gap` numbers after each row of `from` and `to`, and with `behind` more numbers that
// may be read.
template <class T>
void expect_transposed(std::int64_t rows, std::int64_t columns, std::int64_t gap, std::int64_t behind) {
  const std::int64_t from_step = columns + gap, to_step = rows + gap;
  // The vectors end where reading and writing must end, so that the address sanitizer finds accesses beyond them.
  std::vector<T> from(static_cast<std::size_t>((rows - 1) * from_step + columns + behind));
  std::iota(from.begin(), from.end(), T(1));
  const T untouched = 77;
  std::vector<T> to(static_cast<std::size_t>((columns - 1) * to_step + rows), untouched), expected = to;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      expected[static_cast<std::size_t>(c * to_step + r)] = from[static_cast<std::size_t>(r * from_step + c)];
  cpu::transpose(from.data(), rows, columns, from_step, to.data(), to_step, behind);
  EXPECT_EQ(to, expected) << rows << " x " << columns << ", gap " << gap << ", behind " << behind;
}

template <class T>
void expect_all_sizes() {
  for (std::int64_t rows = 1; rows <= 40; ++rows)
    for (std::int64_t columns = 1; columns <= 40; ++columns)
      for (const std::int64_t gap : {0, 1, 5})
        for (const std::int64_t behind : {0, 3, 16}) expect_transposed<T>(rows, columns, gap, behind);
}

TEST(Transpose, OfAllSizesWritesNothingElse) {
  expect_all_sizes<float>();
  expect_all_sizes<std::uint8_t>();
  expect_all_sizes<std::uint16_t>();
  expect_all_sizes<double>();
}

}  // namespace
}  // namespace tandem
