// A temporary folder for one test. Its destructor removes it with its contents.
#pragma once

#include <tandem/core/base/check.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace tandem::testing {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tandem-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot create " + pattern);
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

  // The names of the entries, including hidden ones.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::filesystem::path path_;
};

inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  // Some file systems write a truncated file to the disk at once, which is slow. A new file avoids that.
  std::filesystem::remove(path);
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  ASSERT_TRUE(file.good()) << path;
}

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns the text of the Error that `action` throws. If it throws none, the test fails and the text is "".
template <class Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected an error, there was none";
  return "";
}

inline void expect_parts(const std::string& text, std::initializer_list<std::string> parts) {
  for (const auto& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in: " << text;
  }
}

}  // namespace tandem::testing

// EXPECT_ERROR(statement, "part", ...) expects that the statement throws an Error whose text contains every part.
#define EXPECT_ERROR(statement, ...)                                                                 \
  do {                                                                                               \
    SCOPED_TRACE("");                                                                                \
    ::tandem::testing::expect_parts(::tandem::testing::error_of([&] { statement; }), {__VA_ARGS__}); \
  } while (false)
