#include <tandem/core/cpu/conv/onednn_conv.h>
#include <tandem/core/cpu/conv/tap_conv.h>
#include <tandem/core/cpu/onednn_faults.h>
#include <tandem/core/cpu/onednn_plan.h>

#include <string_view>
#include <utility>

namespace tandem::cpu {

namespace {

using namespace onednn;
using Tag = memory::format_tag;
constexpr auto direct = dnnl::algorithm::convolution_direct;
constexpr auto f32 = memory::data_type::f32;

// Describes a layer to oneDNN. Its fastest kernels are for its blocked layout of images. With one channel, or with
// exactly one vector of channels (16 in AVX-512), the blocked layout is the same memory as channels last.
struct Description {
  const ConvLayer& layer;
  bool blocked;

  static bool can_block(const ConvLayer& layer) {
    const auto fits = [](std::int64_t channels) { return channels == 1 || channels == 16; };
    return has_avx512() && fits(layer.x[1]) && fits(layer.y[1]);
  }
  memory::desc image(const Shape& shape) const {
    const Tag tag = !blocked ? Tag::nhwc : shape[1] == 1 ? Tag::nchw : Tag::nChw16c;
    return {dims_of(shape), type_of(layer.dtype), tag};
  }
  memory::desc x() const { return image(layer.x); }
  memory::desc y() const { return image(layer.y); }
  // The weight in the caller's layout, and in the layout that oneDNN prefers. With groups, oneDNN requires an
  // additional dimension.
  memory::dims weight_dims() const {
    const auto& [kernel, stride, padding, dilation, groups] = layer.window;
    if (groups == 1) return {layer.y[1], layer.x[1], kernel.h, kernel.w};
    return {groups, layer.y[1] / groups, layer.x[1] / groups, kernel.h, kernel.w};
  }
  memory::desc weight() const {
    return {weight_dims(), type_of(layer.weight_dtype), layer.window.groups == 1 ? Tag::oihw : Tag::goihw};
  }
  memory::desc any_weight(memory::data_type type) const { return {weight_dims(), type, Tag::any}; }
  memory::desc bias() const { return layer.bias_dtype ? memory::desc({layer.y[1]}, f32, Tag::a) : memory::desc(); }

  auto forward() const {
    constexpr auto kind = dnnl::prop_kind::forward_training;
    const auto weight = any_weight(type_of(layer.dtype));
#if DNNL_VERSION_MAJOR >= 3
    return dnnl::convolution_forward::primitive_desc(engine(), kind, direct, x(), weight, bias(), y(), stride(),
                                                     dilation(), padding(), padding());
#else
    return dnnl::convolution_forward::primitive_desc(
        {kind, direct, x(), weight, bias(), y(), stride(), dilation(), padding(), padding()}, engine());
#endif
  }
  // Describes a gradient. The arguments are in the order of the primitive's.
  template <class Primitive, class... Arguments>
  auto gradient(const Arguments&... arguments) const {
#if DNNL_VERSION_MAJOR >= 3
    return typename Primitive::primitive_desc(engine(), direct, arguments..., stride(), dilation(), padding(),
                                              padding(), forward());
#else
    return typename Primitive::primitive_desc({direct, arguments..., stride(), dilation(), padding(), padding()},
                                              engine(), forward());
#endif
  }

 private:
  memory::dims stride() const { return {layer.window.stride.h, layer.window.stride.w}; }
  memory::dims dilation() const { return {layer.window.dilation.h - 1, layer.window.dilation.w - 1}; }
  memory::dims padding() const { return {layer.window.padding.h, layer.window.padding.w}; }
};

// Returns what describe(description) returns for the first layout of the images for which oneDNN has a kernel. If one
// of the images has blocks of 16 channels and the other has a single channel, oneDNN has no kernel for most passes.
template <class Describe>
auto with_kernel(const ConvLayer& layer, Describe describe) {
  const auto in_layout = [&](Description description) {
    auto found = describe(description);
    refuse(found, "ref");
    return std::pair(std::move(found), description);
  };
  if (!Description::can_block(layer)) return in_layout({layer, false});
  try {
    return in_layout({layer, true});
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented) throw;
    return in_layout({layer, false});
  }
}

// If the kernel is dilated and there are no groups, TapConv computes gradients faster than code that multiplies all of
// the padding.
template <class Desc>
void refuse_padding(const ConvLayer& layer, const Desc& found) {
  if (layer.window.groups == 1 && layer.window.dilation != Extent(1)) refuse(found, "x64:gemm");
}

void plan_outputs(const ConvLayer& layer, Plan& plan) {
  const auto [found, as] = with_kernel(layer, [&](const Description& description) {
    const auto forward = description.forward();
    // For some kernels with a reach of 9 pixels or more and a narrower image, this kernel of oneDNN reads memory that
    // was never written. All kernels with a reach of up to 7 pixels were tested.
    const std::int64_t reach = (layer.window.kernel.w - 1) * layer.window.dilation.w + 1;
    if (reach > 7 && reach > layer.x[3] && has(Fault::wide_forward)) refuse(forward, "brgconv");
    return forward;
  });
  plan.set_primitive(dnnl::convolution_forward(found));
  plan.add_input(DNNL_ARG_SRC, as.x(), found.src_desc());
  plan.add_input(DNNL_ARG_WEIGHTS, as.weight(), found.weights_desc());
  plan.add_output(DNNL_ARG_DST, as.y(), found.dst_desc());
  if (layer.bias_dtype) plan.add_input(DNNL_ARG_BIAS, as.bias(), found.bias_desc());
}

void plan_input_gradient(const ConvLayer& layer, Plan& plan) {
  using Gradient = dnnl::convolution_backward_data;
  const auto [found, as] = with_kernel(layer, [&](const Description& d) {
    return d.gradient<Gradient>(d.x(), d.any_weight(type_of(layer.dtype)), d.y());
  });
  refuse_padding(layer, found);
  plan.set_primitive(Gradient(found));
  plan.add_input(DNNL_ARG_DIFF_DST, as.y(), found.diff_dst_desc());
  plan.add_input(DNNL_ARG_WEIGHTS, as.weight(), found.weights_desc());
  plan.add_output(DNNL_ARG_DIFF_SRC, as.x(), found.diff_src_desc());
}

void plan_weight_gradient(const ConvLayer& layer, Plan& plan) {
  using Gradient = dnnl::convolution_backward_weights;
  const auto [found, as] = with_kernel(layer, [&](const Description& d) {
    return d.gradient<Gradient>(d.x(), d.any_weight(f32), d.bias(), d.y());  // sums of 16-bit numbers are f32
  });
  refuse_padding(layer, found);
  plan.set_primitive(Gradient(found));
  plan.add_input(DNNL_ARG_SRC, as.x(), found.src_desc());
  plan.add_input(DNNL_ARG_DIFF_DST, as.y(), found.diff_dst_desc());
  plan.add_output(DNNL_ARG_DIFF_WEIGHTS, as.weight(), found.diff_weights_desc());
  if (layer.bias_dtype) plan.add_output(DNNL_ARG_DIFF_BIAS, as.bias(), found.diff_bias_desc());
}

class OneDnnConv final : public ConvMethod {
 public:
  explicit OneDnnConv(const ConvLayer& layer) : ConvMethod(layer) {
    if (!can() || TapConv(layer).beats_onednn()) return;
    plan_ = make_plan([&](Plan& plan) {
      if (layer.pass == ConvPass::outputs) plan_outputs(layer, plan);
      else if (layer.pass == ConvPass::input_gradient) plan_input_gradient(layer, plan);
      else plan_weight_gradient(layer, plan);
    });
  }

  std::string name() const override { return "oneDNN"; }
  bool pays() const override { return plan_.has_value(); }
  void run(const ConvArrays& a) override {
    switch (layer_.pass) {
      case ConvPass::outputs: {
        const Array bias = a.bias ? a.bias->contiguous() : Array();
        return plan_->execute({a.x.raw(), a.weight.raw(), a.y.raw(), a.bias ? bias.raw() : nullptr});
      }
      case ConvPass::input_gradient: return plan_->execute({a.y.raw(), a.weight.raw(), a.grad_x.raw()});
      default:
        return plan_->execute({a.x.raw(), a.y.raw(), a.grad_weight.raw(), a.grad_bias ? a.grad_bias->raw() : nullptr});
    }
  }

 private:
  bool can() const {
    const auto& [kernel, stride, padding, dilation, groups] = layer_.window;
    if (layer_.pass == ConvPass::input_gradient && layer_.dtype == DType::bf16 && kernel == Extent(1) &&
        layer_.y[1] / groups % 2 != 0 && has(Fault::odd_outputs_bf16))
      return false;
    return layer_.pass != ConvPass::both_gradients && supported(layer_.dtype) && layer_.has_one_dtype_of_images() &&
           supported(layer_.weight_dtype) && layer_.bias_dtype.value_or(DType::f32) == DType::f32;
  }

  std::optional<Plan> plan_;
};

// Returns oneDNN's slowdown over what its products alone would cost, for outputs and the gradient of the weight. oneDNN
// reads the weight for each row of outputs. If the weight is larger than a cache (1 MiB), oneDNN waits for it in rows
// shorter than 7 pixels: measured with 64 to 512 channels on an Intel Xeon. Its kernels for the gradient of the input
// do not wait.
double slowdown(const ConvLayer& layer) {
  const auto& [kernel, stride, padding, dilation, groups] = layer.window;
  const std::int64_t weight = kernel.h * kernel.w * layer.x[1] * layer.y[1], width = layer.y[3];
  const bool waits = layer.pass != ConvPass::input_gradient && weight > 1 << 18 && width < 7;
  return waits ? 7 / static_cast<double>(width) : 1;
}

}  // namespace

std::unique_ptr<ConvMethod> make_onednn_conv(const ConvLayer& layer) { return std::make_unique<OneDnnConv>(layer); }

bool onednn_sums_bf16_correctly(const ConvLayer& layer) {
  const Window& window = layer.window;
  return (window.dilation == Extent(1) && layer.x[2] >= window.kernel.h && layer.x[3] >= window.kernel.w) ||
         !has(Fault::weight_sums_bf16);
}

double onednn_share(const ConvLayer& layer, const TapConv& taps) {
  return slowdown(layer) * (layer.window.dilation.w > 1 ? taps.seen_share() : taps.seen_row_share());
}

}  // namespace tandem::cpu
