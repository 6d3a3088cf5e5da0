// ConvMethod: one way to compute a convolution or its gradients. Annexes add methods to a list (fast_conv_methods.cpp),
// and PlainConv comes last. conv2d.cpp takes the first method that pays.
//
// The choice is a pure function of the layer, the instructions of the processor, the version of oneDNN, math_mode() and
// the number of threads. It does not depend on measured times, nor on the number of processes: W processes with B / W
// images each must compute the same as one process with B images.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/base/annex.h>
#include <tandem/core/formulas/window.h>

#include <memory>
#include <optional>
#include <string>

namespace tandem::cpu {

enum class ConvPass { outputs, input_gradient, weight_gradient, both_gradients };

// The arrays of a pass, as Backend has them: images are channels last, and weights row-major. A pass uses some of them:
//   outputs           reads x, weight and bias, and writes y;
//   input_gradient    reads y and weight, and writes grad_x;
//   weight_gradient   reads x and y, and writes grad_weight and grad_bias;
//   both_gradients    reads x, y and weight, and writes all gradients.
// In the passes of gradients, y is the gradient of the outputs.
struct ConvArrays {
  Array x = {}, weight = {};
  std::optional<Array> bias = {};
  Array y = {}, grad_x = {}, grad_weight = {};
  std::optional<Array> grad_bias = {};
};

// A layer and a pass: all that the choice of a method may depend on, besides math_mode() and the number of threads.
struct ConvLayer {
  ConvPass pass;
  Window window;
  Shape x, y;  // (N, C, H, W) and (N, O, OH, OW)
  // The dtype of the images and of the weight or its gradient, and that of the bias or its gradient, if there is one.
  DType dtype, y_dtype, weight_dtype;
  std::optional<DType> bias_dtype = {};
  bool add = false;  // whether the gradient of the input is added to what grad_x holds

  // All arrays have `dtype`, and there is no bias.
  ConvLayer(ConvPass pass, const Window& window, const Shape& x, const Shape& y, DType dtype)
      : pass(pass), window(window), x(x), y(y), dtype(dtype), y_dtype(dtype), weight_dtype(dtype) {}
  ConvLayer(ConvPass pass, const Window& window, const ConvArrays& arrays, bool add = false);

  ConvLayer in(DType other) const;
  ConvLayer of(ConvPass other) const;
  // The numbers of channels of x and of y. For the gradient of the input it is the reverse, because that pass reads the
  // channels of y and writes those of x.
  std::int64_t channels_read() const { return pass == ConvPass::input_gradient ? y[1] : x[1]; }
  std::int64_t channels_written() const { return pass == ConvPass::input_gradient ? x[1] : y[1]; }
  bool has_one_dtype_of_images() const { return dtype == y_dtype; }
};

// A method for one layer and pass. The constructor does the work that all calls share. Only one thread at a time may
// use it.
class ConvMethod {
 public:
  explicit ConvMethod(const ConvLayer& layer) : layer_(layer) {}
  virtual ~ConvMethod() = default;

  // Returns the text of a trace if this method computes the pass.
  virtual std::string name() const = 0;
  // Returns what a trace says about this method if another method computes the pass; often an empty string.
  virtual std::string why_not() const { return {}; }
  // Returns whether this method can compute the pass, and is estimated to be faster than every later method in the list
  // that can. choose_conv_method() takes the first method that returns true.
  virtual bool pays() const = 0;
  // Computes the pass for arrays of this layer.
  virtual void run(const ConvArrays& arrays) = 0;

 protected:
  const ConvLayer layer_;
};

// A method that is faster than PlainConv for some layers.
struct FastConvMethod {
  const char* name;  // of its class
  std::unique_ptr<ConvMethod> (*make)(const ConvLayer&);
};
// The methods that are tried before PlainConv, in this order.
inline constinit AnnexList<FastConvMethod> fast_conv_methods{add_core_annexes};

template <class Method>
std::unique_ptr<ConvMethod> make_conv_method(const ConvLayer& layer) {
  return std::make_unique<Method>(layer);
}

// The first method that is worth its cost, and the note about the choice for a trace. `method` is null if both
// gradients are wanted and no method computes them in one pass.
struct ConvChoice {
  std::unique_ptr<ConvMethod> method;
  std::string note;
};
ConvChoice choose_conv_method(const ConvLayer& layer);

// The arrays of a pass in `dtype`. Inputs with a different dtype are converted, and results with a different dtype get
// separate memory. copy_results() copies these results back.
ConvArrays in_dtype(DType dtype, ConvPass pass, const ConvArrays& arrays);
void copy_results(ConvPass pass, const ConvArrays& from, const ConvArrays& to);

// Sums the outputs' gradient over all pixels, if the gradient of a bias is wanted.
void sum_bias(const ConvArrays& arrays);

}  // namespace tandem::cpu
