#include <tandem/core/base/check.h>
#include <tandem/core/base/utf8.h>
#include <tandem/core/io/input_file.h>

#include <gtest/gtest.h>

#include <string>

#include "support/temporary_folder.h"

namespace tandem {
namespace {

std::string bytes_of(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "\\x") != 0) {
      bytes += text[i];
      continue;
    }
    bytes += static_cast<char>(std::stoi(text.substr(i + 2, 2), nullptr, 16));
    i += 3;
  }
  return bytes;
}

TEST(Utf8, TextStaysAsItIs) {
  for (const std::string text : {"", "a/b.png", "caf\u00e9", "C:\\data", "\u20ac \U0001f600"})
    EXPECT_EQ(utf8_escaped(text), text);
}

TEST(Utf8, OtherBytesAreEscapedAndReadBack) {
  EXPECT_EQ(utf8_escaped("caf\xe9"), "caf\\xe9");
  EXPECT_EQ(utf8_escaped("\xe9\xa9"), "\\xe9\\xa9");  // cut off
  EXPECT_EQ(utf8_escaped("a\nb"), "a\\x0ab");
  EXPECT_EQ(utf8_escaped("\\xe9"), "\\x5cxe9");  // differs from an escaped byte \xe9
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  for (const std::string& bytes : {all, all + "\\x41\\" + all, std::string("\xf0\x9f\x98\xc3\xa9\xed\xa0\x80")}) {
    const auto text = utf8_escaped(bytes);
    EXPECT_TRUE(is_utf8(text));
    EXPECT_EQ(bytes_of(text), bytes);
  }
}

// A name from a file, such as a tensor's, must not move the cursor of the user's terminal.
TEST(Utf8, TheTextOfAnErrorHasNoControlCharacters) {
  EXPECT_EQ(testing::error_of([] { detail::fail("the tensor \x1b[2J\r\x7f caf\u00e9:\n\tunknown"); }),
            "the tensor \\x1b[2J\\x0d\\x7f caf\u00e9:\n\tunknown");
  EXPECT_EQ(testing::error_of([] { throw Error("\x1b[2J"); }), "\\x1b[2J");
  EXPECT_ERROR(InputFile("/no\x1b[2J", "safetensors file"), "/no\\x1b[2J");
}

}  // namespace
}  // namespace tandem
