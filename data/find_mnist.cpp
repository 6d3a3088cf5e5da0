#include <tandem/data/find_mnist.h>

#include <tandem/core/check.h>
#include <tandem/data/download.h>

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

namespace tandem::data {
namespace {

namespace fs = std::filesystem;

struct File {
  const char* name;
  const char* md5;
};
constexpr File files[] = {
    {"train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"},
    {"train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"},
    {"t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"},
    {"t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"},
};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

fs::path cache_folder() {
  fs::path base = environment("XDG_CACHE_HOME");
  // The XDG specification: a relative path is to be ignored.
  if (base.is_relative()) {
    std::string home = environment("HOME");
    if (home.empty()) {
      const passwd* user = ::getpwuid(::getuid());
      TANDEM_CHECK(user != nullptr && user->pw_dir != nullptr,
                   "MNIST: no home folder to keep the downloaded files in; set HOME, or give their folder");
      home = user->pw_dir;
    }
    base = fs::path(home) / ".cache";
  }
  return base / "tandem" / "mnist";
}

bool holds_all(const fs::path& folder) {
  return std::all_of(std::begin(files), std::end(files), [&](const File& file) {
    std::error_code error;
    const fs::path compressed = folder / file.name;
    return fs::exists(compressed, error) || fs::exists(folder / compressed.stem(), error);
  });
}

MnistFolder sample(const std::string& reason) {
  const std::string given = environment("TANDEM_SAMPLE");
  const fs::path folder = given.empty() ? fs::path(TANDEM_SAMPLE_DIR) : fs::path(given);
  TANDEM_CHECK(holds_all(folder), "MNIST cannot be downloaded and the bundled sample is not in ",
               folder.string(), " (TANDEM_SAMPLE names another place); give the folder of the MNIST files.\n",
               reason);
  return {folder, true,
          "WARNING: MNIST could not be downloaded. Going on with the small sample that comes with Tandem: "
          "10,000 training and "
          "2,000 test images.\nIts losses and accuracy are NOT those of MNIST. For the real data, connect to "
          "the network or "
          "give the folder of its four files.\n" +
              reason};
}

}  // namespace

MnistFolder find_mnist(const MnistSource& source) {
  if (!source.data.empty()) return {source.data, false, ""};
  if (const std::string data = environment("TANDEM_DATA"); !data.empty()) return {data, false, ""};
  const fs::path folder = cache_folder();
  if (holds_all(folder)) return {folder, false, ""};

  auto mirrors = source.mirrors;
  if (mirrors.empty())
    mirrors = {"https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/"};
  DownloadOptions options;
  options.report = source.report;
  try {
    for (const auto& file : files) {
      std::vector<std::string> urls;
      for (const auto& mirror : mirrors) urls.push_back(mirror + file.name);
      download(urls, folder / file.name, file.md5, options);
    }
  } catch (const DownloadError& error) {
    return sample(error.what());
  }
  return {folder, false, "MNIST was downloaded into " + folder.string()};
}

}  // namespace tandem::data
