#include <tandem/data/mnist.h>

#include <tandem/core/ops.h>
#include <tandem/data/find_mnist.h>
#include <tandem/data/idx.h>

#include <algorithm>
#include <string>
#include <system_error>

namespace tandem::data {
namespace {

namespace fs = std::filesystem;

void check_folder(const fs::path& folder) {
  std::error_code error;
  const auto status = fs::status(folder, error);
  TANDEM_CHECK(status.type() != fs::file_type::not_found, "MNIST folder ", folder.string(),
               " does not exist; give the folder that holds the four MNIST files");
  TANDEM_CHECK(!error, "MNIST folder ", folder.string(), " cannot be examined: ", error.message());
  TANDEM_CHECK(fs::is_directory(status), "MNIST folder ", folder.string(), " is a file, expected a folder");
  fs::directory_iterator(folder, error);
  TANDEM_CHECK(!error, "MNIST folder ", folder.string(), " cannot be read: ", error.message(),
               "; check its permissions");
}

fs::path find_file(const fs::path& folder, const std::string& name) {
  for (const char* below : {"", "raw", "MNIST/raw"})
    if (const auto path = find_mnist_file(folder / below, name); !path.empty()) return path;
  detail::fail("MNIST folder ", folder.string(), " holds neither ", name, " nor ", name,
               ".gz (searched there and in MNIST/raw below it); give the folder that holds the four MNIST files");
}

}  // namespace

Mnist::Mnist(const fs::path& folder, Split split) {
  check_folder(folder);
  const std::string prefix = split == Split::train ? "train" : "t10k";
  const auto images_path = find_file(folder, prefix + "-images-idx3-ubyte");
  const auto labels_path = find_file(folder, prefix + "-labels-idx1-ubyte");

  const Array images = read_idx(images_path);
  TANDEM_CHECK(images.ndim() == 3 && images.dim(1) == height && images.dim(2) == width, "MNIST images ",
               images_path.string(), " have the shape ", images.shape(), ", expected (N, 28, 28)");
  labels_ = read_idx(labels_path);
  TANDEM_CHECK(labels_.ndim() == 1, "MNIST labels ", labels_path.string(), " have the shape ", labels_.shape(),
               ", expected (N)");
  const std::int64_t count = images.dim(0);
  TANDEM_CHECK(count == labels_.dim(0), "MNIST: ", images_path.string(), " holds ", count, " images, but ",
               labels_path.string(), " holds ", labels_.dim(0), " labels; they must belong to the same set");
  TANDEM_CHECK(count > 0, "MNIST: ", images_path.string(), " holds no images");
  const auto* labels = labels_.data<std::uint8_t>();
  const auto* bad = std::find_if(labels, labels + count, [](auto label) { return label >= classes; });
  TANDEM_CHECK(bad == labels + count, "MNIST labels ", labels_path.string(), ": label ", bad - labels, " is ",
               bad == labels + count ? 0 : int{*bad}, ", expected 0 to ", classes - 1);
  images_ = Array(images.storage(), {count, 1, height, width}, contiguous_strides({count, 1, height, width}),
                  images.offset(), DType::u8);
  targets_ = labels_.to(DType::i64);
}

Mnist Mnist::to(Device device) const {
  Mnist moved = *this;
  moved.images_ = images_.to(device);
  moved.labels_ = labels_.to(device);
  moved.targets_ = targets_.to(device);
  return moved;
}

Batch Mnist::get(std::span<const std::int64_t> indices) const { return gather(numbers(indices)); }

Batch Mnist::gather(const Array& indices) const {
  return {ops::gather_normalized(images_, indices), ops::gather_rows(targets_, indices)};
}

}  // namespace tandem::data
