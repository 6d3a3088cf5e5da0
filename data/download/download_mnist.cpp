// Downloads MNIST from its mirrors, for find_mnist().
#include <tandem/core/base/check.h>
#include <tandem/data/download/download.h>
#include <tandem/data/find_mnist.h>
#include <tandem/data/idx.h>

#include <chrono>

namespace tandem::data {
namespace {

const std::vector<std::string> mnist_md5 = {"f68b3c2dcbeaaa9fbdd348bbdeb94873", "d53e105ee54ea40749a09fcbcd1e9432",
                                            "9fb629c4189551a2d022fa330f9573f3", "ec29112dd5afa0611ce80d1b7f02629c"};
const std::vector<std::string> mnist_mirrors = {"https://ossci-datasets.s3.amazonaws.com/mnist/",
                                                "http://yann.lecun.com/exdb/mnist/"};

void download_all(const MnistSource& source, const std::filesystem::path& folder) {
  const auto& mirrors = source.mirrors.empty() ? mnist_mirrors : source.mirrors;
  const auto& md5 = source.md5.empty() ? mnist_md5 : source.md5;
  TANDEM_CHECK(md5.size() == std::size(mnist_files), "find_mnist: expected ", std::size(mnist_files), " MD5 sums, got ",
               md5.size());
  DownloadOptions options;
  options.report = source.report;
  options.max_bytes = std::int64_t{64} << 20;
  options.connect_timeout = std::chrono::seconds(5);  // without a network, find_mnist() falls back to the sample after
                                                      // 10 s
  options.total_timeout = std::chrono::hours(1);
  for (std::size_t i = 0; i < md5.size(); ++i) {
    const std::string name = mnist_files[i];
    if (!find_mnist_file(folder, name).empty()) continue;
    std::vector<std::string> urls;
    for (const auto& mirror : mirrors) urls.push_back(mirror + name + ".gz");
    download(urls, folder / (name + ".gz"), md5[i], options);
    // The files are stored uncompressed. Decompressing the images at every start would take longer than the rest of the
    // start.
    write_idx(folder / name, read_idx(folder / (name + ".gz")));
  }
}

}  // namespace
}  // namespace tandem::data

namespace tandem {

void add_mnist_download() { data::mnist_downloads.add(data::download_all); }

}  // namespace tandem
