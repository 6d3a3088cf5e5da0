#include <tandem/core/base/check.h>
#include <tandem/distributed/job/store_token.h>

#include <gtest/gtest.h>
#include <support/process.h>
#include <support/temporary_folder.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>
#include <vector>

namespace tandem::distributed {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::expect_parts;

std::string token_with(const std::map<std::string, std::string>& variables) {
  return given_token([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

class StoreToken : public ::testing::Test {
 protected:
  StoreToken() {
    if (const char* before = std::getenv("XDG_RUNTIME_DIR")) before_ = before;
    setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1);
  }
  ~StoreToken() override {
    before_.empty() ? unsetenv("XDG_RUNTIME_DIR") : setenv("XDG_RUNTIME_DIR", before_.c_str(), 1);
  }
  std::string write(const std::string& text, mode_t mode) const {
    const auto path = (folder_.path() / "token").string();
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
    return path;
  }

  testing::TemporaryFolder folder_;

 private:
  std::string before_;
};

TEST_F(StoreToken, ComesFromTheVariableOrElseFromTheFile) {
  const auto path = write("from the file\n", 0600);
  EXPECT_EQ(token_with({}), "");
  EXPECT_EQ(token_with({{"TANDEM_STORE_TOKEN_FILE", path}}), "from the file");
  EXPECT_EQ(token_with({{"TANDEM_STORE_TOKEN", ""}, {"TANDEM_STORE_TOKEN_FILE", path}}), "from the file");
  EXPECT_EQ(token_with({{"TANDEM_STORE_TOKEN", "said here"}, {"TANDEM_STORE_TOKEN_FILE", path}}), "said here");
}

TEST_F(StoreToken, OfAFileThatOthersCouldReadIsRefused) {
  const auto path = write("secret", 0640);
  const auto error = [&](const std::string& file) {
    return error_of([&] { token_with({{"TANDEM_STORE_TOKEN_FILE", file}}); });
  };
  expect_parts(error(path), {path, "chmod 600"});
  const auto link = (folder_.path() / "link").string();
  fs::create_symlink(write("secret", 0600), link);
  expect_parts(error(link), {link, "it is a symbolic link", "give the file"});
  expect_parts(error(write("short", 0600)), {"the store's token has 5 bytes, expected at least 8", "openssl rand"});
  expect_parts(error_of([] { token_with({{"TANDEM_STORE_TOKEN", "x"}}); }), {"the store's token has 1 byte, expected"});
  expect_parts(error(folder_.path().string()), {"is not a regular file"});
  expect_parts(error(folder_.path().string() + "/missing"), {"missing", "No such file"});
  expect_parts(error(write(" \n", 0600)), {"no text"});
  expect_parts(error(write(std::string(300, 'x'), 0600)), {"more than 256 bytes"});
}

TEST_F(StoreToken, OfAHostIsTheSameForAllItsProcesses) {
  std::vector<std::string> tokens(8);
  std::vector<std::thread> processes;
  for (auto& token : tokens) processes.emplace_back([&] { token = host_token("a job"); });
  for (auto& process : processes) process.join();
  EXPECT_EQ(std::set<std::string>(tokens.begin(), tokens.end()).size(), 1u);
  EXPECT_EQ(tokens[0].size(), 64u);
  EXPECT_NE(host_token("another job"), tokens[0]);

  const auto folder = folder_.path() / "tandem";
  EXPECT_EQ(fs::status(folder).permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(folder / "secret").permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);  // no temporary files
}

TEST_F(StoreToken, OfAHostIsRefusedWhereOthersCouldHaveWrittenIt) {
  const auto folder = folder_.path() / "tandem";
  fs::create_directory(folder);
  chmod(folder.c_str(), 0777);
  expect_parts(error_of([] { host_token("a job"); }), {folder.string(), "0700", "TANDEM_STORE_TOKEN"});
  chmod(folder.c_str(), 0700);
  host_token("a job");
  chmod((folder / "secret").c_str(), 0644);
  expect_parts(error_of([] { host_token("a job"); }), {"chmod 600"});
  chmod((folder / "secret").c_str(), 0600);
  fs::resize_file(folder / "secret", 3);
  expect_parts(error_of([] { host_token("a job"); }), {"has 3 bytes, so it was truncated: remove it"});
}

// Slurm forwards the variable of the login node, and sudo keeps that of a different user.
TEST_F(StoreToken, OfAHostNeedsNoRuntimeFolder) {
  const auto ours = host_token("a job");
  setenv("XDG_RUNTIME_DIR", (folder_.path() / "missing").c_str(), 1);
  const auto other = host_token("a job");
  EXPECT_EQ(other.size(), 64u);
  EXPECT_NE(other, ours);
  unsetenv("XDG_RUNTIME_DIR");
  EXPECT_EQ(host_token("a job"), other);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(folder_.path().c_str(), 4711, 4711), 0);
    setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1);
    EXPECT_EQ(host_token("a job"), other);
  }
}

}  // namespace
}  // namespace tandem::distributed
