#include <tandem/data/segmentation/segmentation_classes.h>

#include <tandem/core/formulas/resize.h>
#include <tandem/core/ops.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace tandem::data {

namespace {

// The numbers of a stripe stay in the processor's cache: 4 MiB of f32.
constexpr std::int64_t stripe_numbers = 1 << 20;

}  // namespace

Array classes_at(const Array& logits, std::int64_t height, std::int64_t width) {
  TANDEM_CHECK(logits.defined() && logits.ndim() == 4 && logits.dim(0) == 1 && logits.dim(1) <= 256 &&
                   logits.numel() > 0 && height > 0 && width > 0,
               "classes_at: expected logits (1, C, h, w) of at most 256 classes and a size of at least 1 x 1, got ",
               logits.defined() ? logits.shape() : Shape{}, " and ", height, " x ", width);
  if (logits.dim(2) == height && logits.dim(3) == width)
    return ops::argmax(logits, 1).select(0, 0).to(Device{}).to(DType::u8).contiguous();
  const Array source = logits.to(DType::f32);
  const Resize how{.mode = Interpolation::bilinear};
  const auto down = how.h<float>(source.dim(2), height);
  const std::int64_t rows = std::clamp<std::int64_t>(stripe_numbers / (source.dim(1) * width), 1, height);
  const Array classes = Array::empty({height, width}, DType::u8);
  for (std::int64_t top = 0; top < height; top += rows) {
    const std::int64_t count = std::min(rows, height - top);
    std::vector<std::int64_t> upper, lower;
    std::vector<float> upper_weight, lower_weight;
    const std::int64_t first = down.taps(top).i0, last = down.taps(top + count - 1).i1;
    for (std::int64_t y = top; y < top + count; ++y) {
      const auto taps = down.taps(y);
      upper.push_back(taps.i0 - first);
      lower.push_back(taps.i1 - first);
      upper_weight.push_back(taps.weight0);
      lower_weight.push_back(taps.weight1);
    }
    // First resize the columns, in the source rows that the stripe needs. Then compute each row of the stripe from two
    // of these rows. Classes are adjacent in memory.
    const std::int64_t needed = last - first + 1;
    const Array wide = ops::resize(source.narrow(2, first, needed), Extent(needed, width), how)
                           .permute({0, 2, 3, 1})
                           .reshape({needed, width, source.dim(1)});
    const auto weighted = [&](const std::vector<std::int64_t>& index, const std::vector<float>& weight) {
      return ops::zip(functors::Mul{}, ops::index_select(wide, 0, Array::from(index, {count}).to(wide.device())),
                      Array::from(weight, {count, 1, 1}).to(wide.device()));
    };
    const Array stripe = ops::zip(functors::Add{}, weighted(upper, upper_weight), weighted(lower, lower_weight));
    const Array found = ops::argmax(stripe, 2).to(Device{}).to(DType::u8).contiguous();
    std::memcpy(classes.data<std::uint8_t>() + top * width, found.data<std::uint8_t>(),
                static_cast<std::size_t>(count * width));
  }
  return classes;
}

}  // namespace tandem::data
