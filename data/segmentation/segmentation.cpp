#include <tandem/data/segmentation/segmentation.h>

#include <tandem/data/images/image_file.h>
#include <tandem/data/images/image_png.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace tandem::data {

namespace {

Sample read_pair(const SegmentationPair& pair, std::int64_t classes) {
  Sample sample{ImageFile(pair.image).read(), MaskFile(pair.mask).read()};
  const Shape image{sample.input.dim(1), sample.input.dim(2)};
  if (image != sample.target.shape()) fail_for_sizes(pair, image, sample.target.shape());
  const auto* labels = sample.target.data<std::uint8_t>();
  for (std::int64_t i = 0; i < sample.target.numel(); ++i)
    if (labels[i] >= classes && labels[i] != void_label) fail_for_label(pair.mask, labels[i], classes);
  return sample;
}

}  // namespace

bool is_void(const Array& masks) {
  const Array labels = masks.to(Device{}).to(DType::i64).contiguous();
  const auto* first = labels.data<std::int64_t>();
  return std::all_of(first, first + labels.numel(), [](std::int64_t label) { return label == void_label; });
}

void fail_for_label(const std::filesystem::path& path, std::int64_t label, std::int64_t classes) {
  detail::fail("the mask ", path.string(), " holds the label ", label, ", expected 0 to ", classes - 1, " or ",
               void_label, " (void)");
}

void fail_for_sizes(const SegmentationPair& pair, const Shape& image, const Shape& mask) {
  detail::fail("the image ", pair.image.string(), " is ", image[0], " high and ", image[1], " wide, but its mask ",
               pair.mask.string(), " is ", mask[0], " high and ", mask[1], " wide; the sizes must be equal");
}

SegmentationFiles::SegmentationFiles(std::vector<SegmentationPair> pairs, std::int64_t classes, Damaged damaged,
                                     int threads)
    : pairs_(std::move(pairs)), classes_(classes) {
  TANDEM_CHECK(!pairs_.empty(), "a data set for segmentation needs at least one pair of image and mask");
  TANDEM_CHECK(classes >= 1 && classes <= void_label, "a mask can hold 1 to ", void_label, " classes, got ", classes);
  if (damaged == Damaged::skip) leave_out_damaged(threads);
}

void SegmentationFiles::leave_out_damaged(int threads) {
  std::vector<std::optional<std::string>> reasons(pairs_.size());
  std::atomic<std::size_t> next = 0;
  const auto check = [&] {
    for (std::size_t i = next++; i < pairs_.size(); i = next++) {
      try {
        read_pair(pairs_[i], classes_);
      } catch (const std::exception& error) {
        reasons[i] = error.what();
      }
    }
  };
  {
    const auto wanted =
        threads > 0 ? static_cast<std::size_t>(threads) : std::max<std::size_t>(1, std::thread::hardware_concurrency());
    std::vector<std::jthread> others;
    try {
      for (std::size_t i = 1; i < std::min(wanted, pairs_.size()); ++i) others.emplace_back(check);
    } catch (const std::system_error&) {  // the system allows no more threads, so the check continues with fewer
    }
    check();
  }
  std::vector<SegmentationPair> good;
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    if (reasons[i]) skipped_.push_back({pairs_[i].name, *reasons[i]});
    else good.push_back(std::move(pairs_[i]));
  }
  TANDEM_CHECK(!good.empty(), "all ", skipped_.size(), " samples are damaged; the first: ", skipped_.front().reason);
  pairs_ = std::move(good);
}

const SegmentationPair& SegmentationFiles::pair(std::int64_t index) const {
  check_number(index);
  return pairs_[static_cast<std::size_t>(index)];
}

Sample SegmentationFiles::sample(std::int64_t index) const { return read_pair(pair(index), classes_); }

}  // namespace tandem::data
