// The floor of a training step of the MNIST network: the time of oneDNN's kernels alone. They are the network's
// convolutions, batch norms (with the ReLU fused), max pools and matrix products, with its shapes. Each kernel has the
// layout that suits it best, without the reorders between them. Each is measured in two ways. In the first, it runs
// alone, repeatedly, with its data warm in the caches; this is the floor. In the second, all kernels run in the order
// of a step, as a program must call them. The output then shows the floor of Tandem's own kernels (own_floor.h).
//
//   floor [--json]     OMP_NUM_THREADS is the number of threads
#include <bench/own_floor.h>

#include <dnnl.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;
using Format = memory::format_tag;
using Type = memory::data_type;
using Clock = std::chrono::steady_clock;

constexpr int batch = 100;
constexpr int steps_in_epoch = 600;
constexpr int repetitions = 40;

// In oneDNN 3, the arguments of an operation go directly into its primitive_desc; in oneDNN 2, into a separate desc.
template <class P, class... Args>
typename P::primitive_desc describe(const dnnl::engine& engine, const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return typename P::primitive_desc(engine, args...);
#else
  return typename P::primitive_desc(typename P::desc(args...), engine);
#endif
}

template <class P, class Hint, class... Args>
typename P::primitive_desc describe_backward(const dnnl::engine& engine, const Hint& hint, const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return typename P::primitive_desc(engine, args..., hint);
#else
  return typename P::primitive_desc(typename P::desc(args...), engine, hint);
#endif
}

struct Call {
  std::string name, implementation;
  dnnl::primitive primitive;
  std::unordered_map<int, memory> arguments;
  double alone = 0, in_step = 0;  // milliseconds
};

struct Summary {
  std::vector<Call> calls;
  double alone = 0, in_step = 0;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

class Step {
 public:
  // The layout `images` is `any`, which lets the library choose, or `nhwc`, which keeps channels last throughout.
  Step(Type type, Format images) : type_(type), images_(images) {
    const auto conv1 = convolution("conv1", 1, 16, 28);
    const auto norm1 = norm("norm1+relu1", conv1, 16);
    const auto pool1 = pool("pool1", conv1, 16, 28);
    const auto conv2 = convolution("conv2", 16, 32, 14);
    const auto norm2 = norm("norm2+relu2", conv2, 32);
    const auto pool2 = pool("pool2", conv2, 32, 14);
    linear();
    pool_backward("pool2", pool2, 32, 14);
    norm_backward("norm2+relu2", norm2);
    convolution_backward("conv2", 16, 32, 14, true);
    pool_backward("pool1", pool1, 16, 28);
    norm_backward("norm1+relu1", norm1);
    convolution_backward("conv1", 1, 16, 28, false);
  }

  std::vector<Call> run() {
    std::vector<std::vector<double>> in_step(calls_.size());
    for (Call& call : calls_) {
      std::vector<double> alone;
      for (int i = 0; i < repetitions; ++i) alone.push_back(execute(call));
      call.alone = median(std::move(alone));
    }
    for (int i = 0; i < repetitions; ++i) {
      for (std::size_t c = 0; c < calls_.size(); ++c) in_step[c].push_back(execute(calls_[c]));
    }
    for (std::size_t c = 0; c < calls_.size(); ++c) calls_[c].in_step = median(std::move(in_step[c]));
    return calls_;
  }

 private:
  struct Norm {
    dnnl::batch_normalization_forward::primitive_desc forward;
    memory src, mean, variance, scale, shift, workspace;
  };
  struct Pool {
    dnnl::pooling_forward::primitive_desc forward;
    memory workspace;
  };

  double execute(const Call& call) {
    const auto start = Clock::now();
    call.primitive.execute(stream_, call.arguments);
    stream_.wait();
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }

  memory::desc image(int channels, int size) const { return {{batch, channels, size, size}, type_, images_}; }

  // The values resemble activations. Zeros would make a kernel look faster than it is, and denormals slower.
  memory filled(const memory::desc& desc) {
    memory result(desc, engine_);
    const auto bytes = desc.get_size();
    std::uniform_real_distribution<float> uniform(-1, 1);
    if (type_of(desc) == Type::f32) {
      auto* values = static_cast<float*>(result.get_data_handle());
      std::generate(values, values + bytes / sizeof(float), [&] { return uniform(random_); });
    } else if (type_of(desc) == Type::bf16) {
      auto* values = static_cast<std::uint16_t*>(result.get_data_handle());
      std::generate(values, values + bytes / 2, [&] {
        std::uint32_t bits;
        const float value = uniform(random_);
        std::memcpy(&bits, &value, sizeof bits);
        return static_cast<std::uint16_t>(bits >> 16);
      });
    } else {
      std::memset(result.get_data_handle(), 0, bytes);
    }
    return result;
  }

  static Type type_of(const memory::desc& desc) {
#if DNNL_VERSION_MAJOR >= 3
    return desc.get_data_type();
#else
    return desc.data_type();
#endif
  }

  template <class Desc>
  void add(std::string name, const Desc& desc, dnnl::primitive primitive, std::unordered_map<int, memory> arguments) {
    calls_.push_back({std::move(name), desc.impl_info_str(), std::move(primitive), std::move(arguments)});
  }

  // Both convolutions of the network have kernel 5, stride 1 and padding 2.
  dnnl::convolution_forward::primitive_desc convolution(const std::string& name, int in, int out, int size) {
    const auto desc = describe<dnnl::convolution_forward>(
        engine_, prop_kind::forward_training, algorithm::convolution_direct, image(in, size), weights(in, out),
        bias(out), image(out, size), stride_one_, padding_two_, padding_two_);
    add(name + " forward", desc, dnnl::convolution_forward(desc),
        {{DNNL_ARG_SRC, filled(desc.src_desc())},
         {DNNL_ARG_WEIGHTS, filled(desc.weights_desc())},
         {DNNL_ARG_BIAS, filled(desc.bias_desc())},
         {DNNL_ARG_DST, filled(desc.dst_desc())}});
    forward_.emplace(name, desc);
    return desc;
  }

  void convolution_backward(const std::string& name, int in, int out, int size, bool needs_input_gradient) {
    const auto& forward = forward_.at(name);
    const auto by_weights = describe_backward<dnnl::convolution_backward_weights>(
        engine_, forward, algorithm::convolution_direct, image(in, size), weights_gradient(in, out), bias(out),
        image(out, size), stride_one_, padding_two_, padding_two_);
    add(name + " backward weights", by_weights, dnnl::convolution_backward_weights(by_weights),
        {{DNNL_ARG_SRC, filled(by_weights.src_desc())},
         {DNNL_ARG_DIFF_DST, filled(by_weights.diff_dst_desc())},
         {DNNL_ARG_DIFF_WEIGHTS, filled(by_weights.diff_weights_desc())},
         {DNNL_ARG_DIFF_BIAS, filled(by_weights.diff_bias_desc())}});
    if (!needs_input_gradient) return;
    const auto by_data = describe_backward<dnnl::convolution_backward_data>(
        engine_, forward, algorithm::convolution_direct, image(in, size), weights(in, out), image(out, size),
        stride_one_, padding_two_, padding_two_);
    add(name + " backward data", by_data, dnnl::convolution_backward_data(by_data),
        {{DNNL_ARG_DIFF_DST, filled(by_data.diff_dst_desc())},
         {DNNL_ARG_WEIGHTS, filled(by_data.weights_desc())},
         {DNNL_ARG_DIFF_SRC, filled(by_data.diff_src_desc())}});
  }

  Norm norm(const std::string& name, const dnnl::convolution_forward::primitive_desc& convolution, int channels) {
    const auto data = convolution.dst_desc();
#if DNNL_VERSION_MAJOR >= 3
    const auto desc = describe<dnnl::batch_normalization_forward>(engine_, prop_kind::forward_training, data, data,
                                                                  1e-5F, norm_flags_);
#else
    const auto desc =
        describe<dnnl::batch_normalization_forward>(engine_, prop_kind::forward_training, data, 1e-5F, norm_flags_);
#endif
    const memory::desc vector({channels}, Type::f32, Format::a);
    const Norm norm{desc,
                    filled(data),
                    filled(vector),
                    filled(vector),
                    filled(vector),
                    filled(vector),
                    filled(desc.workspace_desc())};
    add(name + " forward", desc, dnnl::batch_normalization_forward(desc),
        {{DNNL_ARG_SRC, norm.src},
         {DNNL_ARG_MEAN, norm.mean},
         {DNNL_ARG_VARIANCE, norm.variance},
         {DNNL_ARG_SCALE, norm.scale},
         {DNNL_ARG_SHIFT, norm.shift},
         {DNNL_ARG_WORKSPACE, norm.workspace},
         {DNNL_ARG_DST, filled(data)}});
    return norm;
  }

  void norm_backward(const std::string& name, const Norm& norm) {
    const auto data = norm.forward.dst_desc();
#if DNNL_VERSION_MAJOR >= 3
    const auto desc = describe_backward<dnnl::batch_normalization_backward>(engine_, norm.forward, prop_kind::backward,
                                                                            data, data, data, 1e-5F, norm_flags_);
#else
    const auto desc = describe_backward<dnnl::batch_normalization_backward>(engine_, norm.forward, prop_kind::backward,
                                                                            data, data, 1e-5F, norm_flags_);
#endif
    std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, norm.src},
                                              {DNNL_ARG_MEAN, norm.mean},
                                              {DNNL_ARG_VARIANCE, norm.variance},
                                              {DNNL_ARG_SCALE, norm.scale},
                                              {DNNL_ARG_WORKSPACE, norm.workspace},
                                              {DNNL_ARG_DIFF_DST, filled(data)},
                                              {DNNL_ARG_DIFF_SRC, filled(data)},
                                              {DNNL_ARG_DIFF_SCALE, filled(norm.scale.get_desc())},
                                              {DNNL_ARG_DIFF_SHIFT, filled(norm.shift.get_desc())}};
#if DNNL_VERSION_MAJOR < 3
    arguments.emplace(DNNL_ARG_SHIFT, norm.shift);
#endif
    add(name + " backward", desc, dnnl::batch_normalization_backward(desc), std::move(arguments));
  }

  // The pools have kernel 2 and stride 2.
  Pool pool(const std::string& name, const dnnl::convolution_forward::primitive_desc& convolution, int channels,
            int size) {
    const memory::desc result({batch, channels, size / 2, size / 2}, type_, Format::any);
#if DNNL_VERSION_MAJOR >= 3
    const auto desc = describe<dnnl::pooling_forward>(engine_, prop_kind::forward_training, algorithm::pooling_max,
                                                      convolution.dst_desc(), result, two_, two_, none_, none_, none_);
#else
    const auto desc = describe<dnnl::pooling_forward>(engine_, prop_kind::forward_training, algorithm::pooling_max,
                                                      convolution.dst_desc(), result, two_, two_, none_, none_);
#endif
    const Pool pool{desc, filled(desc.workspace_desc())};
    add(name + " forward", desc, dnnl::pooling_forward(desc),
        {{DNNL_ARG_SRC, filled(desc.src_desc())},
         {DNNL_ARG_DST, filled(desc.dst_desc())},
         {DNNL_ARG_WORKSPACE, pool.workspace}});
    return pool;
  }

  void pool_backward(const std::string& name, const Pool& pool, int channels, int size) {
    const auto result = pool.forward.dst_desc();
    const memory::desc source({batch, channels, size, size}, type_, Format::any);
#if DNNL_VERSION_MAJOR >= 3
    const auto desc = describe_backward<dnnl::pooling_backward>(engine_, pool.forward, algorithm::pooling_max, source,
                                                                result, two_, two_, none_, none_, none_);
#else
    const auto desc = describe_backward<dnnl::pooling_backward>(engine_, pool.forward, algorithm::pooling_max, source,
                                                                result, two_, two_, none_, none_);
#endif
    add(name + " backward", desc, dnnl::pooling_backward(desc),
        {{DNNL_ARG_DIFF_DST, filled(desc.diff_dst_desc())},
         {DNNL_ARG_DIFF_SRC, filled(desc.diff_src_desc())},
         {DNNL_ARG_WORKSPACE, pool.workspace}});
  }

  void linear() {
    constexpr int inputs = 7 * 7 * 32, outputs = 10;
    const memory::desc src({batch, inputs}, type_, Format::any), dst({batch, outputs}, type_, Format::any);
    const memory::desc weights({outputs, inputs}, type_, Format::any);
    const memory::desc weights_gradient({outputs, inputs}, Type::f32, Format::any);
    const auto forward =
        describe<dnnl::inner_product_forward>(engine_, prop_kind::forward_training, src, weights, bias(outputs), dst);
    add("fc forward", forward, dnnl::inner_product_forward(forward),
        {{DNNL_ARG_SRC, filled(forward.src_desc())},
         {DNNL_ARG_WEIGHTS, filled(forward.weights_desc())},
         {DNNL_ARG_BIAS, filled(forward.bias_desc())},
         {DNNL_ARG_DST, filled(forward.dst_desc())}});
    const auto by_weights = describe_backward<dnnl::inner_product_backward_weights>(
        engine_, forward, src, weights_gradient, bias(outputs), dst);
    add("fc backward weights", by_weights, dnnl::inner_product_backward_weights(by_weights),
        {{DNNL_ARG_SRC, filled(by_weights.src_desc())},
         {DNNL_ARG_DIFF_DST, filled(by_weights.diff_dst_desc())},
         {DNNL_ARG_DIFF_WEIGHTS, filled(by_weights.diff_weights_desc())},
         {DNNL_ARG_DIFF_BIAS, filled(by_weights.diff_bias_desc())}});
    const auto by_data = describe_backward<dnnl::inner_product_backward_data>(engine_, forward, src, weights, dst);
    add("fc backward data", by_data, dnnl::inner_product_backward_data(by_data),
        {{DNNL_ARG_DIFF_DST, filled(by_data.diff_dst_desc())},
         {DNNL_ARG_WEIGHTS, filled(by_data.weights_desc())},
         {DNNL_ARG_DIFF_SRC, filled(by_data.diff_src_desc())}});
  }

  memory::desc weights(int in, int out) const { return {{out, in, 5, 5}, type_, Format::any}; }
  // The master weights are f32, and so are the gradients that are added to them.
  static memory::desc weights_gradient(int in, int out) { return {{out, in, 5, 5}, Type::f32, Format::any}; }
  static memory::desc bias(int out) { return {{out}, Type::f32, Format::a}; }

  const dnnl::normalization_flags norm_flags_ = dnnl::normalization_flags::use_scale |
                                                dnnl::normalization_flags::use_shift |
                                                dnnl::normalization_flags::fuse_norm_relu;

  const memory::dims stride_one_{1, 1}, padding_two_{2, 2}, two_{2, 2}, none_{0, 0};
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::mt19937 random_{0};
  Type type_;
  Format images_;
  std::vector<Call> calls_;
  std::unordered_map<std::string, dnnl::convolution_forward::primitive_desc> forward_;
};

// The shortest times: for each kernel and each measurement, the faster of the library's layout and channels last.
Summary best(Type type) {
  Summary result{Step(type, Format::any).run()};
  const std::vector<Call> channels_last = Step(type, Format::nhwc).run();
  for (std::size_t i = 0; i < result.calls.size(); ++i) {
    Call& call = result.calls[i];
    const bool last = channels_last[i].alone < call.alone;
    call.implementation = last ? channels_last[i].implementation + ", channels last" : call.implementation;
    call.alone = std::min(call.alone, channels_last[i].alone);
    call.in_step = std::min(call.in_step, channels_last[i].in_step);
    result.alone += call.alone;
    result.in_step += call.in_step;
  }
  return result;
}

double epoch_seconds(double step_milliseconds) { return step_milliseconds * steps_in_epoch / 1000; }

void print_json(const char* type, const Summary& summary) {
  std::printf("{\"dtype\": \"%s\", \"epoch_seconds\": %.4f, \"in_step_epoch_seconds\": %.4f, \"kernels\": {", type,
              epoch_seconds(summary.alone), epoch_seconds(summary.in_step));
  const char* separator = "";
  for (const Call& call : summary.calls) {
    std::printf("%s\"%s\": [%.4f, %.4f]", std::exchange(separator, ", "), call.name.c_str(), call.alone, call.in_step);
  }
  std::printf("}}\n");
}

void print_table(const char* type, const Summary& summary) {
  std::printf("%s, batch %d       ms alone  ms in a step\n", type, batch);
  for (const Call& call : summary.calls) {
    std::printf("  %-22s %8.3f %8.3f   %s\n", call.name.c_str(), call.alone, call.in_step, call.implementation.c_str());
  }
  std::printf("  %-22s %8.3f %8.3f\n", "a step", summary.alone, summary.in_step);
  std::printf("  %-22s %8.2f %8.2f   seconds\n", "an epoch of 600 steps", epoch_seconds(summary.alone),
              epoch_seconds(summary.in_step));
}

void print_own(const own_floor::Floor& floor, bool json) {
  const double seconds = epoch_seconds(floor.milliseconds());
  if (json) {
    std::printf(
        "{\"dtype\": \"own\", \"epoch_seconds\": %.4f, \"multiplications\": %.0f, \"bytes\": %.0f, "
        "\"multiplications_a_second\": %.4g, \"bytes_a_second\": %.4g}\n",
        seconds, floor.multiplications, floor.bytes, floor.multiplications_a_second, floor.bytes_a_second);
    return;
  }
  std::printf("Tandem's kernels, f32, batch %d\n", batch);
  std::printf("  %.0f million multiplications at %.1f billion per second, %.1f MB at %.1f GB/s\n",
              floor.multiplications / 1e6, floor.multiplications_a_second / 1e9, floor.bytes / 1e6,
              floor.bytes_a_second / 1e9);
  std::printf("  %-22s %8.3f\n  %-22s %8.2f            seconds\n", "a step", floor.milliseconds(),
              "an epoch of 600 steps", seconds);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const bool json = argc == 2 && std::strcmp(argv[1], "--json") == 0;
    if (argc > 1 && !json) {
      std::fprintf(stderr, "usage: floor [--json]\n");
      return 2;
    }
    const auto print = json ? print_json : print_table;
    print("f32", best(Type::f32));
    try {
      print("bf16", best(Type::bf16));
    } catch (const dnnl::error& error) {
      std::fprintf(stderr, "floor: oneDNN has no kernels for bf16 on this processor: %s\n", error.what());
    }
    print_own(own_floor::measure(), json);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "floor: %s\n", error.what());
    return 1;
  }
}
