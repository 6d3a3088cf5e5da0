#include <tandem/data/cifar.h>

#include <tandem/core/io/file_system.h>
#include <tandem/core/io/input_file.h>
#include <tandem/core/ops.h>

#include <algorithm>
#include <string>

namespace tandem::data {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t side = 32, pixels = 3 * side * side;

struct Layout {
  const char* folder;
  const char* archive;
  std::int64_t classes;
  int label_bytes;  // bytes per label; the last of them is the class
  std::vector<std::string> train, test;
};

const Layout& layout_of(Cifar::Version version) {
  static const Layout cifar10{
      "cifar-10-batches-bin",
      "cifar-10-binary.tar.gz",
      10,
      1,
      {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
      {"test_batch.bin"}};
  static const Layout cifar100{"cifar-100-binary", "cifar-100-binary.tar.gz", 100, 2, {"train.bin"}, {"test.bin"}};
  return version == Cifar::Version::cifar10 ? cifar10 : cifar100;
}

// Returns an empty path if the file is missing.
fs::path find_file(const fs::path& folder, const Layout& layout, const std::string& name) {
  for (const fs::path& candidate : {folder / name, folder / layout.folder / name}) {
    if (is_there(candidate)) return candidate;
  }
  return {};
}

std::string read_file(const fs::path& path) {
  const InputFile file(path, "CIFAR file");
  return file.read(file.size(), 0);
}

}  // namespace

Cifar::Cifar(const fs::path& folder, Version version, Split split) {
  const Layout& layout = layout_of(version);
  classes_ = layout.classes;
  const auto record = static_cast<std::size_t>(layout.label_bytes + pixels);
  std::string all;
  for (const std::string& name : split == Split::train ? layout.train : layout.test) {
    const fs::path path = find_file(folder, layout, name);
    TANDEM_CHECK(!path.empty(), "CIFAR folder ", folder.string(), " does not contain ", name,
                 " (searched there and in ", layout.folder, " below it); unpack ", layout.archive,
                 " there, or call download_cifar in a build with downloads");
    const std::string bytes = read_file(path);
    TANDEM_CHECK(!bytes.empty() && bytes.size() % record == 0, "CIFAR file ", path.string(), " has ", bytes.size(),
                 " bytes, which is not a multiple of the sample size, ", record,
                 " bytes; it is damaged or another kind of file");
    all += bytes;
  }
  const auto count = static_cast<std::int64_t>(all.size() / record);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(all.data());
  std::vector<std::int64_t> labels;
  Array planes = Array::empty({count, 3, side, side}, DType::u8);
  for (std::int64_t i = 0; i < count; ++i, bytes += record) {
    labels.push_back(bytes[layout.label_bytes - 1]);
    TANDEM_CHECK(labels.back() < classes_, "CIFAR: sample ", i, " has the label ", labels.back(), ", expected 0 to ",
                 classes_ - 1);
    std::copy_n(bytes + layout.label_bytes, pixels, planes.data<std::uint8_t>() + i * pixels);
  }
  images_ = planes.channels_last();
  labels_ = Array::from(labels, {count});
}

bool Cifar::is_in(const fs::path& folder, Version version) {
  const Layout& layout = layout_of(version);
  const auto is_there = [&](const std::string& name) { return !find_file(folder, layout, name).empty(); };
  return std::ranges::all_of(layout.train, is_there) && std::ranges::all_of(layout.test, is_there);
}

Sample Cifar::sample(std::int64_t index) const {
  check_number(index);
  return {images_.select(0, index), labels_.select(0, index)};
}

Batch Cifar::get(std::span<const std::int64_t> indices) const { return gather(numbers(indices)); }

Cifar Cifar::to(Device device) const {
  Cifar moved = *this;
  moved.images_ = images_.to(device);
  moved.labels_ = labels_.to(device);
  return moved;
}

Batch Cifar::gather(const Array& indices) const {
  return {ops::gather_normalized(images_, indices), ops::gather_rows(labels_, indices)};
}

}  // namespace tandem::data
