// Damaged or malicious .pth files. Each one gives an Error, and takes no more memory or time than its size justifies.
#include <tandem/core/io/pth.h>

#include <gtest/gtest.h>
#include <support/sanitizers.h>
#include <support/temporary_folder.h>

#include <cstdint>
#include <fstream>
#include <functional>
#include <limits>

#include "core/io/pickles.h"

namespace tandem {
namespace {

using testing::expect_parts;
using testing::read_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;
using namespace testing::pickles;
using namespace std::string_literals;

const std::string empty_dict = "\x80\x02}.";

std::string error_from(const std::string& bytes, const std::string& key = "") {
  TemporaryFolder folder;
  write_bytes(folder / "a.pth", bytes);
  const std::string error = testing::error_of([&] { read_pth(folder / "a.pth", key); });
  EXPECT_NE(error.find((folder / "a.pth").string()), std::string::npos) << error;
  return error;
}

#define EXPECT_BAD(bytes, ...)                      \
  do {                                              \
    SCOPED_TRACE("");                               \
    expect_parts(error_from(bytes), {__VA_ARGS__}); \
  } while (false)

TEST(HostilePth, the_files_made_by_hand_are_right_otherwise) {
  TemporaryFolder folder;
  write_bytes(folder / "a.pth", archive(dict(text("x") + tensor(storage(4), 1, {3}, {1}))));
  const auto arrays = read_pth(folder / "a.pth");
  ASSERT_EQ(arrays.size(), 1u);
  EXPECT_EQ(arrays[0].name, "x");
  EXPECT_EQ(arrays[0].array.shape(), Shape{3});
}

TEST(HostilePth, refuses_every_global_but_a_few) {
  EXPECT_BAD(archive("\x80\x02" + global("os", "system") + "(" + text("touch harm") + "tR."),
             "refused the pickle global os.system", "nothing is ever executed");
  EXPECT_BAD(archive("\x80\x04" + text("posix") + text("system") + "\x93."), "refused the pickle global posix.system");
  EXPECT_BAD(archive("\x80\x02" + global("builtins", "eval") + "."), "refused the pickle global builtins.eval");
  EXPECT_BAD(archive("\x80\x02" + global("torch", "load") + "."), "refused the pickle global torch.load");
  EXPECT_BAD(archive("\x80\x02" + global("numpy.core.multiarray", "scalar") + "."),
             "refused the pickle global numpy.core.multiarray.scalar");
  // Allowed names in a use that is not allowed.
  EXPECT_BAD(archive("\x80\x02" + global("torch", "FloatStorage") + ")R."), "calls torch.FloatStorage");
  EXPECT_BAD(archive("\x80\x02" + global("torch._utils", "_rebuild_tensor_v2") + ")R."), "_rebuild_tensor_v2");
  EXPECT_BAD(archive("\x80\x02" + global("torch._utils", "_rebuild_parameter") + "K\x01\x85R."), "_rebuild_parameter");
  EXPECT_BAD(archive("\x80\x02" + text("os.system") + ")R."), "damaged");
  // Python's pickle module loads whatever these opcodes name: INST, OBJ, EXT1, REDUCE of protocol 0's strings.
  for (const char opcode : {'i', 'o', '\x82', 'S', 'I', 'L', 'P', 'd', 'l', 'V', 'p', 'g', '2', '1', '\x92'})
    EXPECT_BAD(archive("\x80\x02("s + opcode + "aa\nbb\n."), "its pickle has the opcode", "at byte 3");
}

TEST(HostilePth, pickles_that_use_what_is_not_there) {
  for (const std::string& pickle :
       {"."s,     "0."s,    "t."s,  "a."s,  "]a."s,      "}s."s,    "K\1K\2s."s, "}(K\1u."s,
        "(0."s,   "b."s,    "}b."s, "Q."s,  "K\1Q."s,    "h\5."s,   "q\0."s,     "j\1\0\0\0."s,
        "\x85."s, "\x86."s, "R."s,  ")R."s, "K\1\x93."s, "K\1(e."s, "}(e."s,     "](u."s})
    EXPECT_BAD(archive("\x80\x02" + pickle), "its pickle");
  EXPECT_BAD(archive("\x80\x09."), "protocol 9");
  EXPECT_BAD(archive("\x80\x02X\xff\xff\xff\xff."), "ends early");
  EXPECT_BAD(archive("\x80\x02" + std::string("c") + std::string(2000, 'a')), "more than 1000");
  EXPECT_BAD(archive(dict(text(std::string(1001, 'a')) + tensor(storage(4), 0, {4}, {1}))), "1001 bytes");
  EXPECT_BAD(archive("\x80\x02"), "ends early");
  EXPECT_BAD(archive(dict("N" + tensor(storage(4), 0, {4}, {1}))), "neither text nor a number");
  EXPECT_BAD(archive(dict(text("\xff") + tensor(storage(4), 0, {4}, {1}))), "UTF-8");
}

TEST(HostilePth, tensors_stay_inside_of_their_storages) {
  const auto bad = [](std::int64_t offset, const std::vector<std::int64_t>& shape,
                      const std::vector<std::int64_t>& strides) {
    return archive(dict(text("x") + tensor(storage(4), offset, shape, strides)));
  };
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_BAD(bad(0, {5}, {1}), "tensor \"x\"", "(5)", "storage of 4 elements");
  EXPECT_BAD(bad(1, {4}, {1}), "offset 1");
  EXPECT_BAD(bad(-1, {1}, {1}), "offset -1");
  EXPECT_BAD(bad(4, {}, {}), "does not fit");
  EXPECT_BAD(bad(5, {0}, {1}), "does not fit");
  EXPECT_BAD(bad(0, {2, 2}, {3, 1}), "does not fit");
  EXPECT_BAD(bad(most, {2}, {most}), "does not fit");
  EXPECT_BAD(bad(0, {most, most}, {0, 0}), "does not fit");
  EXPECT_BAD(bad(0, {3}, {most}), "does not fit");
  EXPECT_BAD(bad(0, {std::int64_t{1} << 32, std::int64_t{1} << 32}, {0, 0}), "does not fit");
  EXPECT_BAD(bad(0, {4}, {-1}), "negative or not an integer");
  EXPECT_BAD(bad(0, {-4}, {1}), "negative or not an integer");
  EXPECT_BAD(bad(0, {2}, {1, 1}), "strides");
  EXPECT_BAD(bad(0, {1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1}), "7 dimensions");
  EXPECT_BAD(bad(0, {std::int64_t{1} << 40}, {0}), "too many elements for a file");
}

TEST(HostilePth, storages_are_as_large_as_they_say) {
  const auto bad = [](const std::string& of) { return archive(dict(text("x") + tensor(of, 0, {1}, {1}))); };
  EXPECT_BAD(bad(storage(3)), "storage \"0\" has 16 bytes, expected 12");
  EXPECT_BAD(bad(storage(5)), "expected 20");
  EXPECT_BAD(bad(storage(4, "DoubleStorage")), "expected 32");
  EXPECT_BAD(bad(storage(std::int64_t{1} << 60)), "more than the file can hold");
  EXPECT_BAD(bad(storage(-1)), "more than the file can hold");
  EXPECT_BAD(bad(storage(4, "FloatStorage", "1")), "storage \"1\" is missing");
  EXPECT_BAD(bad(storage(4, "FloatStorage", "../0")), "is missing");
  EXPECT_BAD(bad(storage(4, "StrangeStorage")), "of type torch.StrangeStorage");
  EXPECT_BAD(archive(dict(text("x") + tensor(storage(4), 0, {1}, {1}) + text("y") +
                          tensor(storage(4, "IntStorage"), 0, {1}, {1}))),
             "two different descriptions of storage");
  EXPECT_BAD(archive(dict(text("x") + tensor(storage(4), 0, {1}, {1}) + text("x") + tensor(storage(4), 0, {1}, {1}))),
             "two tensors are named \"x\"");
}

TEST(HostilePth, bombs) {
  // Each list contains the previous one twice: 2^100 values.
  std::string doubling = "]q\x01";
  for (int i = 0; i < 100; ++i) doubling += "](h\1h\1eq\1";
  EXPECT_BAD(archive("\x80\x02" + doubling + "."), "nested deeper than 32");
  std::string wide = tensor(storage(4), 0, {0}, {1}) + "q\1";
  for (int i = 0; i < 25; ++i) wide += "](h\1h\1h\1h\1eq\1";
  EXPECT_BAD(archive("\x80\x02" + wide + "."), "again and again");
  EXPECT_BAD(archive("\x80\x02]q\1(h\1e."), "nested deeper than 32");  // a list that contains itself
  EXPECT_BAD(archive("\x80\x02" + std::string(100000, ']') + std::string(99999, 'a') + "."), "nested deeper than 32");
  EXPECT_BAD(archive("\x80\x02" + std::string(5 << 20, ']') + "."), "holds more than");
  // Many copies of a large dict.
  std::string pairs = "](";
  for (int i = 0; i < 10000; ++i) pairs += "))\x86";
  pairs += "e\x85q\1" + global("collections", "OrderedDict") + "q\2";
  for (int i = 0; i < 10000; ++i) pairs += "h\2h\1R";
  EXPECT_BAD(archive("\x80\x02" + pairs + "."), "malicious");
  // A name that becomes longer on every level.
  std::string names = tensor(storage(4), 0, {0}, {1}) + "q\1" + text(std::string(1000, 'n')) + "q\2";
  for (int i = 0; i < 20; ++i) names += "}h\2h\1sq\1";
  EXPECT_BAD(archive("\x80\x02](" + names + "e."), "again and again");
}

// A single byte of a pickle can create a value, an entry of the memo or a mark. The file's size limits how many are
// kept.
TEST(HostilePth, what_is_kept_for_a_pickle_is_bounded_by_the_file) {
  const std::string preface =
      "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19." + "\x80\x02M\xe9\3."s + empty_dict;
  for (const auto& [opcode, error] :
       {std::pair('\x94', "remembers more than "), std::pair(']', "holds more than "),
        std::pair('(', "a stack of more than "), std::pair('N', "a stack of more than ")}) {
    const std::string bytes = preface + "\x80\x04N" + std::string(20 << 20, opcode) + ".";
    EXPECT_BAD(bytes, error + std::to_string((1 << 17) + bytes.size() / 16) + " values");
  }
  EXPECT_BAD("\x80\x02" + std::string(2000, ']') + ".", "holds more than 1000 values");
}

// Returns the peak memory of the process during `action`, minus the memory before it.
std::int64_t peak_of(const std::function<void()>& action) {
  const auto kilobytes = [](const std::string& name) {
    const std::string status = read_bytes("/proc/self/status");
    return std::stoll(status.substr(status.find(name) + name.size()));
  };
  std::ofstream("/proc/self/clear_refs") << 5;  // resets the peak
  const auto before = kilobytes("VmRSS:");
  action();
  return (kilobytes("VmHWM:") - before) << 10;
}

// A few bytes of a pickle can refer to a large value that it already contains.
TEST(HostilePth, memory_is_a_small_multiple_of_the_file) {
  const std::string padding = text(std::string(4 << 20, '-')) + "0";
  const std::string one_tensor = "\x80\x02" + padding + tensor(storage(4), 0, {0}, {1}) + "q\1" + "0";
  const auto dict_of = [](int entries, char value) {
    std::string pairs = "}(";
    for (int i = 0; i < entries; ++i) pairs += "M" + number(static_cast<std::uint16_t>(i)) + "h" + value;
    return pairs + "uq\2";
  };
  // A million names for one tensor.
  const std::string names = one_tensor + dict_of(1000, '\1') + dict_of(1000, '\2') + "\x85.";
  // Names of 30 kB each.
  std::string long_names = one_tensor + text(std::string(1000, 'n')) + "q\3" + "0" + dict_of(10000, '\1');
  for (int i = 0; i < 30; ++i) long_names += "0}h\3h\2sq\2";
  // Globals with a long name, and storages with a long key.
  std::string globals = "\x80\x02" + text("torch") + "q\1" + text(std::string(1 << 20, 'a') + "Storage") + "q\2";
  for (int i = 0; i < 1000; ++i) globals += "h\1h\2\x93";
  const std::string key = "\x80\x02" + tensor(storage(4, "FloatStorage", std::string(1 << 20, '0')), 0, {0}, {1});
  for (const auto& [pickle, error] :
       {std::pair(names, "again and again"), std::pair(long_names + "\x85.", "again and again"),
        std::pair(globals + ".", "a name of more than 1000 bytes"), std::pair(key + ".", "the key of a storage")}) {
    SCOPED_TRACE(error);
    const std::string bytes = archive(pickle);
    EXPECT_LT(peak_of([&, &error = error] { EXPECT_BAD(bytes, error); }), testing::sanitizer_factor * 32 * (4 << 20));
  }
}

TEST(HostilePth, small_files_may_share_their_tensors) {
  std::string entries = text("a") + tensor(storage(4), 0, {1}, {1}) + "q\1";
  for (char name = 'b'; name <= 'z'; ++name) entries += text({name}) + "h\1";
  TemporaryFolder folder;
  write_bytes(folder / "a.pth", archive(dict(entries)));
  EXPECT_EQ(read_pth(folder / "a.pth").size(), 26u);
}

// --- Archives, byte by byte ---

struct HandMadeEntry {
  std::string name, bytes = {};
  std::uint16_t method = 0, flags = 0;
  std::uint32_t crc = 0;
  std::int64_t size_change = 0, offset_change = 0;
  bool wide = false;  // zip64
};

std::string hand_made(const std::vector<HandMadeEntry>& entries, bool end64 = false) {
  std::string file, directory;
  for (const auto& entry : entries) {
    const std::uint64_t header = file.size() + static_cast<std::uint64_t>(entry.offset_change);
    const std::uint64_t size = entry.bytes.size() + static_cast<std::uint64_t>(entry.size_change);
    const auto narrow = [&](std::uint64_t value) {
      return entry.wide ? 0xffffffffu : static_cast<std::uint32_t>(value);
    };
    const std::string common = number(std::uint16_t{45}) + number(entry.flags) + number(entry.method) +
                               number(std::uint32_t{0}) + number(entry.crc) + number(narrow(size)) +
                               number(narrow(size)) + number(static_cast<std::uint16_t>(entry.name.size()));
    const std::string wide_sizes = number(size) + number(size);
    const std::string local_extra = entry.wide ? number(std::uint16_t{1}) + number(std::uint16_t{16}) + wide_sizes : "";
    const std::string extra =
        entry.wide ? number(std::uint16_t{1}) + number(std::uint16_t{24}) + wide_sizes + number(header) : "";
    file += "PK\3\4" + common + number(static_cast<std::uint16_t>(local_extra.size())) + entry.name + local_extra +
            entry.bytes;
    directory += "PK\1\2" + number(std::uint16_t{45}) + common + number(static_cast<std::uint16_t>(extra.size())) +
                 number(std::uint64_t{0}) + number(std::uint16_t{0}) + number(narrow(header)) + entry.name + extra;
  }
  const std::uint64_t begin = file.size(), size = directory.size(), count = entries.size();
  file += directory;
  if (end64) {
    const std::uint64_t record = file.size();
    file += "PK\6\6" + number(std::uint64_t{44}) + number(std::uint32_t{0x2d002d}) + number(std::uint64_t{0}) +
            number(count) + number(count) + number(size) + number(begin);
    file += "PK\6\7" + number(std::uint32_t{0}) + number(record) + number(std::uint32_t{1});
    return file + "PK\5\6"s + number(std::uint32_t{0}) + std::string(12, '\xff') + number(std::uint16_t{0});
  }
  return file + "PK\5\6"s + number(std::uint32_t{0}) + number(static_cast<std::uint16_t>(count)) +
         number(static_cast<std::uint16_t>(count)) + number(static_cast<std::uint32_t>(size)) +
         number(static_cast<std::uint32_t>(begin)) + number(std::uint16_t{0});
}

constexpr std::uint32_t empty_dict_crc = 0x89deb73d;

TEST(HostilePth, zip64_fields_are_read) {
  TemporaryFolder folder;
  for (const bool wide : {false, true}) {
    for (const bool end64 : {false, true}) {
      write_bytes(folder / "a.pth",
                  hand_made({{.name = "a/data.pkl", .bytes = empty_dict, .crc = empty_dict_crc, .wide = wide}}, end64));
      EXPECT_TRUE(read_pth(folder / "a.pth").empty());
    }
  }
}

TEST(HostilePth, archives_that_lie) {
  const HandMadeEntry pickle = {.name = "a/data.pkl", .bytes = empty_dict, .crc = empty_dict_crc};
  const auto with = [&](auto change) {
    auto entry = pickle;
    change(entry);
    return hand_made({entry});
  };
  EXPECT_BAD(with([](auto& e) { e.crc ^= 1; }), "a/data.pkl", "CRC-32");
  EXPECT_BAD(with([](auto& e) { e.method = 8; }), "a/data.pkl\" is compressed (method 8)", "uncompressed");
  EXPECT_BAD(with([](auto& e) { e.flags = 1; }), "encrypted");
  EXPECT_BAD(with([](auto& e) { e.size_change = 1; }), "announces 5 bytes", "only 4");
  EXPECT_BAD(with([](auto& e) { e.size_change = 4000000000; }), "announces 4000000004 bytes");
  EXPECT_BAD(with([](auto& e) { e.wide = true, e.size_change = std::int64_t{1} << 62; }), "announces");
  EXPECT_BAD(with([](auto& e) { e.wide = true, e.size_change = -5; }), "announces 18446744073709551615 bytes");
  EXPECT_BAD(with([](auto& e) { e.offset_change = 1; }), "a header at byte 1");
  EXPECT_BAD(with([](auto& e) { e.offset_change = 4000000000; }), "outside the file");
  EXPECT_BAD(with([](auto& e) { e.wide = true, e.offset_change = -1; }), "outside the file");
  EXPECT_BAD(with([](auto& e) { e.name = "a/b/data.pkl"; }), "torch.save did not write it");
  EXPECT_BAD(with([](auto& e) { e.name = ""; }), "torch.save did not write it");
  EXPECT_BAD(hand_made({pickle, pickle}), "two entries are named \"a/data.pkl\"");
  EXPECT_BAD(hand_made({pickle, {.name = "a/constants.pkl"}}), "TorchScript", "torch.jit.load");
  EXPECT_BAD(hand_made({pickle, {.name = "a/code/net.py", .method = 8}}), "TorchScript");
  EXPECT_BAD(hand_made({{.name = "word/document.xml", .method = 8}}), "torch.save did not write it");
  EXPECT_BAD(hand_made({pickle, {.name = "a/byteorder", .bytes = "big"}}), "big-endian");
  // Entry "b" lies inside entry "a": the bytes of "a" contain a local header for "b".
  const std::string inner = hand_made({{.name = "b"}}).substr(0, 31);
  HandMadeEntry outer = {.name = "a", .bytes = inner};
  EXPECT_BAD(hand_made({outer, {.name = "b", .offset_change = -31}}), "overlap");
  EXPECT_BAD("PK\5\6"s, "too few");
  EXPECT_BAD(hand_made({pickle}) + "x", "without its directory");
}

TEST(HostilePth, truncated_or_changed_at_any_byte) {
  TemporaryFolder folder;
  const auto path = folder / "a.pth";
  for (const std::string name : {"zip.pth", "legacy.pth"}) {
    const std::string whole = read_bytes(std::string(TANDEM_SOURCE_DIR) + "/tests/golden/pth/" + name);
    ASSERT_GT(whole.size(), 1000u);
    for (std::size_t n = 0; n < whole.size(); ++n) {
      write_bytes(path, whole.substr(0, n));
      EXPECT_THROW(read_pth(path), Error) << name << ", the first " << n << " bytes";
    }
    int refused = 0;
    for (std::size_t n = 0; n < whole.size(); ++n) {
      std::string changed = whole;
      changed[n] = static_cast<char>(changed[n] ^ (1 << n % 8));
      write_bytes(path, changed);
      try {
        read_pth(path);
      } catch (const Error&) {
        ++refused;
      }
    }
    EXPECT_GT(refused, 1000) << name;
  }
}

}  // namespace
}  // namespace tandem
