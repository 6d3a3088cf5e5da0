// Finds the MNIST files in a given folder or in the cache, downloads them if this build has downloads, or falls back to
// the bundled sample.
#pragma once

#include <tandem/core/base/annex.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tandem {

void add_data_annexes();  // see add_core_annexes()

}  // namespace tandem

namespace tandem::data {

// The folder of the MNIST files. `notice` is a message for the user, and may be empty. A program must print it, because
// it may say that training runs only on the bundled sample.
struct MnistFolder {
  std::filesystem::path folder;
  bool is_sample = false;
  std::string notice;
};

struct MnistSource {
  std::string data = {};                  // --data: used if not empty
  std::vector<std::string> mirrors = {};  // base URLs, tried in order; empty: the well-known ones
  // MD5 sums of the four .gz files: training images and labels, test images and labels; empty: MNIST's.
  std::vector<std::string> md5 = {};
  std::function<void(const std::string&)> report = {};  // gets progress lines; may be empty
};

// Returns the first of these folders that is given or holds the files: source.data; $TANDEM_DATA; the user's cache
// folder, tandem/mnist below $XDG_CACHE_HOME or ~/.cache. On first use the files are downloaded into the cache folder
// and unpacked. If no mirror can be reached, or the cache folder is not writable, the result is the bundled sample
// ($TANDEM_SAMPLE, or its folder in the source tree). If several processes run on one host, one of them should call
// this function first.
MnistFolder find_mnist(const MnistSource& source = {});

// Downloads the missing files into `folder`, or throws an Error with the reason. An annex adds one.
using MnistDownload = void (*)(const MnistSource& source, const std::filesystem::path& folder);
inline constinit AnnexList<MnistDownload> mnist_downloads{add_data_annexes};

inline constexpr const char* mnist_files[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                              "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
// The path of the file in the folder: under its plain name, with .gz appended, or under the name in Kaggle's archive.
// Empty if it is missing.
std::filesystem::path find_mnist_file(const std::filesystem::path& folder, const std::string& name);

}  // namespace tandem::data
