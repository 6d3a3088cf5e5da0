// Contents of a .pth file in addition to plain tensors: negated views, dtypes that Tandem lacks, and entries that a
// training program saves with a state dict.
#include <tandem/core/io/arrays_file.h>
#include <tandem/core/io/pth.h>
#include <tandem/core/io/safetensors.h>

#include <gtest/gtest.h>
#include <support/process.h>
#include <support/temporary_folder.h>
#include <support/torch_python.h>

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "core/io/pickles.h"

namespace tandem {
namespace {

using testing::expect_parts;
using testing::TemporaryFolder;
using testing::write_bytes;
using namespace testing::pickles;
using namespace std::string_literals;
using Numbers = std::vector<double>;

std::map<std::string, Numbers> numbers_in(const std::string& bytes, const std::string& key = "") {
  const TemporaryFolder folder;
  write_bytes(folder / "a.pth", bytes);
  std::map<std::string, Numbers> result;
  for (const auto& [name, array] : load_arrays(folder / "a.pth", key)) result[name] = array.to_vector<double>();
  return result;
}

std::string error_in(const std::string& bytes, const std::string& key = "") {
  return testing::error_of([&] { numbers_in(bytes, key); });
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// A tensor with `more` arguments after the strides: whether it has a gradient, its hooks, and others.
std::string tensor_with(const std::string& function, const std::string& of, std::int64_t offset,
                        const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides,
                        const std::string& more) {
  return global("torch._utils", function) + "(" + of + integer(offset) + integers(shape) + integers(strides) + more +
         "tR";
}
const std::string no_hooks = "\x89" + global("collections", "OrderedDict") + ")R";
std::string with_metadata(const std::string& of, std::int64_t offset, const std::vector<std::int64_t>& shape,
                          const std::vector<std::int64_t>& strides, const std::string& key, bool value = true) {
  return tensor_with("_rebuild_tensor_v2", of, offset, shape, strides,
                     no_hooks + "}" + text(key) + (value ? "\x88" : "\x89") + "s");
}
std::string with_dtype(const std::string& of, std::int64_t count, const std::string& dtype) {
  return tensor_with("_rebuild_tensor_v3", of, 0, {count}, {1}, no_hooks + global("torch", dtype));
}
std::string untyped(std::int64_t bytes) {
  return "(" + text("storage") + global("torch.storage", "UntypedStorage") + text("0") + text("cpu") + integer(bytes) +
         "tQ";
}
const std::string good = tensor(storage(4), 0, {1}, {1});
std::string sub_dict(const std::string& entries) { return "}(" + entries + "u"; }

TEST(PthTensors, negated_views_have_the_negated_numbers) {
  const std::string pickle =
      dict(text("neg") + with_metadata(storage(4), 0, {2}, {1}, "neg") + text("imag") +
           with_metadata(storage(4), 1, {2}, {2}, "neg") + text("plain") + tensor(storage(4), 0, {4}, {1}) +
           text("not") + with_metadata(storage(4), 0, {1}, {1}, "neg", false) + text("conj") +
           with_metadata(storage(4), 3, {1}, {1}, "conj"));
  const std::string floats = bytes_of<float>({1, 3, 0, -5});
  for (const std::string& file : {archive(pickle, floats), old_form(pickle, floats, 4)}) {
    const auto found = numbers_in(file);
    EXPECT_EQ(found.at("neg"), (Numbers{-1, -3}));
    EXPECT_EQ(found.at("imag"), (Numbers{-3, 5}));
    EXPECT_EQ(found.at("plain"), (Numbers{1, 3, 0, -5}));
    EXPECT_EQ(found.at("not"), (Numbers{1}));
    EXPECT_EQ(found.at("conj"), (Numbers{-5}));
  }
  const auto one = [](const std::string& type, const std::string& bytes, std::int64_t count) {
    return numbers_in(archive(dict(text("x") + with_metadata(storage(count, type), 0, {count}, {1}, "neg")), bytes))
        .at("x");
  };
  EXPECT_EQ(one("DoubleStorage", bytes_of<double>({2.5, -4}), 2), (Numbers{-2.5, 4}));
  EXPECT_EQ(one("HalfStorage", bytes_of<std::uint16_t>({0x3c00}), 1), (Numbers{-1}));
  EXPECT_EQ(one("BFloat16Storage", bytes_of<std::uint16_t>({0xbf80}), 1), (Numbers{1}));
  EXPECT_EQ(one("LongStorage", bytes_of<std::int64_t>({7, -1}), 2), (Numbers{-7, 1}));
  EXPECT_EQ(one("ShortStorage", bytes_of<std::int16_t>({300, -2}), 2), (Numbers{-300, 2}));
  EXPECT_EQ(one("CharStorage", bytes_of<std::int8_t>({5, -128}), 2), (Numbers{-5, -128}));  // as in PyTorch
}

TEST(PthTensors, negated_views_share_one_storage) {
  const TemporaryFolder folder;
  write_bytes(folder / "a.pth", archive(dict(text("x") + with_metadata(storage(4), 0, {4}, {0}, "neg") + text("y") +
                                             with_metadata(storage(4), 1, {2}, {1}, "neg"))));
  const auto arrays = read_pth(folder / "a.pth");
  EXPECT_EQ(arrays.at(0).array.storage(), arrays.at(1).array.storage());
}

TEST(PthTensors, no_metadata_are_dropped) {
  expect_parts(error_in(archive(dict(text("x") + with_metadata(storage(4), 0, {1}, {1}, "strange")))),
               {"tensor \"x\"", "metadata \"strange\""});
  expect_parts(
      error_in(archive(dict(text("x") + tensor_with("_rebuild_tensor_v2", storage(4), 0, {1}, {1}, no_hooks + "K\1")))),
      {"tensor \"x\"", "metadata"});
}

// A kind of tensor that torch.load(weights_only=True) opens and Tandem does not.
struct Unreadable {
  std::string pickle;
  std::int64_t elements;  // of its storage
  std::vector<std::string> words;
};
const std::vector<Unreadable> all_unreadable = {
    {tensor(storage(2, "ComplexFloatStorage"), 0, {1}, {1}), 2, {"complex64", "view_as_real"}},
    {tensor(storage(1, "ComplexDoubleStorage"), 0, {1}, {1}), 1, {"complex128"}},
    {with_dtype(untyped(16), 8, "uint16"), 16, {"dtype uint16", "torch.int64"}},
    {with_dtype(untyped(16), 16, "float8_e4m3fn"), 16, {"dtype float8_e4m3fn", "torch.float32"}},
    {tensor_with("_rebuild_qtensor", storage(16, "QUInt8Storage"), 0, {16}, {1},
                 "(" + global("torch", "per_tensor_affine") + "G\x3f\xf0\0\0\0\0\0\0K\0t"s + no_hooks),
     16,
     {"dtype quint8", "dequantize()"}},
    {global("torch._utils", "_rebuild_sparse_tensor") + "(" + global("torch.serialization", "_get_layout") +
         text("torch.sparse_coo") + "\x85R(" + good + good + global("torch", "Size") + "K\3\x85\x85R\x88ttR",
     4,
     {"is sparse (torch.sparse_coo)", "to_dense()"}},
    {global("torch._utils", "_rebuild_meta_tensor_no_storage") + "(" + global("torch", "float32") +
         "K\2\x85K\1\x85\x89tR",
     0,
     {"device meta"}},
    {global("torch", "FloatTensor") + ")\x81(" + storage(4) + "K\0K\4\x85K\1\x85tb"s, 4, {"before 0.2"}},
};

TEST(PthTensors, an_error_names_the_tensor_that_cannot_be_read) {
  for (const auto& [pickled, elements, words] : all_unreadable) {
    const std::string pickle = dict(text("layer.x") + pickled);
    for (const std::string& file : {archive(pickle), old_form(pickle, std::string(16, '\1'), elements)}) {
      if (elements == 0 && !file.starts_with("PK")) continue;  // the old format has a list of storages
      const auto error = error_in(file);
      EXPECT_NE(error.find("tensor \"layer.x\" "), std::string::npos) << error;
      for (const auto& word : words) EXPECT_NE(error.find(word), std::string::npos) << error;
      EXPECT_EQ(error.find("state_dict()"), std::string::npos) << error;
    }
  }
}

TEST(PthTensors, only_tensors_that_are_wanted_must_be_readable) {
  for (const auto& unreadable : all_unreadable) {
    const auto entries = text("other") + unreadable.pickle + text("model") + sub_dict(text("w") + good);
    EXPECT_EQ(numbers_in(archive(dict(entries))).size(), 1u);
  }
}

TEST(PthTensors, other_forms_of_readable_tensors) {
  const std::string floats = bytes_of<float>({1, 3, 0, -5});
  EXPECT_EQ(numbers_in(archive(dict(text("x") + with_dtype(untyped(16), 4, "float32")), floats)).at("x"),
            (Numbers{1, 3, 0, -5}));
  EXPECT_EQ(numbers_in(archive(dict(text("x") + tensor(untyped(16), 0, {2}, {1})), floats)).at("x"), (Numbers{0, 0}));
  expect_parts(error_in(archive(dict(text("x") + with_dtype(untyped(15), 1, "float32")))), {"tensor \"x\"", "damaged"});
  const std::string arguments = "(" + storage(4) + integer(1) + integers({2}) + integers({1}) + no_hooks + "t";
  const std::string typed = global("torch._tensor", "_rebuild_from_type_v2") + "(" +
                            global("torch._utils", "_rebuild_tensor_v2") + global("torch", "Tensor") + arguments +
                            sub_dict(text("note") + "K\1") + "tR";
  EXPECT_EQ(numbers_in(archive(dict(text("x") + typed), floats)).at("x"), (Numbers{3, 0}));
  const std::string moved = global("torch._utils", "_rebuild_device_tensor_from_cpu_tensor") + "(" +
                            tensor(storage(4), 3, {1}, {1}) + global("torch", "float32") + text("xla:0") + "\x89tR";
  EXPECT_EQ(numbers_in(archive(dict(text("x") + moved), floats)).at("x"), (Numbers{-5}));
}

// Before version 0.4, PyTorch had storages that are parts of others. Their key, begin and size are at the end.
TEST(PthTensors, views_of_storages) {
  const auto view = [](std::int64_t first, std::int64_t size) {
    return "(" + text("storage") + global("torch", "FloatStorage") + text("0") + text("cpu") + integer(4) + "(" +
           text("7") + integer(first) + integer(size) + "ttQ";
  };
  const std::string floats = bytes_of<float>({1, 3, 0, -5});
  const auto read = [&](std::int64_t first, std::int64_t offset) {
    return old_form(dict(text("x") + tensor(view(first, 2), offset, {1}, {1}) + text("y") + good), floats, 4);
  };
  EXPECT_EQ(numbers_in(read(1, 0)).at("x"), (Numbers{3}));
  EXPECT_EQ(numbers_in(read(2, 1)).at("x"), (Numbers{-5}));
  EXPECT_EQ(numbers_in(read(2, 1)).at("y"), (Numbers{1}));
  expect_parts(error_in(read(3, 1)), {"tensor \"x\"", "does not fit"});
  expect_parts(error_in(read(std::numeric_limits<std::int64_t>::max(), 1)), {"does not fit"});
  expect_parts(error_in(read(-1, 1)), {"storage \"0\"", "damaged"});
}

TEST(PthTensors, what_lies_beside_a_state_dict) {
  const std::string beside =
      text("bytes") + "C\3abc" + text("old bytes") + global("_codecs", "encode") + text("abc") + text("latin1") +
      "\x86R" + text("array") + global("__builtin__", "bytearray") + text("abc") + text("latin1") + "\x86R" +
      text("complex") + global("builtins", "complex") + "K\1K\2\x86R" + text("frozen") + "(K\1\x91" + text("dtype") +
      global("torch", "float8_e5m2") + text("long") + "\x8b\x09\0\0\0"s + std::string(9, '\1') + text("layout") +
      global("torch.serialization", "_get_layout") + text("torch.strided") + "\x85R" + text("wide") + "\x8d" +
      number(std::uint64_t{1}) + "w" + text("storage") + storage(4);
  EXPECT_EQ(numbers_in(archive(dict(beside + text("x") + good))).size(), 1u);
}

// Later pickle protocols, in both file formats.
TEST(PthTensors, protocols_2_to_5) {
  const std::string pickle = dict(text("x") + tensor(storage(4), 0, {4}, {1}));
  const std::string floats = bytes_of<float>({1, 3, 0, -5});
  for (char protocol = 2; protocol <= 5; ++protocol) {
    EXPECT_EQ(numbers_in(old_form(pickle, floats, 4, protocol)).at("x"), (Numbers{1, 3, 0, -5}));
    EXPECT_EQ(numbers_in(archive("\x80"s + protocol + pickle.substr(2), floats)).at("x"), (Numbers{1, 3, 0, -5}));
  }
  expect_parts(error_in("\x80\6" + pickle.substr(2)), {"neither a safetensors file nor a .pth file"});
}

TEST(PthTensors, a_state_dict_is_found_beside_other_entries) {
  const std::string weights = sub_dict(text("a.weight") + good + text("a.bias") + good);
  const std::string optimizer =
      text("optimizer") + sub_dict(text("state") + sub_dict("K\1" + sub_dict(text("m") + good)));
  const auto names = [](const std::string& entries, const std::string& key = "") {
    std::vector<std::string> result;
    for (const auto& [name, values] : numbers_in(archive(dict(entries)), key)) result.push_back(name);
    return result;
  };
  const std::vector<std::string> of_model = {"a.bias", "a.weight"};
  // A checkpoint as PyTorch's ImageNet example writes it, one with a rank's random state, and one whose model options
  // have a common name.
  EXPECT_EQ(names(text("epoch") + "K\3" + text("state_dict") + weights + text("best_acc1") + good + optimizer),
            of_model);
  EXPECT_EQ(names(text("model") + weights + text("rng_state") + good), of_model);
  EXPECT_EQ(names(text("model") + sub_dict(text("depth") + "K\22") + text("state_dict") + weights), of_model);
  // A module's extra state does not make a file a checkpoint.
  EXPECT_EQ(names(text("a.weight") + good + text("a._extra_state") + sub_dict(text("scale") + good)).size(), 2u);
  EXPECT_TRUE(names(text("epoch") + "K\3").empty());

  const auto error = [](const std::string& entries) { return error_in(archive(dict(entries))); };
  expect_parts(error(text("model") + weights + text("state_dict") + weights + text("epoch") + "K\3"),
               {"These hold tensors: \"model\", \"state_dict\".", "load_arrays(path, KEY)", "--weights-key"});
  for (const std::string& accuracy : {"K\74"s, good})
    expect_parts(error(text("net") + weights + text("acc") + accuracy),
                 {"These hold tensors: \"net\".", "--weights-key"});
  EXPECT_EQ(names(text("net") + weights + text("acc") + "K\74", "net"), of_model);
  EXPECT_EQ(names(text("run") + sub_dict(text("net") + weights + text("ema") + weights), "run.net"), of_model);
  EXPECT_EQ(names(text("net") + weights + text("acc") + good, "."),
            (std::vector<std::string>{"acc", "net.a.bias", "net.a.weight"}));
  expect_parts(error_in(archive(dict(text("net") + weights)), "net.b"), {"has no \"b\"", "\"a.weight\", \"a.bias\""});
  expect_parts(error_in(archive("\x80\2"s + good + "."), "net"), {"has no \"net\"; it has no entries"});
}

// Compares with PyTorch itself.
TEST(PthTensors, as_torch_reads_what_torch_writes) {
  TANDEM_NEEDS_TORCH();
  const TemporaryFolder folder;
  const std::string program = R"(
import sys, torch, torch.nn as nn
folder = sys.argv[1]
def save(name, value):
    for end, options in [("", {}), ("_old", {"_use_new_zipfile_serialization": False}),
                         ("_5", {"_use_new_zipfile_serialization": False, "pickle_protocol": 5}),
                         ("_4", {"pickle_protocol": 4})]:
        torch.save(value, f"{folder}/{name}{end}.pth", **options)
complexes = torch.tensor([1 + 2j, 3 - 4j])
tagged = torch.tensor([5.0, 6.0])
tagged.note = 1
save("good", {"neg": torch._neg_view(torch.tensor([1.0, 3.0])), "imag": complexes.conj().imag, "tagged": tagged,
              "parameter": nn.Parameter(torch.tensor([7.0]))})
for name, value in {"complex64": complexes, "complex32": complexes.to(torch.complex32),
                    "uint16": torch.tensor([1, 2], dtype=torch.uint16),
                    "float8_e4m3fn": torch.tensor([1.0]).to(torch.float8_e4m3fn),
                    "quint8": torch.quantize_per_tensor(torch.tensor([1.0]), 0.1, 0, torch.quint8),
                    "qint8": torch.quantize_per_channel(torch.ones(2, 2), torch.ones(2), torch.zeros(2), 0,
                                                       torch.qint8),
                    "sparse_coo": torch.eye(3).to_sparse(), "sparse_csr": torch.eye(3).to_sparse_csr(),
                    "meta": torch.empty(2, device="meta")}.items():
    save(name, {"layer.x": value})
    torch.load(f"{folder}/{name}.pth", weights_only=True)
torch.jit.save(torch.jit.script(nn.Linear(3, 2)), folder + "/script.pth")
)";
  const auto outcome =
      testing::run_process({"/usr/bin/env", testing::torch_python(), "-c", program, folder.path().string()});
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  for (const std::string end : {"", "_old", "_5", "_4"}) {
    std::map<std::string, Numbers> found;
    for (const auto& [name, array] : load_arrays(folder / ("good" + end + ".pth")))
      found[name] = array.to_vector<double>();
    EXPECT_EQ(found, (std::map<std::string, Numbers>{
                         {"neg", {-1, -3}}, {"imag", {-2, 4}}, {"tagged", {5, 6}}, {"parameter", {7}}}));
    for (const char* kind :
         {"complex64", "complex32", "uint16", "float8_e4m3fn", "quint8", "qint8", "sparse_coo", "sparse_csr", "meta"})
      EXPECT_ERROR(load_arrays(folder / (kind + end + ".pth")), "tensor \"layer.x\"", kind);
  }
  EXPECT_ERROR(load_arrays(folder / "script.pth"), "TorchScript", "torch.jit.load");
}

}  // namespace
}  // namespace tandem
