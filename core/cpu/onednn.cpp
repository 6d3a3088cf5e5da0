#include <tandem/core/cpu/onednn.h>
#include <tandem/core/cpu/onednn_faults.h>
#include <tandem/core/device/plan_cache.h>

#include <omp.h>

#include <dnnl.hpp>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace tandem::onednn {

namespace {

using dnnl::memory;
using Tag = memory::format_tag;

const dnnl::engine& engine() {
  static auto* instance = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *instance;
}

dnnl::stream& stream() {
  thread_local dnnl::stream instance(engine());
  return instance;
}

// A oneDNN primitive. For each of its arguments there is the caller's layout and, where the primitive wants another
// layout, a packed copy.
class Plan {
 public:
  void set_primitive(dnnl::primitive primitive) { primitive_ = std::move(primitive); }

  void add_input(int id, const memory::desc& theirs, const memory::desc& wanted) {
    Argument argument{id, unbound(theirs), {}, 0, {}, false};
    if (theirs != wanted) {
      argument.packed_bytes = static_cast<std::int64_t>(wanted.get_size());
      argument.packed = unbound(wanted);
      argument.move = dnnl::reorder(argument.caller, argument.packed);
    }
    arguments_.push_back(std::move(argument));
  }

  void add_output(int id, const memory::desc& theirs, const memory::desc& made) {
    Argument argument{id, unbound(theirs), {}, 0, {}, true};
    if (theirs != made) {
      argument.packed_bytes = static_cast<std::int64_t>(made.get_size());
      argument.packed = unbound(made);
      argument.move = dnnl::reorder(argument.packed, argument.caller);
    }
    arguments_.push_back(std::move(argument));
  }

  // `data` holds the addresses of the caller's arrays, in the order in which the arguments were added.
  void execute(std::initializer_list<void*> data) {
    auto pointer = data.begin();
    std::unordered_map<int, memory> bound;
    std::vector<Array> scratch;  // memory from the cache: the next operations will use it again
    for (auto& a : arguments_) {
      a.caller.set_data_handle(*pointer++);
      if (a.packed) {
        a.packed.set_data_handle(scratch.emplace_back(Array::empty({a.packed_bytes}, DType::u8)).raw());
        if (!a.is_output) a.move.execute(stream(), a.caller, a.packed);
      }
      bound.emplace(a.id, a.packed ? a.packed : a.caller);
    }
    primitive_.execute(stream(), bound);
    for (auto& a : arguments_)
      if (a.packed && a.is_output) a.move.execute(stream(), a.packed, a.caller);
    stream().wait();
  }

 private:
  struct Argument {
    int id;
    memory caller, packed;
    std::int64_t packed_bytes;
    dnnl::reorder move;
    bool is_output;
  };
  static memory unbound(const memory::desc& desc) { return memory(desc, engine(), nullptr); }

  dnnl::primitive primitive_;
  std::vector<Argument> arguments_;
};

// The plan for `key`. On the first call `build` makes it, and this thread keeps it. nullptr when oneDNN has no
// implementation.
template <class Build>
Plan* plan_for(PlanKey key, Build build) {
  thread_local PlanCache<std::optional<Plan>, 1024> plans;  // each has machine code of its own
  key.back() = omp_get_max_threads();  // a primitive divides its work among threads when it is made
  auto& plan = plans.get(key, [&] {
    auto made = std::make_unique<std::optional<Plan>>(std::in_place);
    try {
      build(**made);
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented && error.status != dnnl_invalid_arguments)
        detail::fail("oneDNN: ", error.what());
      made->reset();
    }
    return made;
  });
  return plan ? &*plan : nullptr;
}

bool supported(DType dtype) { return dtype == DType::f32 || (dtype == DType::bf16 && has_avx512()); }

memory::data_type type_of(const Array& a) {
  return a.dtype() == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

memory::dims dims_of(const Array& a) { return {a.shape().begin(), a.shape().end()}; }

// How the two images of a convolution, (N, C, H, W), are described to oneDNN. Its fastest kernels are those for its
// blocked layout. With one channel, or with exactly one vector of channels (16 in AVX-512), the blocked layout is the
// same memory as channels last.
struct ImageLayout {
  bool blocked;
  static bool can_block(const Array& a, const Array& b) {
    const auto fits = [](const Array& image) { return image.dim(1) == 1 || image.dim(1) == 16; };
    return has_avx512() && fits(a) && fits(b);
  }
  memory::desc operator()(const Array& a) const {
    const Tag tag = !blocked ? Tag::nhwc : a.dim(1) == 1 ? Tag::nchw : Tag::nChw16c;
    return {dims_of(a), type_of(a), tag};
  }
};
// The dimensions of a weight. With groups, oneDNN wants a further dimension for them.
memory::dims weight_dims(const Array& a, std::int64_t groups) {
  if (groups == 1) return dims_of(a);
  return {groups, a.dim(0) / groups, a.dim(1), a.dim(2), a.dim(3)};
}
memory::desc weight_desc(const Array& a, std::int64_t groups) {
  return {weight_dims(a, groups), type_of(a), groups == 1 ? Tag::oihw : Tag::goihw};
}
memory::desc any_weight(const Array& a, std::int64_t groups, memory::data_type type) {
  return {weight_dims(a, groups), type, Tag::any};
}
memory::desc bias_desc(const std::optional<Array>& a) {
  return a ? memory::desc(dims_of(*a), memory::data_type::f32, Tag::a) : memory::desc();
}

PlanKey conv_key(int kind, const Array& image, const Array& weight, bool bias, const Window& w, const Array& other) {
  const Shape &i = image.shape(), &k = weight.shape(), &o = other.shape();
  return {kind,
          static_cast<int>(image.dtype()),
          static_cast<int>(weight.dtype()),
          bias,
          i[0],
          i[1],
          i[2],
          i[3],
          k[0],
          k[1],
          k[2],
          k[3],
          o[2],
          o[3],
          w.stride.h,
          w.stride.w,
          w.padding.h,
          w.padding.w,
          w.dilation.h,
          w.dilation.w,
          w.groups};
}

// Whether the kernel is dilated and has no groups. cpu::ConvTaps computes the gradients of such a convolution faster
// than code that multiplies with all of the padding.
bool spreads(const Window& window) { return window.groups == 1 && window.dilation != Extent(1); }

// Refuses an implementation of oneDNN that is wrong, or so slow that other code of this folder beats it. "ref" are its
// own loops, for what it has no kernel for: they take up to 150 times as long.
template <class Desc>
void refuse(const Desc& desc, std::string_view implementation) {
  if (std::string_view(desc.impl_info_str()).starts_with(implementation))
    throw dnnl::error(dnnl_unimplemented, "an implementation that is slow or wrong");
}

// What a convolution asks oneDNN for, in the first layout of its images `a` and `b` for which oneDNN has a kernel.
// describe(layout) asks. Blocked images of 16 channels on one side and 1 on the other have none in most directions.
template <class Describe>
auto with_kernel(const Array& a, const Array& b, Describe describe) {
  const auto in_layout = [&](ImageLayout layout) {
    auto desc = describe(layout);
    refuse(desc, "ref");
    return std::pair(std::move(desc), layout);
  };
  if (!ImageLayout::can_block(a, b)) return in_layout({false});
  try {
    return in_layout({true});
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented) throw;
    return in_layout({false});
  }
}

struct Geometry {
  memory::dims stride, dilation, padding;
  explicit Geometry(const Window& w)
      : stride{w.stride.h, w.stride.w},
        dilation{w.dilation.h - 1, w.dilation.w - 1},
        padding{w.padding.h, w.padding.w} {}
};

auto forward_desc(const memory::desc& x, const memory::desc& weight, const memory::desc& bias, const memory::desc& y,
                  const Geometry& g) {
  constexpr auto kind = dnnl::prop_kind::forward_training;
  constexpr auto direct = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::convolution_forward::primitive_desc(engine(), kind, direct, x, weight, bias, y, g.stride, g.dilation,
                                                   g.padding, g.padding);
#else
  return dnnl::convolution_forward::primitive_desc(
      {kind, direct, x, weight, bias, y, g.stride, g.dilation, g.padding, g.padding}, engine());
#endif
}

}  // namespace

bool has_avx512() {
  static const bool has = dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core;
  return has;
}

bool has_fast_bf16() {
  static const bool has = has_avx512() && (__builtin_cpu_supports("amx-bf16") || !__builtin_cpu_is("intel"));
  return has;
}

bool conv2d(const Array& x, const Array& weight, const std::optional<Array>& bias, const Window& window,
            const Array& y) {
  if (!supported(x.dtype()) || !supported(weight.dtype()) || (bias && bias->dtype() != DType::f32)) return false;
  Plan* plan = plan_for(conv_key(0, x, weight, bias.has_value(), window, y), [&](Plan& p) {
    const auto [desc, image_desc] = with_kernel(x, y, [&](ImageLayout layout) {
      const auto found = forward_desc(layout(x), any_weight(weight, window.groups, type_of(x)), bias_desc(bias),
                                      layout(y), Geometry(window));
      // This kernel of oneDNN reads memory that nobody wrote, where some kernels that reach over 9 pixels and more see
      // an image that is narrower. Those of up to 7 pixels were all tried.
      const std::int64_t reach = (window.kernel.w - 1) * window.dilation.w + 1;
      if (reach > 7 && reach > x.dim(3) && has(Fault::wide_forward)) refuse(found, "brgconv");
      return found;
    });
    p.set_primitive(dnnl::convolution_forward(desc));
    p.add_input(DNNL_ARG_SRC, image_desc(x), desc.src_desc());
    p.add_input(DNNL_ARG_WEIGHTS, weight_desc(weight, window.groups), desc.weights_desc());
    p.add_output(DNNL_ARG_DST, image_desc(y), desc.dst_desc());
    if (bias) p.add_input(DNNL_ARG_BIAS, bias_desc(bias), desc.bias_desc());
  });
  if (!plan) return false;
  if (bias) plan->execute({x.raw(), weight.raw(), y.raw(), bias->contiguous().raw()});
  else plan->execute({x.raw(), weight.raw(), y.raw()});
  return true;
}

bool conv2d_grad_input(const Array& grad_y, const Array& weight, const Window& window, const Array& grad_x) {
  if (!supported(grad_y.dtype()) || !supported(weight.dtype())) return false;
  if (grad_y.dtype() == DType::bf16 && window.kernel == Extent(1) && grad_y.dim(1) / window.groups % 2 != 0 &&
      has(Fault::odd_outputs_bf16))
    return false;
  Plan* plan = plan_for(conv_key(1, grad_x, weight, false, window, grad_y), [&](Plan& p) {
    const auto [desc, image_desc] = with_kernel(grad_x, grad_y, [&](ImageLayout layout) {
      const auto x = layout(grad_x), y = layout(grad_y), w = any_weight(weight, window.groups, type_of(grad_y));
      const Geometry g(window);
      const auto forward = forward_desc(x, w, {}, y, g);
      constexpr auto direct = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
      return dnnl::convolution_backward_data::primitive_desc(engine(), direct, x, w, y, g.stride, g.dilation, g.padding,
                                                             g.padding, forward);
#else
      return dnnl::convolution_backward_data::primitive_desc(
          {direct, x, w, y, g.stride, g.dilation, g.padding, g.padding}, engine(), forward);
#endif
    });
    if (spreads(window)) refuse(desc, "x64:gemm");
    p.set_primitive(dnnl::convolution_backward_data(desc));
    p.add_input(DNNL_ARG_DIFF_DST, image_desc(grad_y), desc.diff_dst_desc());
    p.add_input(DNNL_ARG_WEIGHTS, weight_desc(weight, window.groups), desc.weights_desc());
    p.add_output(DNNL_ARG_DIFF_SRC, image_desc(grad_x), desc.diff_src_desc());
  });
  if (!plan) return false;
  plan->execute({grad_y.raw(), weight.raw(), grad_x.raw()});
  return true;
}

bool can_sum_bf16(const Array& x, const Window& window) {
  return (window.dilation == Extent(1) && x.dim(2) >= window.kernel.h && x.dim(3) >= window.kernel.w) ||
         !has(Fault::weight_sums_bf16);
}

bool conv2d_grad_weight(const Array& x, const Array& grad_y, const Window& window, const Array& grad_weight,
                        const std::optional<Array>& grad_bias) {
  if (!supported(x.dtype()) || x.dtype() != grad_y.dtype() || !supported(grad_weight.dtype())) return false;
  if (grad_bias && grad_bias->dtype() != DType::f32) return false;
  Plan* plan = plan_for(conv_key(2, x, grad_weight, grad_bias.has_value(), window, grad_y), [&](Plan& p) {
    const auto [desc, image_desc] = with_kernel(x, grad_y, [&](ImageLayout layout) {
      const auto in = layout(x), y = layout(grad_y), b = bias_desc(grad_bias);
      const auto w = any_weight(grad_weight, window.groups,
                                memory::data_type::f32);  // inputs may be 16-bit; sums and the result are f32
      const Geometry g(window);
      const auto forward = forward_desc(in, any_weight(grad_weight, window.groups, type_of(x)), b, y, g);
      constexpr auto direct = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
      return dnnl::convolution_backward_weights::primitive_desc(engine(), direct, in, w, b, y, g.stride, g.dilation,
                                                                g.padding, g.padding, forward);
#else
      return dnnl::convolution_backward_weights::primitive_desc(
          {direct, in, w, b, y, g.stride, g.dilation, g.padding, g.padding}, engine(), forward);
#endif
    });
    if (spreads(window)) refuse(desc, "x64:gemm");
    p.set_primitive(dnnl::convolution_backward_weights(desc));
    p.add_input(DNNL_ARG_SRC, image_desc(x), desc.src_desc());
    p.add_input(DNNL_ARG_DIFF_DST, image_desc(grad_y), desc.diff_dst_desc());
    p.add_output(DNNL_ARG_DIFF_WEIGHTS, weight_desc(grad_weight, window.groups), desc.diff_weights_desc());
    if (grad_bias) p.add_output(DNNL_ARG_DIFF_BIAS, bias_desc(grad_bias), desc.diff_bias_desc());
  });
  if (!plan) return false;
  if (grad_bias) plan->execute({x.raw(), grad_y.raw(), grad_weight.raw(), grad_bias->raw()});
  else plan->execute({x.raw(), grad_y.raw(), grad_weight.raw()});
  return true;
}

bool matmul(const Array& a, const Array& b, const std::optional<Array>& bias, const Array& y) {
  if (a.dtype() == DType::bf16 && !has_fast_bf16()) return false;
  if (!supported(a.dtype()) || a.dtype() != b.dtype() || (bias && bias->dtype() != DType::f32)) return false;
  const int ndim = a.ndim();
  PlanKey key{3, static_cast<int>(a.dtype()), static_cast<int>(y.dtype()), ndim, bias.has_value()};
  std::size_t entries = 5;
  for (const Array* m : {&a, &b, &y}) {
    const MatrixLayout layout = *matrix_layout(*m);
    for (const auto d : m->shape()) key[entries++] = d;
    if (ndim == 3) key[entries++] = m->strides()[0];
    key[entries++] = layout.transposed ? -layout.leading : layout.leading;
  }
  Plan* plan = plan_for(key, [&](Plan& p) {
    const auto matrices = [](const Array& m) {
      const MatrixLayout layout = *matrix_layout(m);
      memory::dims sizes = dims_of(m), strides;
      if (m.ndim() == 3) {
        // A batch stride of 0 means one matrix for the whole batch.
        if (m.strides()[0] == 0) sizes[0] = 1;
        strides.push_back(sizes[0] == 1 ? sizes[1] * sizes[2] : m.strides()[0]);
      }
      strides.push_back(layout.transposed ? 1 : layout.leading);
      strides.push_back(layout.transposed ? layout.leading : 1);
      return memory::desc(sizes, type_of(m), strides);
    };
    memory::dims row_sizes(static_cast<std::size_t>(ndim), 1);
    row_sizes.back() = b.dim(-1);
    const auto row =
        bias ? memory::desc(row_sizes, memory::data_type::f32, memory::dims(static_cast<std::size_t>(ndim), 1))
             : memory::desc();
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc desc(engine(), matrices(a), matrices(b), row, matrices(y));
#else
    const dnnl::matmul::primitive_desc desc({matrices(a), matrices(b), row, matrices(y)}, engine());
#endif
    refuse(desc, "ref");
    p.set_primitive(dnnl::matmul(desc));
    p.add_input(DNNL_ARG_SRC, matrices(a), desc.src_desc());
    p.add_input(DNNL_ARG_WEIGHTS, matrices(b), desc.weights_desc());
    p.add_output(DNNL_ARG_DST, matrices(y), desc.dst_desc());
    if (bias) p.add_input(DNNL_ARG_BIAS, row, desc.bias_desc());
  });
  if (!plan) return false;
  if (bias) plan->execute({a.raw(), b.raw(), y.raw(), bias->contiguous().raw()});
  else plan->execute({a.raw(), b.raw(), y.raw()});
  return true;
}

void gemm(const Gemm& g) {
  const auto status =
      dnnl_sgemm(g.a_layout.transposed ? 'T' : 'N', g.b_layout.transposed ? 'T' : 'N', g.rows, g.columns, g.inner,
                 g.alpha, g.a, g.a_layout.leading, g.b, g.b_layout.leading, g.beta, g.y, g.y_leading);
  if (status != dnnl_success) detail::fail("oneDNN: sgemm failed with status ", static_cast<int>(status));
}

}  // namespace tandem::onednn
