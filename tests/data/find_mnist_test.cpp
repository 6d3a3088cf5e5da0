#include <tandem/core/base/check.h>
#include <tandem/data/download/download.h>
#include <tandem/data/find_mnist.h>
#include <tandem/data/mnist.h>

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "support/http_server.h"
#include "support/idx_files.h"
#include "support/temporary_folder.h"

namespace tandem::data {
namespace {

using testing::HttpServer;
using testing::read_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;
namespace fs = std::filesystem;

// Sets an environment variable for one test, or unsets it if there is no value.
class Variable {
 public:
  Variable(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~Variable() { set(before_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;

  void set(const std::optional<std::string>& value) {
    if (value) ::setenv(name_, value->c_str(), 1);
    else ::unsetenv(name_);
  }
};

// An empty cache folder, and no other hint where MNIST is.
class FindMnist : public ::testing::Test {
 protected:
  TemporaryFolder folder;
  Variable cache{"XDG_CACHE_HOME", folder.path().string()};
  Variable data{"TANDEM_DATA", std::nullopt};
  Variable sample{"TANDEM_SAMPLE", std::nullopt};
  fs::path mnist = folder.path() / "tandem" / "mnist";
};

const std::vector<std::string> names = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                                        "t10k-labels-idx1-ubyte"};

TEST_F(FindMnist, OptionThenVariableThenCache) {
  const Variable variable("TANDEM_DATA", "/from/variable");
  EXPECT_EQ(find_mnist({.data = "/given"}).folder, "/given");
  EXPECT_EQ(find_mnist().folder, "/from/variable");
  ::unsetenv("TANDEM_DATA");
  fs::create_directories(mnist);
  for (const auto& name : names) write_bytes(mnist / name, "");
  const MnistFolder found = find_mnist();
  EXPECT_EQ(found.folder, mnist);
  EXPECT_FALSE(found.is_sample);
  EXPECT_TRUE(found.notice.empty());
}

TEST_F(FindMnist, CacheFolderWithoutXdgIsInTheHomeFolder) {
  const Variable home("HOME", folder.path().string());
  fs::create_directories(folder.path() / ".cache" / "tandem" / "mnist");
  for (const auto& name : names) write_bytes(folder.path() / ".cache" / "tandem" / "mnist" / (name + ".gz"), "");
  for (const auto& xdg :
       {std::optional<std::string>(), std::optional<std::string>(""), std::optional<std::string>("relative")}) {
    const Variable variable("XDG_CACHE_HOME", xdg);
    EXPECT_EQ(find_mnist().folder, folder.path() / ".cache" / "tandem" / "mnist");
  }
}

TEST_F(FindMnist, DownloadsOnFirstUseOnlyAndUnpacks) {
  std::map<std::string, std::string> served;
  for (const auto& name : names) {
    const bool has_images = name.find("images") != std::string::npos;
    const std::string bytes =
        has_images ? testing::idx_bytes({2, 28, 28}, std::string(2 * 28 * 28, 'x')) : testing::idx_bytes({2}, "\1\2");
    served["/mnist/" + name + ".gz"] = testing::gzip(bytes);
  }
  MnistSource source;
  for (const auto& name : names) {
    write_bytes(folder / "file", served["/mnist/" + name + ".gz"]);
    source.md5.push_back(md5_of(folder / "file"));
  }
  HttpServer server([&](const std::string& request) {
    const auto begin = request.find(' ') + 1;
    return HttpServer::answer("200 OK", served.at(request.substr(begin, request.find(' ', begin) - begin)));
  });
  source.mirrors = {server.url() + "mnist/"};
  const MnistFolder first = find_mnist(source);
  EXPECT_EQ(first.folder, mnist);
  EXPECT_FALSE(first.is_sample);
  testing::expect_parts(first.notice, {"downloaded", mnist.string()});
  EXPECT_EQ(server.requests().size(), 4u);
  for (const auto& name : names) EXPECT_TRUE(fs::exists(mnist / name)) << name;
  EXPECT_EQ(Mnist(mnist, Split::train).size(), 2);

  EXPECT_TRUE(find_mnist(source).notice.empty());
  EXPECT_EQ(server.requests().size(), 4u);
}

TEST_F(FindMnist, WithoutANetworkTheSampleAndItIsSaid) {
  const testing::ClosedPort refused;
  const MnistFolder found = find_mnist({.mirrors = {refused.url()}});
  EXPECT_TRUE(found.is_sample);
  testing::expect_parts(found.notice, {"WARNING", "sample", "10,000", "NOT those of MNIST", "less accuracy",
                                       "TANDEM_DATA=FOLDER", "--data FOLDER", refused.url()});
  EXPECT_EQ(Mnist(found.folder, Split::train).size(), 10000);
  EXPECT_EQ(Mnist(found.folder, Split::test).size(), 2000);
  EXPECT_FALSE(fs::exists(mnist / (names[0] + ".gz.part")));
}

TEST_F(FindMnist, AFileThatCannotBeReadIsNotMissing) {
  fs::create_directories(mnist);
  const fs::path file = mnist / names[0];
  fs::create_symlink(file, file);
  EXPECT_ERROR(find_mnist_file(mnist, names[0]), "cannot find out whether", names[0], "exists: Too many levels");
}

TEST_F(FindMnist, WithoutASampleEitherItIsAnError) {
  const testing::ClosedPort refused;
  const Variable variable("TANDEM_SAMPLE", (folder / "none").string());
  EXPECT_ERROR(find_mnist({.mirrors = {refused.url()}}), "cannot be downloaded", "TANDEM_DATA=FOLDER",
               (folder / "none").string(), refused.url());
}

TEST_F(FindMnist, WrongFilesOnTheMirrorsAreNotTaken) {
  HttpServer server([](auto&) { return HttpServer::answer("200 OK", "<html>please log in</html>"); });
  const MnistFolder found = find_mnist({.mirrors = {server.url()}});
  EXPECT_TRUE(found.is_sample);
  testing::expect_parts(found.notice, {"MD5", "f68b3c2dcbeaaa9fbdd348bbdeb94873"});
  EXPECT_EQ(server.requests().at(0).substr(0, 30), "GET /train-images-idx3-ubyte.g");
}

TEST_F(FindMnist, CacheFolderThatCannotBeMadeMeansTheSampleAndItIsSaid) {
  write_bytes(folder / "tandem", "a file where the folder should be");
  const testing::ClosedPort refused;
  const MnistFolder found = find_mnist({.mirrors = {refused.url()}});
  EXPECT_TRUE(found.is_sample);
  testing::expect_parts(found.notice, {"WARNING", "sample", "can't create the folder", mnist.string()});
}

}  // namespace
}  // namespace tandem::data
