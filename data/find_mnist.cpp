#include <tandem/data/find_mnist.h>

#include <tandem/core/base/check.h>
#include <tandem/data/download/download.h>
#include <tandem/data/idx.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <system_error>

namespace tandem::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                                 "t10k-labels-idx1-ubyte"};
const std::vector<std::string> mnist_md5 = {"f68b3c2dcbeaaa9fbdd348bbdeb94873", "d53e105ee54ea40749a09fcbcd1e9432",
                                            "9fb629c4189551a2d022fa330f9573f3", "ec29112dd5afa0611ce80d1b7f02629c"};
const std::vector<std::string> mnist_mirrors = {"https://ossci-datasets.s3.amazonaws.com/mnist/",
                                                "http://yann.lecun.com/exdb/mnist/"};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool holds(const fs::path& folder, const std::string& name) {
  std::error_code error;
  return fs::exists(folder / name, error) || fs::exists(folder / (name + ".gz"), error);
}

bool holds_all(const fs::path& folder) {
  return std::all_of(std::begin(names), std::end(names), [&](const char* name) { return holds(folder, name); });
}

void download_all(const MnistSource& source, const fs::path& folder) {
  const auto& mirrors = source.mirrors.empty() ? mnist_mirrors : source.mirrors;
  const auto& md5 = source.md5.empty() ? mnist_md5 : source.md5;
  TANDEM_CHECK(md5.size() == std::size(names), "find_mnist: expected ", std::size(names), " MD5 sums, got ",
               md5.size());
  DownloadOptions options;
  options.report = source.report;
  options.max_bytes = std::int64_t{64} << 20;
  options.connect_timeout = std::chrono::seconds(5);  // without a network, the sample comes after 10 s
  options.total_timeout = std::chrono::hours(1);
  for (std::size_t i = 0; i < md5.size(); ++i) {
    const std::string name = names[i];
    if (holds(folder, name)) continue;
    std::vector<std::string> urls;
    for (const auto& mirror : mirrors) urls.push_back(mirror + name + ".gz");
    download(urls, folder / (name + ".gz"), md5[i], options);
    // The files are stored unpacked. To unpack the images at every start would take a process longer than the rest of
    // its start.
    write_idx(folder / name, read_idx(folder / (name + ".gz")));
  }
}

// The folder of the bundled sample: beside the installed program if it is there, otherwise in the source tree.
fs::path bundled_sample() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path installed = program.parent_path().parent_path() / "share/tandem/sample";
  return holds_all(installed) ? installed : fs::path(TANDEM_SAMPLE_DIR);
}

// `seconds` went by until the download failed for `reason`.
MnistFolder sample(const std::string& reason, double seconds) {
  const std::string given = environment("TANDEM_SAMPLE");
  const fs::path folder = given.empty() ? bundled_sample() : fs::path(given);
  TANDEM_CHECK(holds_all(folder), "MNIST cannot be downloaded and the bundled sample is not in ", folder.string(),
               " (TANDEM_SAMPLE names another place); give the folder of the MNIST files with TANDEM_DATA=FOLDER.\n",
               reason);
  return {
      folder, true,
      fmt::format("WARNING: MNIST could not be downloaded ({:.1f} s). Going on with the small sample that comes with "
                  "Tandem: 10,000 training and 2,000 test images.\n",
                  seconds) +
          "Its losses and accuracy are NOT those of MNIST: less accuracy is to be expected of so few images. For the "
          "real data, connect to the network or give the folder of its four files: set TANDEM_DATA=FOLDER, or --data "
          "FOLDER of programs that have it.\n" +
          reason};
}

}  // namespace

MnistFolder find_mnist(const MnistSource& source) {
  if (!source.data.empty()) return {source.data, false, ""};
  if (const std::string data = environment("TANDEM_DATA"); !data.empty()) return {data, false, ""};
  const fs::path folder = cache_folder("mnist");
  if (holds_all(folder)) return {folder, false, ""};

  const auto start = std::chrono::steady_clock::now();
  try {
    download_all(source, folder);
  } catch (const DownloadError& error) {
    return sample(error.what(), std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return {folder, false, "MNIST was downloaded into " + folder.string()};
}

}  // namespace tandem::data
