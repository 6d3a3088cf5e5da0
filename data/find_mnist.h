// Where the MNIST files are: given, cached, downloaded or the bundled sample.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tandem::data {

// Where the MNIST files are. `notice` is for people, empty where there is nothing to say; a program must
// print it, for it tells that training would run on the bundled sample only.
struct MnistFolder {
  std::filesystem::path folder;
  bool is_sample = false;
  std::string notice;
};

struct MnistSource {
  std::string data = {};                  // --data: this folder if not empty
  std::vector<std::string> mirrors = {};  // base URLs, tried in order; empty: the well-known ones
  // MD5 of the four .gz files: training images and labels, test images and labels; empty: those of MNIST.
  std::vector<std::string> md5 = {};
  std::function<void(const std::string&)> report = {};  // gets progress lines; may be empty
};

// `source.data`, else $TANDEM_DATA, else the user's cache folder ($XDG_CACHE_HOME or ~/.cache, then tandem/mnist), into
// which the files are downloaded on first use and unpacked; else, where no mirror can be reached, the sample that comes
// with Tandem ($TANDEM_SAMPLE or its place in the source tree). Of several processes on one host one should call this
// first.
MnistFolder find_mnist(const MnistSource& source = {});

}  // namespace tandem::data
