// A convolution and its gradients as products of matrices, one product for each place of the kernel (a "tap").
//
// Images are channels last. The pixels of an image that one tap sees are then the rows of a matrix, and the weight of a
// tap is a matrix too. These products leave out the taps that see only padding. If dilation spreads the kernel beyond a
// small image, as DeepLabV3's rates do on the last feature map, those are most of the taps. A 1 x 1 kernel is one such
// product, and its weight need not be repacked.
#pragma once

#include <tandem/core/cpu/conv/conv_method.h>

#include <vector>

namespace tandem::cpu {

class TapPanels;

class TapConv final : public ConvMethod {
 public:
  explicit TapConv(const ConvLayer& layer);

  std::string name() const override { return "a product for each tap"; }
  // Returns true for every pass without groups in f32 or bf16, because PlainConv, the only method after this one, is
  // slower.
  bool pays() const override;
  // Returns whether the products are also faster than oneDNN's convolution. oneDNN leaves out padding, too, but loses
  // time on short rows, most of all in the gradient of the weight. For the outputs, but not for the gradients, its 1 x
  // 1 kernels are faster than these products.
  bool beats_onednn() const;
  // Returns the fraction of the multiplications that the products compute: on average, the part of the kernel that does
  // not see only padding.
  double seen_share() const;
  // The same along the height alone, if only whole rows of the kernel that see padding are left out.
  double seen_row_share() const;

  // All arrays are f32 or bf16. Gradients of weights may be f32 or bf16, whatever the dtype of the other arrays is.
  void run(const ConvArrays& arrays) override;

 private:
  // Pixels of an axis: first, first + step, and so on.
  struct Line {
    std::int64_t first, step;
  };
  enum class Side { x, y };
  // Through a tap, `count` outputs on the line y see the inputs on the line x.
  struct Reach {
    Line y, x;
    std::int64_t count;
    Line of(Side side) const { return side == Side::y ? y : x; }
  };
  struct Tap {
    std::int64_t h, w;  // in the kernel
    Reach rows, columns;
  };

  static std::vector<Reach> along(std::int64_t x, std::int64_t y, std::int64_t kernel, std::int64_t stride,
                                  std::int64_t padding, std::int64_t dilation);
  static double share_of(const std::vector<Reach>& reaches, std::int64_t outputs);
  static Array seen(const Array& image, Side side, const Tap& tap);
  bool is_single() const { return rows_.size() * columns_.size() == 1; }
  void sum_weight(const Array& x, const Array& grad_y, const Array& grad_weight) const;
  std::vector<Tap> taps() const;  // those that see more than padding

  // The outputs and the gradient of the input are the same sum: a pixel of the image `to` is the sum over the taps of
  // the pixel that each of them sees of the image `from`, multiplied by the tap's weight. `side` is that of `to`.
  struct Sum {
    Side side;
    const Array &from, &weight;
    const std::optional<Array>& bias;
    const Array& to;
    Side other_side() const { return side == Side::y ? Side::x : Side::y; }
  };
  void add_up(const Sum& sum) const;
  static void run_one(const Sum& sum, const Tap& tap);
  static void run_all(const Sum& sum, std::vector<Tap> seeing);
  // Some rows of `to`, counted through all images.
  struct Rows {
    std::int64_t first, last;
  };
  // Adds what the taps see of `from` to the sums of these rows: (rows, width of `to`, channels of the panel).
  static void add_rows(const Sum& sum, const std::vector<Tap>& seeing, const Array& from, const TapPanels& weights,
                       Rows rows, float* sums);

  std::vector<Reach> rows_, columns_;  // one for each row and column of the kernel
};

}  // namespace tandem::cpu
