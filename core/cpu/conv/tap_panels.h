// TapPanels: the weight of a convolution, or its gradient, in the layout for matrix products: outputs innermost.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/cpu/conv/tile_products.h>
#include <tandem/core/formulas/window.h>

#include <algorithm>

namespace tandem::cpu {

// A weight (outputs, inputs, kernel h, kernel w), f32 and row-major. If it is rotated, it is (inputs, outputs, kernel
// h, kernel w), and the kernels are rotated by half a turn, as for the gradient of the input.
struct Kernels {
  Array weight;
  bool is_rotated;

  std::int64_t taps() const { return weight.dim(2) * weight.dim(3); }
};

// The taps of some outputs and inputs, with the outputs innermost, in panels: (panels, inputs, kernel h * kernel w,
// width). The last panel is padded with zeros.
class TapPanels {
 public:
  struct Range {
    std::int64_t first, count;
  };
  TapPanels(const Kernels& kernels, Range outputs, Range inputs);

  std::int64_t panels() const { return (outputs_.count + width_ - 1) / width_; }
  std::int64_t numbers() const { return panels() * panel_numbers(); }
  void use(float* memory) { memory_ = memory; }
  // read() copies a panel from the weight to memory, and write() copies it back. clear() sets it to zero.
  void read(std::int64_t panel) const;
  void write(std::int64_t panel) const;
  void clear(std::int64_t panel) const { std::fill_n(at(panel, 0), panel_numbers(), 0.0f); }

  bool is_rotated() const { return kernels_.is_rotated; }
  Extent kernel() const { return {kernels_.weight.dim(2), kernels_.weight.dim(3)}; }
  std::int64_t width() const { return width_; }
  float* at(std::int64_t panel, std::int64_t input) const {
    return memory_ + panel * panel_numbers() + input * taps_ * width_;
  }

 private:
  std::int64_t panel_numbers() const { return inputs_.count * taps_ * width_; }
  Range outputs_of(std::int64_t panel) const {
    const std::int64_t first = panel * width_;
    return {outputs_.first + first, std::min(width_, outputs_.count - first)};
  }
  std::int64_t row() const { return kernels_.weight.strides()[0]; }  // numbers from one row of the weight to the next

  Kernels kernels_;
  Range outputs_, inputs_;
  std::int64_t taps_, width_;
  float* memory_ = nullptr;
};

}  // namespace tandem::cpu
