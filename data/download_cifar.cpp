#include <tandem/data/download_cifar.h>

#include <tandem/data/download/archive.h>
#include <tandem/data/download/download.h>

namespace tandem::data {

void download_cifar(const std::filesystem::path& folder, Cifar::Version version, const CifarSource& source) {
  const bool is_10 = version == Cifar::Version::cifar10;
  const std::string name = is_10 ? "cifar-10-binary.tar.gz" : "cifar-100-binary.tar.gz";
  const std::string md5 = is_10 ? "c32a1d4ab5d03f1284b67883e8d87530" : "03b5dce01913d631647c71ecec9e9cb8";
  const std::filesystem::path archive = folder / name;
  const auto is_done = [&] { return !is_half_unpacked(archive, folder) && Cifar::is_in(folder, version); };
  if (is_done()) return;
  download({source.base_url + name}, archive, source.md5.empty() ? md5 : source.md5,
           {.max_bytes = std::int64_t{1} << 30, .report = source.report});
  extract_archive(archive, folder, is_done);
}

}  // namespace tandem::data
