// The gradients of a convolution as products of matrices, one for each place of the kernel ("tap").
//
// Channels last, the pixels of an image that one tap sees are the rows of a matrix, and its weight is a matrix too.
// That leaves out what only padding is multiplied with: most of the kernel where dilation spreads it further than a
// small image reaches (DeepLabV3's rates on the last feature map). A 1 x 1 kernel is one such product, which needs no
// weight repacked.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/device/backend.h>

#include <vector>

namespace tandem::cpu {

class ConvTaps {
 public:
  ConvTaps(const Window& window, const Shape& x, const Shape& y);

  // No groups, and no f64.
  bool can(DType dtype) const { return window_.groups == 1 && dtype != DType::f64; }
  // Whether products beat a library's convolution, which leaves out some of the padding for the input's gradient, and
  // none of it for the weight's.
  bool pay_for_input() const { return is_single() || share() <= 0.5; }
  bool pay_for_weight() const { return is_single() || share() <= 0.75; }
  // What is left to multiply: the part of the kernel that sees more than padding, on average.
  double share() const;

  // Arguments as in Backend; all arrays of f32 or bf16, except that gradients of weights may be either.
  void grad_input(const Array& grad_y, const Array& weight, const Array& grad_x) const;
  void grad_weight(const Array& x, const Array& grad_y, const Array& grad_weight) const;

 private:
  // Outputs [first_y, first_y + count) of an axis see inputs first_x, first_x + stride, ... through a tap.
  struct Reach {
    std::int64_t first_y, first_x, count;
  };
  static std::vector<Reach> along(std::int64_t x, std::int64_t y, std::int64_t kernel, std::int64_t stride,
                                  std::int64_t padding, std::int64_t dilation);
  bool is_single() const { return rows_.size() * columns_.size() == 1; }
  template <class F>
  void for_each_tap(F f) const;
  bool sees_all_of_x(const Reach& h, const Reach& w) const;
  Array seen_of_x(const Array& x, const Reach& h, const Reach& w) const;
  Array seen_of_y(const Array& y, const Reach& h, const Reach& w) const;

  const Window& window_;
  const Shape &x_, &y_;
  std::vector<Reach> rows_, columns_;  // of each row and column of the kernel
};

}  // namespace tandem::cpu
