// Downloads the files that data/cifar.h reads.
#pragma once

#include <tandem/data/cifar.h>

#include <filesystem>
#include <functional>
#include <string>

namespace tandem::data {

struct CifarSource {
  std::string base_url = "https://www.cs.toronto.edu/~kriz/";
  std::string md5 = {};                                 // MD5 of the archive; empty: MD5 of the official archive
  std::function<void(const std::string&)> report = {};  // gets progress lines; may be empty
};

// Ensures that `folder` holds the files of `version`. If they are missing, the function downloads the archive into the
// folder and unpacks it. If several processes run on one host, one of them should call this function first. Throws a
// DownloadError if the archive can't be downloaded.
void download_cifar(const std::filesystem::path& folder, Cifar::Version version, const CifarSource& source = {});

}  // namespace tandem::data
