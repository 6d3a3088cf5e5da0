// This file uses cuDNN's API of functions and descriptors, not its newer API of operation graphs. The newer one pays
// off where several operations are fused; for a convolution alone, the older one takes a fraction of the code. NVIDIA
// advises against it, but all of cuDNN 9 has it.
#include <tandem/core/backend/device_graph.h>
#include <tandem/core/cuda/cudnn.h>
#include <tandem/core/cuda/fastest.h>
#include <tandem/core/cuda/library.h>
#include <tandem/core/cuda/plan_log.h>
#include <tandem/core/cuda/runtime.h>
#include <tandem/core/device/math_mode.h>

#include <cudnn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <mutex>
#include <sstream>
#include <vector>

namespace tandem::cuda {

namespace {

// An algorithm that needs more scratch memory than this (1 GiB) is not considered.
constexpr std::size_t most_workspace = std::size_t{1} << 30;

const char* advice(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_NOT_INITIALIZED:
      return ": the GPU can't be used, its driver is older than this cuDNN, or its memory is full";
    case CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH:
      return ": libcudnn*.so.9 of several versions are mixed; see LD_LIBRARY_PATH, and whether cuDNN is "
             "installed twice";
    case CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED:
    case CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE:
      return ": one of cuDNN's parts (libcudnn_cnn.so.9 and others) is not beside libcudnn.so.9; install all "
             "of cuDNN 9";
    case CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER:
      return ": the NVIDIA driver is older than this cuDNN; update it";
    case CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH:
      return ": this GPU is too old for this cuDNN; install an older one, or use --device cpu";
    case CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED: return ": the GPU's memory is full; use a smaller batch";
    default: break;
  }
  return CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_EXECUTION_FAILED
             ? ": a kernel failed, and this process can't use the GPU any more; run it under "
               "compute-sanitizer to see which"
             : "";
}

std::string words_for(cudnnStatus_t status) {
  char details[512] = "";
  cudnnGetLastErrorString(details, sizeof details);
  return std::string(cudnnGetErrorString(status)) + (*details ? ", " : "") + details + advice(status);
}

void check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  detail::fail("cuDNN ", cudnnGetVersion(), " (built against ", CUDNN_VERSION, "), ", call, ": ", words_for(status));
}
#define TANDEM_CUDNN(call) check(call, #call)

// Returns whether cuDNN does not support the call, or could not prepare it. No work has been started, and another
// algorithm may succeed.
bool is_refusal(cudnnStatus_t status) {
  const auto category = CUDNN_STATUS_CATEGORY(status);
  return category == CUDNN_STATUS_NOT_SUPPORTED || category == CUDNN_STATUS_BAD_PARAM ||
         category == CUDNN_STATUS_INTERNAL_ERROR;
}

template <class T, cudnnStatus_t (*create)(T*), cudnnStatus_t (*destroy)(T)>
class Descriptor {
 public:
  Descriptor() { TANDEM_CUDNN(create(&descriptor_)); }
  ~Descriptor() { destroy(descriptor_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator T() const { return descriptor_; }

 private:
  T descriptor_ = nullptr;
};
using Tensor = Descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using Filter = Descriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using Geometry =
    Descriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor>;
using Activation =
    Descriptor<cudnnActivationDescriptor_t, cudnnCreateActivationDescriptor, cudnnDestroyActivationDescriptor>;

struct Algorithm {
  int number;  // a value of cuDNN's enumeration for the plan's kind of convolution
  cudnnMathType_t math;
  bool adds_bias;
  std::size_t workspace;
};

struct Plan {
  Convolution kind;
  Tensor x, y, bias;
  Filter weight;
  Geometry geometry;
  Activation activation;
  // The best algorithm comes first: by cuDNN's heuristics, until they have been timed. An algorithm that turns out not
  // to work is dropped.
  std::vector<Algorithm> algorithms;
  bool is_timed = false;
  std::string problem;  // what was wrong with the last algorithm that was dropped, or why there is none
};

cudnnDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return CUDNN_DATA_FLOAT;
    case DType::f64: return CUDNN_DATA_DOUBLE;
    case DType::bf16: return CUDNN_DATA_BFLOAT16;
    case DType::f16: return CUDNN_DATA_HALF;
    default: detail::fail("conv2d: needs a floating dtype, got ", dtype);
  }
}

int narrow(std::int64_t value) { return static_cast<int>(value); }

void describe(const Tensor& tensor, ImageFormat format, const Shape& shape, DType dtype) {
  TANDEM_CHECK(shape.product() <= std::numeric_limits<int>::max(), "conv2d: ", shape, " has ", shape.product(),
               " elements, and cuDNN counts to ", std::numeric_limits<int>::max(), "; use a smaller batch");
  const Strides s = dense_strides(format, shape);
  TANDEM_CUDNN(cudnnSetTensor4dDescriptorEx(tensor, type_of(dtype), narrow(shape[0]), narrow(shape[1]),
                                            narrow(shape[2]), narrow(shape[3]), narrow(s[0]), narrow(s[1]),
                                            narrow(s[2]), narrow(s[3])));
}

void describe(const Filter& filter, ImageFormat format, const Shape& shape, DType dtype) {
  const auto order = format == ImageFormat::nhwc ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
  TANDEM_CUDNN(cudnnSetFilter4dDescriptor(filter, type_of(dtype), order, narrow(shape[0]), narrow(shape[1]),
                                          narrow(shape[2]), narrow(shape[3])));
}

// Returns how numbers may be multiplied: f32 as TF32 or not, and 16-bit numbers on the tensor cores.
cudnnMathType_t math_for(DType dtype) {
  if (dtype == DType::f32 && !math_mode().tf32_conv) return CUDNN_FMA_MATH;
  return dtype == DType::f16 || dtype == DType::bf16 ? CUDNN_TENSOR_OP_MATH : CUDNN_DEFAULT_MATH;
}

cudnnStatus_t workspace_of(cudnnHandle_t handle, const Plan& p, int number, std::size_t* bytes) {
  switch (p.kind) {
    case Convolution::forward:
      return cudnnGetConvolutionForwardWorkspaceSize(handle, p.x, p.weight, p.geometry, p.y,
                                                     static_cast<cudnnConvolutionFwdAlgo_t>(number), bytes);
    case Convolution::grad_input:
      return cudnnGetConvolutionBackwardDataWorkspaceSize(handle, p.weight, p.y, p.geometry, p.x,
                                                          static_cast<cudnnConvolutionBwdDataAlgo_t>(number), bytes);
    case Convolution::grad_weight:
      return cudnnGetConvolutionBackwardFilterWorkspaceSize(
          handle, p.x, p.y, p.geometry, p.weight, static_cast<cudnnConvolutionBwdFilterAlgo_t>(number), bytes);
  }
  return CUDNN_STATUS_BAD_PARAM;
}

// `heuristics` fills a list of Results, the best first. `words` are those for the convolution.
template <class Result, class Heuristics>
void choose_algorithms(cudnnHandle_t handle, Plan& plan, DType dtype, bool with_bias, const std::string& words,
                       Heuristics heuristics) {
  std::array<Result, 16> results{};
  std::vector<Algorithm> rounding;  // taken only if there is no other
  int count = 0;
  const cudnnStatus_t asked = heuristics(narrow(results.size()), &count, results.data());
  if (is_refusal(asked)) {
    plan.problem = words_for(asked);
    return;
  }
  check(asked, ("heuristics for " + words).c_str());
  plan.problem =
      math_mode().deterministic ? "the heuristics know no deterministic algorithm" : "the heuristics know no algorithm";
  for (int i = 0; i < count; ++i) {
    const Result& r = results[static_cast<std::size_t>(i)];
    if (r.status != CUDNN_STATUS_SUCCESS) continue;
    const bool is_deterministic = r.determinism == CUDNN_DETERMINISTIC;
    if (math_mode().deterministic && !is_deterministic) continue;
    // Without TF32, an algorithm must not choose its own precision.
    const auto math = math_for(dtype) == CUDNN_FMA_MATH ? CUDNN_FMA_MATH : r.mathType;
    TANDEM_CUDNN(cudnnSetConvolutionMathType(plan.geometry, math));
    std::size_t workspace = 0;
    if (workspace_of(handle, plan, r.algo, &workspace) != CUDNN_STATUS_SUCCESS || workspace > most_workspace) continue;
    // This is the only algorithm that adds a bias without an activation after it.
    if (with_bias && r.algo == static_cast<int>(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM))
      plan.algorithms.push_back({r.algo, math, true, workspace});
    // If the order of additions is not fixed, the blocks add to the gradient itself, and round each sum to 16 bits.
    const bool rounds = plan.kind == Convolution::grad_weight && size_of(dtype) == 2 && !is_deterministic;
    (rounds ? rounding : plan.algorithms).push_back({r.algo, math, false, workspace});
  }
  if (plan.algorithms.empty()) plan.algorithms = rounding;
}

std::unique_ptr<Plan> make_plan(cudnnHandle_t handle, Convolution kind, ImageFormat format,
                                const ConvolutionArrays& arrays, const Window& w, bool with_bias) {
  const DType dtype = arrays.x.dtype();
  auto plan = std::make_unique<Plan>();
  Plan& p = *plan;
  p.kind = kind;
  describe(p.x, format, arrays.x.shape(), dtype);
  describe(p.y, format, arrays.y.shape(), dtype);
  describe(p.bias, format, {1, arrays.y.dim(1), 1, 1}, dtype);
  describe(p.weight, format, arrays.weight.shape(), dtype);
  TANDEM_CUDNN(cudnnSetConvolution2dDescriptor(p.geometry, narrow(w.padding.h), narrow(w.padding.w), narrow(w.stride.h),
                                               narrow(w.stride.w), narrow(w.dilation.h), narrow(w.dilation.w),
                                               CUDNN_CROSS_CORRELATION,
                                               dtype == DType::f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT));
  TANDEM_CUDNN(cudnnSetConvolutionGroupCount(p.geometry, narrow(w.groups)));
  TANDEM_CUDNN(cudnnSetConvolutionMathType(p.geometry, math_for(dtype)));
  // cudnnConvolutionBiasActivationForward takes no other option. The identity lets NaN pass either way.
  TANDEM_CUDNN(cudnnSetActivationDescriptor(p.activation, CUDNN_ACTIVATION_IDENTITY, CUDNN_NOT_PROPAGATE_NAN, 0));
  const std::string words = words_for(kind, format, arrays, w);
  switch (kind) {
    case Convolution::forward:
      choose_algorithms<cudnnConvolutionFwdAlgoPerf_t>(
          handle, p, dtype, with_bias, words, [&](int most, int* count, auto* results) {
            return cudnnGetConvolutionForwardAlgorithm_v7(handle, p.x, p.weight, p.geometry, p.y, most, count, results);
          });
      break;
    case Convolution::grad_input:
      choose_algorithms<cudnnConvolutionBwdDataAlgoPerf_t>(
          handle, p, dtype, false, words, [&](int most, int* count, auto* results) {
            return cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, p.weight, p.y, p.geometry, p.x, most, count,
                                                               results);
          });
      break;
    case Convolution::grad_weight:
      choose_algorithms<cudnnConvolutionBwdFilterAlgoPerf_t>(
          handle, p, dtype, false, words, [&](int most, int* count, auto* results) {
            return cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, p.x, p.y, p.geometry, p.weight, most, count,
                                                                 results);
          });
      break;
  }
  return plan;
}

cudnnStatus_t run(cudnnHandle_t handle, const Plan& p, const Algorithm& algorithm, const ConvolutionArrays& arrays,
                  const Array* bias, bool adds) {
  Array workspace;
  if (algorithm.workspace > 0)
    workspace = Array::empty({static_cast<std::int64_t>(algorithm.workspace)}, DType::u8, arrays.x.device());
  void* const scratch = workspace.defined() ? workspace.raw() : nullptr;
  // The factors of the result, and of the array to which it is added. They are on the host, in f64 for f64 and in f32
  // otherwise.
  const float narrow_factors[] = {1, 0};
  const double wide_factors[] = {1, 0};
  const bool wide = arrays.x.dtype() == DType::f64;
  const void* const one = wide ? static_cast<const void*>(&wide_factors[0]) : &narrow_factors[0];
  const void* const zero = wide ? static_cast<const void*>(&wide_factors[1]) : &narrow_factors[1];
  void *const x = arrays.x.raw(), *const weight = arrays.weight.raw(), *const y = arrays.y.raw();

  TANDEM_CUDNN(cudnnSetConvolutionMathType(p.geometry, algorithm.math));
  switch (p.kind) {
    case Convolution::forward: {
      const auto number = static_cast<cudnnConvolutionFwdAlgo_t>(algorithm.number);
      if (algorithm.adds_bias)  // the result is added to 0 * z; z is y, because cuDNN wants an array there
        return cudnnConvolutionBiasActivationForward(handle, one, p.x, x, p.weight, weight, p.geometry, number, scratch,
                                                     algorithm.workspace, zero, p.y, y, p.bias, bias->raw(),
                                                     p.activation, p.y, y);
      return cudnnConvolutionForward(handle, one, p.x, x, p.weight, weight, p.geometry, number, scratch,
                                     algorithm.workspace, zero, p.y, y);
    }
    case Convolution::grad_input:
      return cudnnConvolutionBackwardData(handle, one, p.weight, weight, p.y, y, p.geometry,
                                          static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm.number), scratch,
                                          algorithm.workspace, adds ? one : zero, p.x, x);
    case Convolution::grad_weight:
      return cudnnConvolutionBackwardFilter(handle, one, p.x, x, p.y, y, p.geometry,
                                            static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm.number), scratch,
                                            algorithm.workspace, zero, p.weight, weight);
  }
  return CUDNN_STATUS_BAD_PARAM;
}

std::string words_for(const Algorithm& algorithm) {
  std::ostringstream text;
  text << "algorithm " << algorithm.number << ", math " << algorithm.math << (algorithm.adds_bias ? ", adds bias" : "")
       << ", workspace " << (algorithm.workspace >> 10) << " KiB";
  return text.str();
}

// The heuristics are often wrong. This function therefore times the algorithms that they name first, and takes the
// fastest on this GPU. If an algorithm does not add the bias, the pass that adds it is timed too. An algorithm is
// skipped if there is no room for its scratch memory, or if it fails and the GPU can still be used. For 16-bit numbers,
// algorithms without tensor cores are not tried: on an H200 they took up to 700 times as long, and 15 s in the first
// step of a DeepLabV3.
void time_algorithms(cudnnHandle_t handle, Plan& p, const ConvolutionArrays& arrays, const Array* bias,
                     const std::string& logged) {
  constexpr std::size_t most_timed = 6;
  p.is_timed = true;
  if (p.algorithms.size() < 2 && logged.empty()) return;
  const auto is_fast = [&](const Algorithm& algorithm) {
    return size_of(arrays.x.dtype()) != 2 || algorithm.math == CUDNN_TENSOR_OP_MATH;
  };
  const auto end = std::stable_partition(p.algorithms.begin(), p.algorithms.end(), is_fast);
  const auto fast = static_cast<std::size_t>(end - p.algorithms.begin());
  const std::size_t tried = std::min(most_timed, fast > 0 ? fast : p.algorithms.size());
  const std::vector<Algorithm> rest(p.algorithms.begin() + static_cast<std::ptrdiff_t>(tried), p.algorithms.end());
  p.algorithms.resize(tried);
  const std::vector<Algorithm> untimed = p.algorithms;
  const auto begin = std::chrono::steady_clock::now();
  std::string lines;
  const auto dropped = [&](const Algorithm& algorithm, const std::string& problem) {
    p.problem = problem;
    if (!logged.empty()) lines += "\n  " + words_for(algorithm) + ": " + problem;
    return false;
  };
  const std::vector<float> times = sort_by_time(p.algorithms, [&](const Algorithm& algorithm) {
    cudnnStatus_t status;
    try {
      status = run(handle, p, algorithm, arrays, bias, false);
    } catch (const Error& error) {
      return dropped(algorithm, error.what());
    }
    if (status != CUDNN_STATUS_SUCCESS) {
      // Some algorithms fail when they run. If the GPU has failed along with the algorithm, no other algorithm will
      // work either.
      if (!is_refusal(status)) TANDEM_CUDA(cudaStreamSynchronize(current_stream()));
      return dropped(algorithm, words_for(status));
    }
    if (bias && !algorithm.adds_bias) add_bias(arrays.y, *bias);
    return true;
  });
  if (!logged.empty()) {
    for (std::size_t i = 0; i < times.size(); ++i)
      lines += "\n  " + words_for(p.algorithms[i]) + ": " + std::to_string(1000 * times[i]) + " us";
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begin;
    log_plan(logged + ", chosen in " + std::to_string(taken.count()) + " ms" + lines);
  }
  if (p.algorithms.empty()) p.algorithms = untimed;  // the convolution itself will say why none works
  p.algorithms.insert(p.algorithms.end(), rest.begin(), rest.end());
}

CallKey key_of(Convolution kind, ImageFormat format, const ConvolutionArrays& arrays, const Window& w, bool with_bias) {
  const MathMode mode = math_mode();
  return CallKey(kind, format, with_bias, mode.tf32_conv, mode.deterministic, w, arrays.x.dtype(), arrays.x.shape(),
                 arrays.weight.shape(), arrays.y.shape());
}

}  // namespace

std::string words_for(Convolution kind, std::optional<ImageFormat> format, const ConvolutionArrays& arrays,
                      const Window& w) {
  std::ostringstream text;
  const char* const pass = kind == Convolution::forward      ? "forward"
                           : kind == Convolution::grad_input ? "grad_input"
                                                             : "grad_weight";
  text << pass << ' ' << arrays.x.dtype() << ' ';
  if (format) text << (*format == ImageFormat::nhwc ? "nhwc " : "nchw ");
  text << arrays.x.shape() << " x " << arrays.weight.shape() << " -> " << arrays.y.shape() << ", stride " << w.stride
       << ", padding " << w.padding << ", dilation " << w.dilation << ", groups " << w.groups;
  return text.str();
}

ConvolutionOutcome convolve(Convolution kind, ImageFormat format, const ConvolutionArrays& arrays, const Window& window,
                            const Array* bias, bool adds) {
  auto& library = Library<cudnnHandle_t, Plan>::of(arrays.x.device().index);
  const std::lock_guard lock(library.mutex);
  if (!library.handle) TANDEM_CUDNN(cudnnCreate(&library.handle));
  TANDEM_CUDNN(cudnnSetStream(library.handle, current_stream()));
  Plan& plan = library.plans.get(key_of(kind, format, arrays, window, bias != nullptr), [&] {
    return make_plan(library.handle, kind, format, arrays, window, bias != nullptr);
  });
  const auto words = [&] { return words_for(kind, format, arrays, window); };
  if (!plan.is_timed && !math_mode().deterministic && !is_recording_graph()) {
    ConvolutionArrays tried = arrays;
    if (adds) tried.x = empty_in(format, arrays.x.shape(), arrays.x.dtype(), arrays.x.device());
    time_algorithms(library.handle, plan, tried, bias, has_plan_log() ? "cuDNN " + words() : std::string());
  }
  while (!plan.algorithms.empty()) {
    const Algorithm best = plan.algorithms.front();
    const cudnnStatus_t status = run(library.handle, plan, best, arrays, bias, adds);
    if (status == CUDNN_STATUS_SUCCESS) return {true, best.adds_bias, ""};
    if (!is_refusal(status)) check(status, words().c_str());
    plan.problem = words_for(status);
    plan.algorithms.erase(plan.algorithms.begin());
  }
  if (has_plan_log()) log_plan("cuDNN " + words() + ": no algorithm works: " + plan.problem);
  return {false, false, plan.problem};
}

}  // namespace tandem::cuda
