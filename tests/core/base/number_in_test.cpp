// Numbers in text.
#include <tandem/core/base/number_in.h>

#include <gtest/gtest.h>

#include <cstdint>

namespace tandem {
namespace {

TEST(NumberIn, TakesOnlyTheWholeText) {
  EXPECT_EQ(number_in<int>("42"), 42);
  EXPECT_EQ(number_in<int>("-1"), -1);
  EXPECT_EQ(number_in<double>("1e-3"), 1e-3);
  for (const char* text : {"", " 42", "42 ", "+42", "42x", "x", "4 2", "0x10", "2147483648"})
    EXPECT_EQ(number_in<int>(text), std::nullopt) << text;
  EXPECT_EQ(number_in<std::uint64_t>("-1"), std::nullopt);
}

TEST(NumberIn, ChecksTheRange) {
  EXPECT_EQ(number_in("1", 1, 3), 1);
  EXPECT_EQ(number_in("3", 1, 3), 3);
  EXPECT_EQ(number_in("0", 1, 3), std::nullopt);
  EXPECT_EQ(number_in("4", 1, 3), std::nullopt);
  for (const char* text : {"nan", "inf", "-inf"}) EXPECT_EQ(number_in<double>(text), std::nullopt) << text;
}

}  // namespace
}  // namespace tandem
