#include <tandem/core/base/enum_names.h>

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace tandem {
namespace {

enum class Colour { red, blue, unnamed };

}  // namespace

template <>
struct EnumNames<Colour> {
  static constexpr NamedValue<Colour> all[] = {{"red", Colour::red}, {"blue", Colour::blue}, {"azure", Colour::blue}};
};

namespace {

TEST(EnumNames, GoFromNamesToValuesAndBack) {
  EXPECT_STREQ(name_of(Colour::red), "red");
  EXPECT_STREQ(name_of(Colour::blue), "blue");
  EXPECT_STREQ(name_of(Colour::unnamed), "?");
  EXPECT_EQ(value_named<Colour>("azure"), Colour::blue);
  EXPECT_ERROR(value_named<Colour>("Red"), "'Red' is not one of red, blue, azure");
}

}  // namespace
}  // namespace tandem
