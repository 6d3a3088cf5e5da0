// .pth files that PyTorch wrote, and .pth files for PyTorch to read.
#include <tandem/core/io/arrays_file.h>
#include <tandem/core/io/pth.h>
#include <tandem/core/io/safetensors.h>

#include <gtest/gtest.h>
#include <support/arrays.h>
#include <support/process.h>
#include <support/temporary_folder.h>
#include <support/torch_python.h>

#include <cstring>
#include <map>
#include <set>

namespace tandem {
namespace {

using testing::expect_parts;
using testing::expect_same;
using testing::read_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;

std::string golden(const std::string& name) { return std::string(TANDEM_SOURCE_DIR) + "/tests/golden/pth/" + name; }

std::map<std::string, Array> by_name(const std::vector<NamedArray>& arrays) {
  std::map<std::string, Array> result;
  for (const auto& [name, array] : arrays) EXPECT_TRUE(result.emplace(name, array).second) << name;
  return result;
}

void expect_all_same(const std::map<std::string, Array>& expected, const std::map<std::string, Array>& found) {
  EXPECT_EQ(found.size(), expected.size());
  for (const auto& [name, array] : expected) {
    ASSERT_TRUE(found.count(name)) << name;
    expect_same(array, found.at(name), name);
  }
}

TEST(Pth, reads_what_torch_writes_in_both_forms) {
  const auto expected = by_name(read_safetensors(golden("expected.safetensors")).arrays);
  ASSERT_EQ(expected.size(), 21u);
  for (const char* name : {"zip.pth", "legacy.pth"}) {
    SCOPED_TRACE(name);
    const auto arrays = read_pth(golden(name));
    EXPECT_EQ(arrays.front().name, "f32");  // in the order of the file
    EXPECT_EQ(arrays.back().name, "gr\u00fc\u00dfe.\U0001f600");
    const auto found = by_name(arrays);
    expect_all_same(expected, found);
    EXPECT_EQ(found.at("shared").storage(), found.at("tied").storage());
    EXPECT_EQ(found.at("shared").storage(), found.at("expanded").storage());
    EXPECT_EQ(found.at("transposed").strides(), (Strides{1, 6}));
    EXPECT_EQ(found.at("part").offset(), 8);
    EXPECT_EQ(found.at("expanded").strides(), (Strides{0, 1}));
    EXPECT_TRUE(found.at("channels_last").is_channels_last());
    EXPECT_NE(found.at("f32").storage(), found.at("part").storage());
  }
}

TEST(Pth, takes_the_state_dict_out_of_a_checkpoint) {
  const auto expected = by_name(read_safetensors(golden("checkpoint.safetensors")).arrays);
  for (const std::string key : {"", "model", "optimizer"}) {
    const std::string prefix = (key.empty() ? "model" : key) + ".";
    std::map<std::string, Array> part;
    for (const auto& [name, array] : expected)
      if (name.starts_with(prefix)) part.emplace(name.substr(prefix.size()), array);
    ASSERT_FALSE(part.empty());
    expect_all_same(part, by_name(read_pth(golden("checkpoint.pth"), key)));
  }
  EXPECT_TRUE(read_pth(golden("checkpoint.pth"), "epoch").empty());
  expect_parts(testing::error_of([] { read_pth(golden("checkpoint.pth"), "ema"); }),
               {"checkpoint.pth", "has no \"ema\"", "\"model\", \"optimizer\", \"lr_scheduler\", \"epoch\""});
  expect_parts(testing::error_of([] { read_pth(golden("zip.pth"), "ema"); }), {"has no \"ema\"", "\"f32\""});
}

std::vector<NamedArray> one_of_each() {
  const Array image = testing::counting({2, 3, 4, 5}).channels_last();
  const Array base = testing::counting({4, 6});
  std::vector<NamedArray> arrays = {
      {"f32", testing::counting({2, 3})},
      {"f64", Array::from(std::vector<double>{1e300, -0.0}, {2})},
      {"bf16", Array::from(std::vector<bfloat16>{bfloat16(1.5f)}, {1, 1, 1, 1, 1, 1})},
      {"f16", Array::from(std::vector<float16>{float16(0.1f), float16(65504.0f)}, {2, 1})},
      {"i64", Array::from(std::vector<std::int64_t>{-5}, {})},
      {"i32", Array::from(std::vector<std::int32_t>{1, 2, 3}, {3})},
      {"u8", Array::from(std::vector<std::uint8_t>{0, 255, 7}, {3})},
      {"bool", Array::from(std::vector<std::int32_t>{1, 0}, {2}).to(DType::boolean)},
      {"nothing", Array::empty({3, 0, 2})},
      {"image", image},
      {"transposed", base.transpose(0, 1)},
      {"tied", base},
      {"tied.again", base},
      {"a \"name\"\n\u00e9", testing::counting({1})},
  };
  return arrays;
}

TEST(Pth, gives_back_what_was_written) {
  TemporaryFolder folder;
  write_pth(folder / "a.pth", one_of_each());
  const auto read = read_pth(folder / "a.pth");
  expect_all_same(by_name(one_of_each()), by_name(read));
  EXPECT_EQ(read[11].array.storage(), read[12].array.storage());
  EXPECT_NE(read[10].array.storage(), read[11].array.storage());
  write_pth(folder / "b.pth", one_of_each());
  EXPECT_EQ(read_bytes(folder / "a.pth"), read_bytes(folder / "b.pth"));
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"a.pth", "b.pth"}));

  write_pth(folder / "nothing.pth", {});
  EXPECT_TRUE(read_pth(folder / "nothing.pth").empty());
}

TEST(Pth, aligns_the_bytes_of_every_storage) {
  TemporaryFolder folder;
  std::vector<NamedArray> arrays;
  for (int i = 0; i < 5; ++i) {
    const std::vector<std::uint8_t> values(static_cast<std::size_t>(9 + i), static_cast<std::uint8_t>(0xa0 + i));
    arrays.push_back({"layer" + std::to_string(i), Array::from(values, {9 + i})});
  }
  write_pth(folder / "a.pth", arrays);
  const std::string bytes = read_bytes(folder / "a.pth");
  for (int i = 0; i < 5; ++i) {
    const auto at = bytes.find(std::string(static_cast<std::size_t>(9 + i), static_cast<char>(0xa0 + i)));
    ASSERT_NE(at, std::string::npos);
    EXPECT_EQ(at % 64, 0u);
  }
}

TEST(Pth, more_entries_than_a_directory_without_zip64_counts) {
  TemporaryFolder folder;
  std::vector<NamedArray> arrays;
  for (int i = 0; i < 66000; ++i) arrays.push_back({std::to_string(i), Array::from(std::vector<std::int32_t>{i}, {})});
  write_pth(folder / "a.pth", arrays);
  const auto read = read_pth(folder / "a.pth");
  ASSERT_EQ(read.size(), arrays.size());
  EXPECT_EQ(read.back().name, "65999");
  EXPECT_EQ(read.back().array.item(), 65999);
}

TEST(Pth, refuses_what_it_cannot_write) {
  TemporaryFolder folder;
  const auto path = folder / "a.pth";
  const Array array = testing::counting({2});
  const auto error = [&](const std::vector<NamedArray>& arrays) {
    return testing::error_of([&] { write_pth(path, arrays); });
  };
  expect_parts(error({{"x", array}, {"x", array}}), {path.string(), "two arrays are named \"x\""});
  expect_parts(error({{"x", Array()}}), {"\"x\" is undefined"});
  for (const std::string name : {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"})
    expect_parts(error({{name, array}}), {"not valid UTF-8"});
  EXPECT_TRUE(folder.names().empty());
}

// Tests both directions with PyTorch itself.
TEST(Pth, torch_reads_what_we_write) {
  TANDEM_NEEDS_TORCH();
  TemporaryFolder folder;
  write_pth(folder / "ours.pth", one_of_each());
  const std::string program = R"(
import collections, sys, torch, zipfile
folder = sys.argv[1]
assert zipfile.ZipFile(folder + "/ours.pth").testzip() is None
state = torch.load(folder + "/ours.pth", weights_only=True)
assert type(state) is collections.OrderedDict
assert state["f32"].tolist() == [[0, 1, 2], [3, 4, 5]] and state["f32"].is_contiguous()
assert state["transposed"].shape == (6, 4) and state["transposed"][1, 2] == 13
assert state["image"].shape == (2, 3, 4, 5) and state["image"][1, 2, 3, 4] == 119
assert state["tied"].data_ptr() == state["tied.again"].data_ptr()
assert state["nothing"].shape == (3, 0, 2) and state["bool"].tolist() == [True, False]
assert state["i64"].shape == () and state["i64"] == -5 and state["bf16"].dtype is torch.bfloat16
mapped = torch.load(folder + "/ours.pth", weights_only=True, mmap=True)
assert all(torch.equal(mapped[name], tensor) for name, tensor in state.items())
torch.save(state, folder + "/theirs.pth")
torch.save(state, folder + "/theirs_legacy.pth", _use_new_zipfile_serialization=False)
torch.save(state["f32"], folder + "/tensor.pth")
torch.save([state["f32"], (state["i64"],)], folder + "/list.pth")
)";
  const auto outcome =
      testing::run_process({"/usr/bin/env", testing::torch_python(), "-c", program, folder.path().string()});
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  expect_all_same(by_name(one_of_each()), by_name(read_pth(folder / "theirs.pth")));
  expect_all_same(by_name(one_of_each()), by_name(read_pth(folder / "theirs_legacy.pth")));
  const auto single = read_pth(folder / "tensor.pth");
  ASSERT_EQ(single.size(), 1u);
  EXPECT_EQ(single[0].name, "");
  const auto list = read_pth(folder / "list.pth");
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].name, "0");
  EXPECT_EQ(list[1].name, "1.0");
}

TEST(ArraysFile, takes_a_list_of_arrays) {
  const TemporaryFolder folder;
  save_arrays(folder / "two.safetensors",
              {{"x", Array::from(std::vector<float>{1, 2}, {2})}, {"y", Array::from(std::vector<float>{3}, {1})}});
  save_arrays(folder / "none.safetensors", {});
  const auto two = load_arrays(folder / "two.safetensors");
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].name + two[1].name, "xy");
  EXPECT_TRUE(load_arrays(folder / "none.safetensors").empty());
}

TEST(ArraysFile, is_told_by_its_content) {
  TemporaryFolder folder;
  const auto expected = by_name(one_of_each());
  for (const std::string end : {".pth", ".safetensors"}) {
    save_arrays(folder / ("net" + end), one_of_each(), {{"program", "test"}});
    std::filesystem::copy_file(folder / ("net" + end), folder / "net.bin",
                               std::filesystem::copy_options::overwrite_existing);
    expect_all_same(expected, by_name(load_arrays(folder / "net.bin")));
  }
  EXPECT_EQ(read_safetensors(folder / "net.safetensors").metadata.at("program"), "test");
  EXPECT_EQ(by_name(load_arrays(golden("legacy.pth"))).size(), 21u);
  EXPECT_FALSE(load_arrays(golden("checkpoint.pth"), "optimizer").empty());

  expect_parts(testing::error_of([&] { save_arrays(folder / "net.bin", one_of_each()); }),
               {"net.bin", ".safetensors or .pth"});
  expect_parts(testing::error_of([&] { load_arrays(folder / "net.safetensors", "model"); }),
               {"net.safetensors", "\"model\""});
  for (const std::string bytes : {"", "P", "text", "GIF89a......."}) {
    write_bytes(folder / "other", bytes);
    expect_parts(testing::error_of([&] { load_arrays(folder / "other"); }), {"other", "neither"});
  }
  expect_parts(testing::error_of([&] { load_arrays(folder / "missing"); }), {"missing", "cannot be opened"});
  expect_parts(testing::error_of([&] { load_arrays(folder.path()); }), {"not a regular file"});
}

TEST(ArraysFile, names_lose_the_parts_that_wrappers_put_there) {
  const auto names = [](const std::vector<std::string>& given) {
    std::vector<NamedArray> arrays;
    for (const auto& name : given) arrays.push_back({name, Array::zeros({1})});
    std::vector<std::string> result;
    for (const auto& [name, array] : without_wrappers(arrays)) result.push_back(name);
    const TemporaryFolder folder;
    for (const char* file : {"a.pth", "a.safetensors"}) {
      save_arrays(folder / file, arrays);
      std::set<std::string> read;
      for (const auto& [name, array] : load_arrays(folder / file)) read.insert(name);
      EXPECT_EQ(read, std::set(result.begin(), result.end()));
    }
    return result;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names({"module.a", "module.module.b"}), (Names{"a", "module.b"}));
  EXPECT_EQ(names({"_orig_mod.a", "_orig_mod.b.c"}), (Names{"a", "b.c"}));
  EXPECT_EQ(names({"module._orig_mod.a", "_orig_mod.module.b"}), (Names{"a", "b"}));
  EXPECT_EQ(names({"net._orig_mod.a", "b"}), (Names{"net.a", "b"}));
  EXPECT_EQ(names({"module.a", "b", "my_orig_mod.c"}), (Names{"module.a", "b", "my_orig_mod.c"}));
  EXPECT_EQ(names({"a", "_orig_mod.a"}), (Names{"a", "_orig_mod.a"}));
}

}  // namespace
}  // namespace tandem
