// A temporary folder for one test. Its destructor removes it with its contents.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::testing {

// The sorted names of the entries of a folder, including hidden ones.
std::vector<std::string> files_in(const std::filesystem::path& folder);

class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const;

  std::vector<std::string> names() const { return files_in(path_); }

 private:
  std::filesystem::path path_;
};

void write_bytes(const std::filesystem::path& path, const std::string& bytes);

std::string read_bytes(const std::filesystem::path& path);

// Returns the text of the Error that `action` throws. If it throws none, the test fails and the text is "".
std::string error_of(const std::function<void()>& action);

void expect_parts(const std::string& text, std::initializer_list<std::string_view> parts);

}  // namespace tandem::testing

// EXPECT_ERROR(statement, "part", ...) expects that the statement throws an Error whose text contains every part.
#define EXPECT_ERROR(statement, ...)                                                                 \
  do {                                                                                               \
    SCOPED_TRACE("");                                                                                \
    ::tandem::testing::expect_parts(::tandem::testing::error_of([&] { statement; }), {__VA_ARGS__}); \
  } while (false)
