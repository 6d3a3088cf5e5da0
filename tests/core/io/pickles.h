// Writes .pth files byte by byte: pickles, and the two file formats that contain them.
#pragma once

#include <tandem/core/io/zip_file.h>

#include <support/temporary_folder.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tandem::testing::pickles {

template <class T>
inline std::string number(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

inline std::string text(const std::string& words) {
  return "X" + number(static_cast<std::uint32_t>(words.size())) + words;
}
inline std::string integer(std::int64_t value) { return "\x8a\x08" + number(value); }
inline std::string integers(const std::vector<std::int64_t>& values) {
  std::string bytes = "(";
  for (const auto value : values) bytes += integer(value);
  return bytes + "t";
}
inline std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
inline std::string storage(std::int64_t elements, const std::string& type = "FloatStorage",
                           const std::string& key = "0") {
  return "(" + text("storage") + global("torch", type) + text(key) + text("cpu") + integer(elements) + "tQ";
}
inline std::string tensor(const std::string& of, std::int64_t offset, const std::vector<std::int64_t>& shape,
                          const std::vector<std::int64_t>& strides) {
  return global("torch._utils", "_rebuild_tensor_v2") + "(" + of + integer(offset) + integers(shape) +
         integers(strides) + "\x89" + global("collections", "OrderedDict") + ")RtR";
}
inline std::string dict(const std::string& entries) { return "\x80\x02}(" + entries + "u."; }

// A zip archive that contains a pickle and a storage "0".
inline std::string archive(const std::string& pickle, const std::string& storage = std::string(16, '\1')) {
  const TemporaryFolder folder;
  {
    AtomicFile file(folder / "a.pth");
    ZipWriter zip(file);
    const auto add = [&](const std::string& name, const std::string& bytes) {
      zip.add(name, std::as_bytes(std::span(bytes)));
    };
    add("a/data.pkl", pickle);
    add("a/data/0", storage);
    zip.finish();
    file.commit();
  }
  return read_bytes(folder / "a.pth");
}

// The old format with a pickle and a storage "0" of `elements` elements. All pickles in it use `protocol`.
inline std::string old_form(std::string pickle, const std::string& storage, std::int64_t elements, char protocol = 2) {
  const auto begin = std::string("\x80") + protocol;
  pickle.replace(0, begin.size(), begin);
  const auto framed = [&](const std::string& body) {
    return begin + (protocol < 4 ? "" : "\x95" + number(std::uint64_t{body.size()})) + body;
  };
  return framed("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.") + framed(std::string("M\xe9\3.", 4)) +
         framed("}" + text("little_endian") + "\x88s.") + pickle + framed("]" + text("0") + "a.") + number(elements) +
         storage;
}

}  // namespace tandem::testing::pickles
