// Finds the MNIST files: in a given folder, in the cache, by a download where this build has them, or in the
// bundled sample.
#pragma once

#include <tandem/core/base/annex.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tandem {

void add_data_annexes();  // as add_core_annexes()

}  // namespace tandem

namespace tandem::data {

// The folder of the MNIST files. `notice` is a text for people, and may be empty. A program must print it, because it
// may say that training would run on the bundled sample only.
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

// Takes the first of these folders: source.data; $TANDEM_DATA; the user's cache folder, tandem/mnist below
// $XDG_CACHE_HOME or ~/.cache. On first use the files are downloaded into the cache folder and unpacked. When no mirror
// can be reached, or the cache folder can't be written, the folder is the sample that comes with Tandem
// ($TANDEM_SAMPLE, or its place in the source tree). When several processes run on one host, one of them should call
// this function first.
MnistFolder find_mnist(const MnistSource& source = {});

// Downloads the missing files into `folder`, or throws an Error that says why it can't. An annex adds one.
using MnistDownload = void (*)(const MnistSource& source, const std::filesystem::path& folder);
AnnexList<MnistDownload>& mnist_downloads();

inline constexpr const char* mnist_files[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                              "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
// The path of the file in the folder: as it is, with .gz behind its name, or as Kaggle's archive has it. Empty: it is
// not there.
std::filesystem::path find_mnist_file(const std::filesystem::path& folder, const std::string& name);

}  // namespace tandem::data
