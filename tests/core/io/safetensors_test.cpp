#include <tandem/core/io/safetensors.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>

#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::read_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;

std::string with_length(const std::string& header, const std::string& data = "") {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

// Returns the error message that reading these bytes gives.
std::string error_from(const std::string& bytes) {
  TemporaryFolder folder;
  const auto path = folder / "file.safetensors";
  write_bytes(path, bytes);
  const std::string text = testing::error_of([&] { read_safetensors(path); });
  EXPECT_NE(text.find(path.string()), std::string::npos) << text;
  return text;
}

#define EXPECT_BAD(bytes, ...)                               \
  do {                                                       \
    SCOPED_TRACE("");                                        \
    testing::expect_parts(error_from(bytes), {__VA_ARGS__}); \
  } while (false)

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

std::vector<NamedArray> one_of_each() {
  return {
      {"f32", Array::from(std::vector<float>{1.5f, -2.0f, 3.0f, 0.0f, 1e-40f, 7.0f}, {2, 3})},
      {"f64", Array::from(std::vector<double>{1e300, -0.0}, {2})},
      {"bf16", Array::from(std::vector<bfloat16>{bfloat16(1.5f)}, {1, 1, 1, 1, 1, 1})},
      {"f16", Array::from(std::vector<float16>{float16(0.1f), float16(65504.0f)}, {2, 1})},
      {"i64", Array::from(std::vector<std::int64_t>{-5}, {})},
      {"i32", Array::from(std::vector<std::int32_t>{1, 2, 3}, {3})},
      {"u8", Array::from(std::vector<std::uint8_t>{0, 255, 7}, {3})},
      {"bool",
       [] {
         Array array = Array::empty({2}, DType::boolean);
         array.data<bool>()[0] = true;
         array.data<bool>()[1] = false;
         return array;
       }()},
      {"nothing", Array::empty({3, 0, 2})},
      {"a \"name\"\n\u00e9", Array::from(std::vector<float>{4.0f}, {1})},
  };
}

void expect_equal(const std::vector<NamedArray>& expected, const std::vector<NamedArray>& found) {
  ASSERT_EQ(expected.size(), found.size());
  for (const auto& [name, array] : expected) {
    const auto other =
        std::find_if(found.begin(), found.end(), [&](auto& candidate) { return candidate.name == name; });
    ASSERT_NE(other, found.end()) << name;
    EXPECT_EQ(other->array.dtype(), array.dtype()) << name;
    ASSERT_EQ(other->array.shape(), array.shape()) << name;
    if (array.numel() > 0) {
      EXPECT_EQ(std::memcmp(other->array.raw(), array.raw(), array.bytes()), 0) << name;
    }
  }
}

TEST(Safetensors, GivesBackWhatWasWritten) {
  TemporaryFolder folder;
  const auto arrays = one_of_each();
  const std::map<std::string, std::string> metadata = {{"epoch", "3"}, {"text", "line\n\"quoted\" \u00fc"}, {"", ""}};
  write_safetensors(folder / "a", arrays, metadata);
  const Safetensors read = read_safetensors(folder / "a");
  expect_equal(arrays, read.arrays);
  EXPECT_EQ(read.metadata, metadata);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a"});
}

TEST(Safetensors, NothingIsAFileToo) {
  TemporaryFolder folder;
  write_safetensors(folder / "a", {});
  EXPECT_EQ(read_bytes(folder / "a"), with_length("{}      "));
  EXPECT_TRUE(read_safetensors(folder / "a").arrays.empty());
  write_bytes(folder / "a", with_length(R"({"__metadata__":null})"));  // to the reference reader, null is no metadata
  EXPECT_TRUE(read_safetensors(folder / "a").metadata.empty());
}

// The expected bytes are those of Python's safetensors 0.8 for the same tensors.
TEST(Safetensors, WritesTheReferenceWritersBytes) {
  TemporaryFolder folder;
  const std::vector<NamedArray> arrays = {
      {"b", Array::from(std::vector<float>{1.0f}, {1})},
      {"a", Array::from(std::vector<float>{2.0f, 3.0f}, {1, 2})},
      {"n", Array::from(std::vector<std::int64_t>{7}, {})},
      {"u", Array::from(std::vector<std::uint8_t>{9}, {1})},
      {"h", Array::from(std::vector<float16>{float16(1.0f)}, {1})},
      {"g", Array::from(std::vector<bfloat16>{bfloat16(1.0f)}, {1})},
  };
  write_safetensors(folder / "f", arrays, {{"format", "pt"}});
  const std::string header = R"({"__metadata__":{"format":"pt"},"n":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
                             R"("a":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]},)"
                             R"("b":{"dtype":"F32","shape":[1],"data_offsets":[16,20]},)"
                             R"("g":{"dtype":"BF16","shape":[1],"data_offsets":[20,22]},)"
                             R"("h":{"dtype":"F16","shape":[1],"data_offsets":[22,24]},)"
                             R"("u":{"dtype":"U8","shape":[1],"data_offsets":[24,25]}})";
  const std::string padding((8 - header.size() % 8) % 8, ' ');
  const std::string data("\7\0\0\0\0\0\0\0\0\0\0\x40\0\0\x40\x40\0\0\x80\x3f\x80\x3f\0\x3c\x09", 25);
  EXPECT_EQ(read_bytes(folder / "f"), with_length(header + padding, data));
}

TEST(Safetensors, ChecksumsAreWrittenAndTakenOut) {
  TemporaryFolder folder;
  const auto arrays = one_of_each();
  const std::map<std::string, std::string> metadata = {{"epoch", "3"}, {"text", "line\n\"quoted\" \u00fc"}, {"", ""}};
  write_safetensors(folder / "a", arrays, metadata, Checksums::crc32);
  const Safetensors read = read_safetensors(folder / "a");
  expect_equal(arrays, read.arrays);
  EXPECT_EQ(read.metadata, metadata);
  EXPECT_TRUE(read.has_checksums);
  // Writing the contents of a file drops its old checksums, whichever program put them into the metadata.
  write_safetensors(folder / "b", arrays, {{"tandem.crc32", "{}"}});
  EXPECT_FALSE(read_safetensors(folder / "b").has_checksums);
  // A file of an older version has no key that announces checksums.
  write_bytes(folder / "old",
              with_length(R"({"__metadata__":{"tandem.crc32":"{\"__metadata__\":\"00000000\",\"x\":\"55bc801d\"}"},)"
                          R"("x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})",
                          "\1\2\3"));
  EXPECT_TRUE(read_safetensors(folder / "old").has_checksums);
  // The expected numbers are those of Python's zlib.crc32.
  write_safetensors(folder / "c", std::vector<NamedArray>{{"x", Array::from(std::vector<std::uint8_t>{1, 2, 3}, {3})}},
                    {{"k", "v"}}, Checksums::crc32);
  EXPECT_NE(read_bytes(folder / "c").find(R"("tandem.crc32":"{\"__metadata__\":\"89a9b4f4\",\"x\":\"55bc801d\"}"})"),
            std::string::npos)
      << read_bytes(folder / "c");
}

// If any bit of the file is flipped, the reader notices, unless the bit was in a blank after the header. A file with
// checksums never becomes one without.
TEST(Safetensors, NoFlippedBitChangesWhatIsRead) {
  TemporaryFolder folder;
  const auto path = folder / "a";
  auto arrays = one_of_each();
  // Checksums cover only the numbers, so the shape of an array without numbers may change unnoticed.
  std::erase_if(arrays, [](const NamedArray& named) { return named.array.numel() == 0; });
  write_safetensors(path, arrays, {{"epoch", "3"}}, Checksums::crc32);
  const std::string bytes = read_bytes(path);
  int silent = 0;
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    SCOPED_TRACE("byte " + std::to_string(bit / 8) + ", bit " + std::to_string(bit % 8));
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    write_bytes(path, damaged);
    try {
      const auto read = read_safetensors(path);
      expect_equal(arrays, read.arrays);
      EXPECT_EQ(read.metadata.at("epoch"), "3");
      EXPECT_TRUE(read.has_checksums);
      ++silent;
    } catch (const Error&) {
    }
  }
  EXPECT_LE(silent, 7 * 3) << "a blank can become one of three other blanks";
}

TEST(Safetensors, AChecksumThatIsNotRightNamesTheArray) {
  TemporaryFolder folder;
  const auto path = folder / "a";
  const std::vector<NamedArray> arrays = {{"first", Array::from(std::vector<float>{1, 2}, {2})},
                                          {"second", Array::from(std::vector<float>{3, 4}, {2})}};
  write_safetensors(path, arrays, {}, Checksums::crc32);
  const std::string bytes = read_bytes(path);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = bytes;
    for (auto at = changed.find(from); at != std::string::npos; at = changed.find(from, at + to.size()))
      changed.replace(at, from.size(), to);
    return changed;
  };
  std::string flipped = bytes;
  flipped[flipped.size() - 5] = static_cast<char>(flipped[flipped.size() - 5] ^ 1);
  EXPECT_BAD(flipped, "tensor \"second\" should have the CRC-32", "the file is damaged");
  EXPECT_BAD(with("\"first\":{", "\"fjrst\":{"), "tensor \"fjrst\" has no checksum");
  EXPECT_BAD(with("\\\"first\\\"", "\\\"third\\\""), "tensor \"first\" has no checksum");
  EXPECT_BAD(with("tandem.crc32", "tandem.crc33"), "\"tandem.checksums\" says that it has checksums", "is missing");
  EXPECT_BAD(with("tandem.checksums", "tandem.checksumz"), "its metadata should have the CRC-32");
  EXPECT_BAD(with("__metadata__\\\"", "__metafata__\\\""), "its metadata has no checksum");
  EXPECT_BAD(with("{\\\"__meta", "[\\\"__meta"), "the metadata \"tandem.crc32\" is not JSON");
  EXPECT_BAD(with("{\\\"__metadata__\\\":", std::string(18, '[')), "is nested deeper");
}

TEST(Safetensors, ChecksumsOfNothing) {
  TemporaryFolder folder;
  write_safetensors(folder / "a", {}, {}, Checksums::crc32);
  EXPECT_TRUE(read_safetensors(folder / "a").has_checksums);
  EXPECT_TRUE(read_safetensors(folder / "a").arrays.empty());
}

TEST(Safetensors, WritesViewsRowMajor) {
  TemporaryFolder folder;
  const Array base = Array::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  const std::vector<NamedArray> arrays = {{"transposed", base.transpose(0, 1)}, {"column", base.select(1, 1)}};
  write_safetensors(folder / "a", arrays);
  expect_equal({{"transposed", Array::from(std::vector<float>{1, 4, 2, 5, 3, 6}, {3, 2})},
                {"column", Array::from(std::vector<float>{2, 5}, {2})}},
               read_safetensors(folder / "a").arrays);
}

TEST(Safetensors, RefusesToWriteWhatIsNotAllowed) {
  TemporaryFolder folder;
  const auto path = folder / "a";
  const Array array = Array::from(std::vector<float>{1}, {1});
  const auto write = [&](std::vector<NamedArray> arrays) { write_safetensors(path, arrays); };
  EXPECT_ERROR(write({{"x", array}, {"x", array}}), path.string(), "two arrays are named \"x\"");
  EXPECT_ERROR(write({{"__metadata__", array}}), "reserves");
  EXPECT_ERROR(write({{"x", Array()}}), "\"x\" is undefined");
  EXPECT_ERROR(write({{"\xff", array}}), path.string(), "not valid UTF-8");
  EXPECT_ERROR(write_safetensors(folder / "missing" / "a", {}), "create the folder first");
  EXPECT_TRUE(folder.names().empty());
}

TEST(Safetensors, MissingFileAndFolder) {
  TemporaryFolder folder;
  EXPECT_ERROR(read_safetensors(folder / "none"), (folder / "none").string(), "No such file");
  EXPECT_ERROR(read_safetensors(folder.path()), folder.path().string(), "not a regular file");
}

TEST(Safetensors, BadHeaders) {
  EXPECT_BAD("", "has 0 bytes");
  EXPECT_BAD("1234567", "has 7 bytes");
  EXPECT_BAD(with_length(""), "must begin with {");
  EXPECT_BAD(with_length("{}").substr(0, 9), "announces a header of 2 bytes", "only 1");
  EXPECT_BAD(std::string("\1\xe1\xf5\5\0\0\0\0", 8), "announces a header of 100000001 bytes", "at most 100000000");
  EXPECT_BAD(std::string(8, '\xff') + "{}", "announces a header of 18446744073709551615 bytes");
  EXPECT_BAD(with_length(" {}"), "must begin with {");
  EXPECT_BAD(with_length("[]"), "must begin with {");
  EXPECT_BAD(with_length("{"), "not JSON");
  EXPECT_BAD(with_length("{}x"), "not JSON");
  EXPECT_BAD(with_length(std::string("{}\0x", 4)), "NUL");
  EXPECT_BAD(with_length("{\"\xff\":{}}"), "not JSON");
  EXPECT_BAD(with_length(R"({"x":)" + std::string(100000, '[')), "nested deeper");
  EXPECT_BAD(with_length(R"({"x":{"y":{"z":{}}}})"), "nested deeper");
}

TEST(Safetensors, BadEntries) {
  const std::string four(4, 'x');
  const auto file = [&](const std::string& value) { return with_length(R"({"w":)" + value + "}", four); };
  EXPECT_BAD(file("1"), "\"w\" must be a JSON object, found number");
  EXPECT_BAD(file("{}"), "\"w\" has no \"dtype\"");
  EXPECT_BAD(file(R"({"dtype":1,"shape":[1],"data_offsets":[0,4]})"), "dtype must be a string");
  EXPECT_BAD(file(R"({"dtype":"F32","data_offsets":[0,4]})"), "has no \"shape\"");
  EXPECT_BAD(file(R"({"dtype":"F32","shape":[1]})"), "has no \"data_offsets\"");
  EXPECT_BAD(file(entry("F8_E4M3", "[4]", "[0,4]")), "dtype \"F8_E4M3\"", "supported dtypes are");
  EXPECT_BAD(file(entry("f32", "[1]", "[0,4]")), "dtype \"f32\"");
  EXPECT_BAD(file(entry("F32", "1", "[0,4]")), "shape must be a list");
  EXPECT_BAD(file(entry("F32", "[-1]", "[0,4]")), "shape contains -1");
  EXPECT_BAD(file(entry("F32", "[1.0]", "[0,4]")), "shape contains 1.0");
  EXPECT_BAD(file(entry("F32", "[\"1\"]", "[0,4]")), "shape contains \"1\"");
  EXPECT_BAD(file(entry("F32", "[99999999999999999999]", "[0,4]")), "shape contains");
  EXPECT_BAD(file(entry("F32", "[9223372036854775808]", "[0,4]")), "shape contains 9223372036854775808");
  EXPECT_BAD(file(entry("F32", "[4611686018427387904,2]", "[0,4]")), "does not fit in 64 bits");
  EXPECT_BAD(file(entry("F32", "[4294967296,4294967296]", "[0,4]")), "does not fit in 64 bits");
  EXPECT_BAD(file(entry("F32", "[1,1,1,1,1,1,1]", "[0,4]")), "7 dimensions, but at most 6");
  EXPECT_BAD(file(entry("F32", "[2]", "[0,4]")), "make 8 bytes", "span 4");
  EXPECT_BAD(file(entry("F32", "[1]", "[0]")), "data_offsets must be two integers");
  EXPECT_BAD(file(entry("F32", "[1]", "[-4,0]")), "data_offsets must be two integers");
  EXPECT_BAD(file(entry("F32", "[1]", "[4,0]")), "end before they begin");
  EXPECT_BAD(file(entry("F32", "[1]", "[18446744073709551612,18446744073709551616]")), "data_offsets must be two");
  EXPECT_BAD(file(entry("BOOL", "[4]", "[0,4]")), "element 0 of a BOOL tensor must be 0 or 1, but is 120");
  EXPECT_BAD(with_length(R"({"__metadata__":{"a":1}})"), "metadata \"a\" must be a string");
  EXPECT_BAD(with_length(R"({"__metadata__":"a"})"), "\"__metadata__\" must be a JSON object");
}

TEST(Safetensors, DuplicateKeys) {
  const std::string one = entry("U8", "[1]", "[0,1]");
  const std::string two = entry("U8", "[1]", "[1,2]");
  EXPECT_BAD(with_length(R"({"w":)" + one + R"(,"w":)" + two + "}", "xx"), "\"w\" appears twice");
  EXPECT_BAD(with_length(R"({"w":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x"),
             "\"dtype\" appears twice");
  EXPECT_BAD(with_length(R"({"__metadata__":{"a":"1","a":"2"}})"), "\"a\" appears twice");
}

TEST(Safetensors, BadLayouts) {
  const auto pair = [&](const std::string& a, const std::string& b, const std::string& data) {
    return with_length(R"({"a":)" + entry("U8", "[2]", a) + R"(,"b":)" + entry("U8", "[2]", b) + "}", data);
  };
  EXPECT_BAD(pair("[0,2]", "[3,5]", "xxxxx"), "\"b\" begins at byte 3", "expected 2", "hole");
  EXPECT_BAD(pair("[1,3]", "[3,5]", "xxxxx"), "\"a\" begins at byte 1", "expected 0", "hole");
  EXPECT_BAD(pair("[0,2]", "[1,3]", "xxx"), "\"b\" begins at byte 1", "overlap");
  EXPECT_BAD(pair("[0,2]", "[0,2]", "xx"), "begins at byte 0", "overlap");
  EXPECT_BAD(pair("[0,2]", "[2,4]", "xxx"), "describes 4 bytes", "but 3 follow", "truncated");
  EXPECT_BAD(pair("[0,2]", "[2,4]", "xxxxx"), "describes 4 bytes", "but 5 follow", "belong to no tensor");
  EXPECT_BAD(pair("[0,2]", "[9223372036854775806,9223372036854775808]", "xx"), "hole");
}

TEST(Safetensors, ReadsWhatOthersMayWrite) {
  TemporaryFolder folder;
  // The order in the header differs from the order of the data. There are blanks, no padding, and a tensor of size zero
  // between others.
  write_bytes(folder / "a",
              with_length(R"({ "b":)" + entry("U8", "[2]", "[1,3]") + R"(, "a":)" + entry("U8", "[]", "[0,1]") +
                              R"(,"z":)" + entry("F32", "[0]", "[1,1]") + "} \n",
                          "xyz"));
  const auto arrays = read_safetensors(folder / "a").arrays;
  ASSERT_EQ(arrays.size(), 3u);
  EXPECT_EQ(arrays[0].name, "a");
  EXPECT_EQ(arrays[0].array.ndim(), 0);
  EXPECT_EQ(*arrays[0].array.data<std::uint8_t>(), 'x');
  EXPECT_EQ(arrays[1].name, "z");
  EXPECT_EQ(arrays[2].array.data<std::uint8_t>()[1], 'z');
}

// A damaged file gives an Error or arrays, never a crash or unlimited memory.
TEST(Safetensors, DamagedAtEveryByte) {
  TemporaryFolder folder;
  const auto path = folder / "a";
  const std::vector<NamedArray> arrays = {{"w", Array::from(std::vector<float>{1, 2}, {2, 1})},
                                          {"n", Array::from(std::vector<std::int64_t>{3}, {})}};
  write_safetensors(path, arrays, {{"k", "v"}});
  const std::string whole = read_bytes(path);
  int refused = 0;
  const auto read = [&](const std::string& bytes) {
    write_bytes(path, bytes);
    try {
      for (const auto& [name, array] : read_safetensors(path).arrays) {
        EXPECT_LE(array.bytes(), bytes.size());
        EXPECT_EQ(array.is_contiguous(), true);
      }
      return true;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos);
      ++refused;
      return false;
    }
  };
  EXPECT_TRUE(read(whole));
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_FALSE(read(whole.substr(0, i))) << "cut at " << i;
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      read(damaged);
    }
  }
  EXPECT_FALSE(read(whole + "x"));
  EXPECT_GT(refused, static_cast<int>(whole.size()));
}

TEST(Safetensors, reads_what_is_wanted) {
  const TemporaryFolder folder;
  const auto path = folder / "file.safetensors";
  const Array one = Array::from(std::vector<float>{1, 2, 3}, {3}), two = Array::from(std::vector<float>{4}, {1});
  write_safetensors(path, std::vector<NamedArray>{{"one", one}, {"two", two}}, {{"key", "value"}});
  std::vector<std::string> asked;
  const auto file = read_safetensors(path, [&](const std::string& name) {
    asked.push_back(name);
    return name == "two";
  });
  EXPECT_EQ(asked, (std::vector<std::string>{"one", "two"}));
  ASSERT_EQ(file.arrays.size(), 1u);
  EXPECT_EQ(file.arrays[0].name, "two");
  EXPECT_EQ(file.arrays[0].array.item(), 4);
  EXPECT_EQ(file.metadata.at("key"), "value");
}

TEST(Safetensors, writes_arrays_that_come_one_at_a_time) {
  const TemporaryFolder folder;
  const Array a = Array::from(std::vector<float>{1, 2, 3, 4}, {2, 2}),
              b = Array::from(std::vector<std::int64_t>{5}, {}), c = Array::from(std::vector<float>{6}, {1});
  write_safetensors(folder / "whole", std::vector<NamedArray>{{"c", c}, {"b", b}, {"a", a.transpose(0, 1)}});

  std::vector<ExpectedArray> expected{{"a", DType::f32, {2, 2}}, {"b", DType::i64, {}}};
  std::vector<std::string> asked;
  const auto give = [&](const ExpectedArray& array) {
    asked.push_back(array.name);
    return array.name == "a" ? a.transpose(0, 1) : b;
  };
  write_safetensors(folder / "parts", std::vector<NamedArray>{{"c", c}}, {}, Checksums::none, expected, give);
  EXPECT_EQ(read_bytes(folder / "parts"), read_bytes(folder / "whole"));
  EXPECT_EQ(asked, (std::vector<std::string>{"b", "a"}));
  sort_as_in_safetensors(expected);
  EXPECT_EQ(expected[0].name, "b");

  // A file that can't be finished leaves nothing behind.
  const auto write = [&](const std::function<Array(const ExpectedArray&)>& take) {
    return testing::error_of([&] { write_safetensors(folder / "parts", {}, {}, Checksums::none, expected, take); });
  };
  EXPECT_EQ(write([](const ExpectedArray&) -> Array { throw Error("gone"); }), "gone");
  testing::expect_parts(write([&](const ExpectedArray&) { return a; }),
                        {"array \"b\" is (2, 2) f32, described as () i64"});
  EXPECT_EQ(read_bytes(folder / "parts"), read_bytes(folder / "whole"));
  testing::expect_parts(
      testing::error_of([&] {
        write_safetensors(folder / "x", std::vector<NamedArray>{{"a", a}}, {}, Checksums::none, expected, give);
      }),
      {"two arrays are named \"a\""});
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"parts", "whole"}));
}

// The headers of large models list tens of thousands of tensors.
TEST(Safetensors, ReadingTakesLinearTimeInTheNumberOfTensors) {
  const TemporaryFolder folder;
  const auto milliseconds = [&](int count) {
    std::vector<NamedArray> arrays;
    for (int i = 0; i < count; ++i) arrays.push_back({"layer" + std::to_string(i), ops::ones({1})});
    write_safetensors(folder / "many", arrays);
    double best = 1e9;
    for (int run = 0; run < 3; ++run) {
      const auto begin = std::chrono::steady_clock::now();
      EXPECT_EQ(read_safetensors(folder / "many").arrays.size(), static_cast<std::size_t>(count));
      best =
          std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    }
    return best;
  };
  EXPECT_LT(milliseconds(16000), 4 * 16 * milliseconds(1000));
}

}  // namespace
}  // namespace tandem
