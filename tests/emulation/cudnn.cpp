// Emulates the part of cuDNN that core/cuda/cudnn.cpp uses, with the CPU's operations. The rules are those of cuDNN's
// reference (https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-cnn-library.html). Misuse aborts the
// process. For a problem that cuDNN can't compute, the result is CUDNN_STATUS_NOT_SUPPORTED. As on real GPUs, some of
// the algorithms that the heuristics suggest are refused at once, one is refused when it runs, and one fails when it
// runs.
#include <cudnn.h>

#include <tandem/core/cuda/runtime.h>
#include <tandem/core/ops.h>

#include <array>
#include <cstdio>
#include <optional>

#include "device_memory.h"
#include "libraries.h"
#include "streams.h"

using emulation::die;
using tandem::Array;
using tandem::DType;

struct EmulatedCudnn {
  int device;
  cudaStream_t stream;
};
struct EmulatedTensor {
  bool is_set;
  cudnnDataType_t type;
  std::array<std::int64_t, 4> size, stride;
};
struct EmulatedFilter {
  bool is_set;
  cudnnDataType_t type;
  cudnnTensorFormat_t format;
  std::array<std::int64_t, 4> size;
};
struct EmulatedConvolution {
  bool is_set;
  tandem::Window window;
  cudnnDataType_t compute;
  cudnnMathType_t math;
};
struct EmulatedActivation {
  bool is_set;
  cudnnActivationMode_t mode;
  cudnnNanPropagation_t nan;
};

namespace {

enum class Pass { forward, input_gradient, weight_gradient };

const char* name_of(Pass pass) {
  switch (pass) {
    case Pass::forward: return "cudnnConvolutionForward";
    case Pass::input_gradient: return "cudnnConvolutionBackwardData";
    default: return "cudnnConvolutionBackwardFilter";
  }
}

DType dtype_of(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_DOUBLE: return DType::f64;
    case CUDNN_DATA_HALF: return DType::f16;
    case CUDNN_DATA_BFLOAT16: return DType::bf16;
    default: return DType::f32;
  }
}

tandem::Shape shape_of(const std::array<std::int64_t, 4>& size) { return {size[0], size[1], size[2], size[3]}; }

tandem::Strides strides_of(cudnnTensorFormat_t format, const tandem::Shape& shape) {
  return format == CUDNN_TENSOR_NHWC ? tandem::channels_last_strides(shape) : tandem::contiguous_strides(shape);
}

struct Problem {
  cudnnTensorDescriptor_t x;
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t how;
  cudnnTensorDescriptor_t y;
};

void check_tensor(Pass pass, const char* name, const EmulatedTensor& tensor, const EmulatedFilter& w) {
  if (tensor.type != w.type) die("%s: %s and the filter are of different types", name_of(pass), name);
  const auto strides = strides_of(w.format, shape_of(tensor.size));
  for (int i = 0; i < 4; ++i)
    if (tensor.stride[static_cast<std::size_t>(i)] != strides[i])
      die("%s: %s is not in the filter's format", name_of(pass), name);
}

// Aborts the process if the descriptors do not match each other. Otherwise returns cuDNN's status for the problem.
cudnnStatus_t check_problem(Pass pass, cudnnHandle_t handle, const Problem& p) {
  const char* const call = name_of(pass);
  emulation::check_context(call);
  if (handle->device != emulation::current_device()) die("%s: the handle is of another GPU", call);
  if (!p.x->is_set || !p.w->is_set || !p.how->is_set || !p.y->is_set) die("%s: a descriptor was not set", call);
  check_tensor(pass, "x", *p.x, *p.w);
  check_tensor(pass, "y", *p.y, *p.w);
  const bool is_double = p.x->type == CUDNN_DATA_DOUBLE;
  if (p.how->compute != (is_double ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT))
    die("%s: doubles are computed in double, all others in float", call);
  const tandem::Window& window = p.how->window;
  if (p.x->size[1] != p.w->size[1] * window.groups || p.y->size[1] != p.w->size[0] || p.x->size[0] != p.y->size[0])
    die("%s: channels or images do not fit", call);
  const auto out = [](std::int64_t in, std::int64_t k, std::int64_t s, std::int64_t pad, std::int64_t dilation) {
    return (in + 2 * pad - (dilation * (k - 1) + 1)) / s + 1;
  };
  if (p.y->size[2] != out(p.x->size[2], p.w->size[2], window.stride.h, window.padding.h, window.dilation.h) ||
      p.y->size[3] != out(p.x->size[3], p.w->size[3], window.stride.w, window.padding.w, window.dilation.w))
    die("%s: y has not the size that the convolution gives", call);
  const auto& can = emulation::libraries();
  if (p.w->format == CUDNN_TENSOR_NHWC ? !can.channels_last : !can.row_major) return CUDNN_STATUS_NOT_SUPPORTED;
  if (p.w->format == CUDNN_TENSOR_NHWC && is_double) return CUDNN_STATUS_NOT_SUPPORTED;  // an assumption
  return CUDNN_STATUS_SUCCESS;
}

constexpr std::size_t small_workspace = 1024, huge_workspace = std::size_t{2} << 30;

// The behaviour of the algorithm with this number. The numbers of the algorithms mean the same in all three passes, as
// far as the emulation needs.
enum class Nature { works, needs_much, fails, refuses };
Nature nature_of(Pass pass, int number) {
  if (number == 0 || number == 1) return Nature::works;
  if (pass == Pass::forward)
    return number == CUDNN_CONVOLUTION_FWD_ALGO_GEMM  ? Nature::needs_much
           : number == CUDNN_CONVOLUTION_FWD_ALGO_FFT ? Nature::fails
                                                      : Nature::refuses;
  return Nature::fails;
}

std::size_t workspace_of(Pass pass, int number) {
  return nature_of(pass, number) == Nature::needs_much ? huge_workspace : number == 1 ? small_workspace : 0;
}

cudnnStatus_t ask_for_workspace(Pass pass, cudnnHandle_t handle, const Problem& p, int number, std::size_t* bytes) {
  if (const auto status = check_problem(pass, handle, p); status != CUDNN_STATUS_SUCCESS) return status;
  if (nature_of(pass, number) == Nature::refuses) return CUDNN_STATUS_NOT_SUPPORTED;
  *bytes = workspace_of(pass, number);
  return CUDNN_STATUS_SUCCESS;
}

template <class Algorithm>
cudnnStatus_t heuristics(Pass pass, cudnnHandle_t handle, const Problem& p, std::initializer_list<int> numbers,
                         int most, int* count, emulation::Performance<Algorithm>* results) {
  emulation::check_plans("cuDNN's heuristics");
  *count = 0;
  if (const auto status = check_problem(pass, handle, p); status != CUDNN_STATUS_SUCCESS) return status;
  const auto& can = emulation::libraries();
  if (can.fails_early && can.cudnn_failure) return static_cast<cudnnStatus_t>(can.cudnn_failure);
  const bool has_tensor_cores = p.x->type == CUDNN_DATA_HALF || p.x->type == CUDNN_DATA_BFLOAT16;
  for (const int number : numbers) {
    if (*count == most) break;
    const bool is_known = nature_of(pass, number) != Nature::refuses;
    const bool is_deterministic = pass == Pass::forward || number == 1;  // as cudnn_ops.h says
    const bool on_tensor_cores = has_tensor_cores && (number == 1 || (pass == Pass::weight_gradient && number == 0));
    results[(*count)++] = {static_cast<Algorithm>(number),
                           is_known ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED,
                           -1,
                           workspace_of(pass, number),
                           is_deterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC,
                           on_tensor_cores ? CUDNN_TENSOR_OP_MATH : CUDNN_DEFAULT_MATH};
  }
  return CUDNN_STATUS_SUCCESS;
}

// The factors are on the host, as double for doubles and as float for other types. The back-end uses only 0 and 1, and
// a factor of the wrong type is neither.
double factor(Pass pass, const Problem& p, const void* given) {
  const double value = p.x->type == CUDNN_DATA_DOUBLE ? *static_cast<const double*>(given)
                                                      : static_cast<double>(*static_cast<const float*>(given));
  if (value != 0 && value != 1) die("%s: a factor of %g", name_of(pass), value);
  return value;
}

struct Memory {
  const void* x;
  const void* w;
  const void* y;
  void* workspace;
  std::size_t bytes;
  const void* bias = nullptr;
};

cudnnStatus_t run(Pass pass, cudnnHandle_t handle, const Problem& p, int number, const Memory& at, bool adds) {
  const char* const call = name_of(pass);
  if (const auto status = check_problem(pass, handle, p); status != CUDNN_STATUS_SUCCESS) return status;
  if (const int failure = emulation::libraries().cudnn_failure) return static_cast<cudnnStatus_t>(failure);
  if (!handle->stream || handle->stream != tandem::cuda::current_stream()) die("%s: in another stream", call);
  emulation::check_memory(call, "x", at.x, 16);
  emulation::check_memory(call, "the filter", at.w, 16);
  emulation::check_memory(call, "y", at.y, 16);
  const std::size_t needed = workspace_of(pass, number);
  if (at.bytes < needed) die("%s: a workspace of %zu bytes, which needs %zu", call, at.bytes, needed);
  if (needed > 0) emulation::check_memory(call, "the workspace", at.workspace, 16);
  switch (nature_of(pass, number)) {
    case Nature::fails: return CUDNN_STATUS_EXECUTION_FAILED;
    case Nature::refuses: return CUDNN_STATUS_NOT_SUPPORTED;
    default: break;
  }
  const DType dtype = dtype_of(p.x->type);
  const auto view = [&](const void* memory, const std::array<std::int64_t, 4>& size) {
    return emulation::numbers_at(memory, dtype, shape_of(size), strides_of(p.w->format, shape_of(size)));
  };
  const Array x = view(at.x, p.x->size), w = view(at.w, p.w->size), y = view(at.y, p.y->size);
  const auto bias = at.bias ? std::optional(emulation::numbers_at(at.bias, dtype, {p.y->size[1]}, {1})) : std::nullopt;
  const bool tf32 = dtype == DType::f32 && p.how->math != CUDNN_FMA_MATH;
  tandem::Window window = p.how->window;
  window.kernel = {p.w->size[2], p.w->size[3]};
  emulation::submit_library_work(handle->stream, "cuDNN", at.workspace, needed, [=] {
    const auto read = [&](const Array& a) { return tf32 ? emulation::as_tf32(a) : a; };
    const auto write = [&](Array to, const Array& result) {
      const Array found = emulation::as_a_library(result);
      if (adds) tandem::ops::add_(to, found);
      else to.copy_from(found);
    };
    switch (pass) {
      case Pass::forward: return write(y, tandem::ops::conv2d(read(x), read(w), bias, window));
      case Pass::input_gradient: return write(x, tandem::ops::conv2d_grad_input(read(y), read(w), window, x.shape()));
      case Pass::weight_gradient:
        return write(w, tandem::ops::conv2d_grad_weight(read(x), read(y), window, w.dim(0), false, dtype).weight);
    }
  });
  return CUDNN_STATUS_SUCCESS;
}

template <class T>
cudnnStatus_t create(T** made) {
  *made = new T{};
  return CUDNN_STATUS_SUCCESS;
}
template <class T>
cudnnStatus_t destroy(T* descriptor) {
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

std::size_t cudnnGetVersion() { return CUDNN_VERSION; }
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_NOT_SUPPORTED      ? "CUDNN_STATUS_NOT_SUPPORTED"
         : status == CUDNN_STATUS_EXECUTION_FAILED ? "CUDNN_STATUS_EXECUTION_FAILED"
                                                   : "another status";
}
void cudnnGetLastErrorString(char* message, std::size_t most) {
  std::snprintf(message, most, "emulated cuDNN: not supported");
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  emulation::check_context("cudnnCreate");
  emulation::check_not_recorded("cudnnCreate");
  *handle = new EmulatedCudnn{emulation::current_device(), nullptr};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* made) { return create(made); }
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t descriptor) { return destroy(descriptor); }
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* made) { return create(made); }
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t descriptor) { return destroy(descriptor); }
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* made) { return create(made); }
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t descriptor) { return destroy(descriptor); }
cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* made) { return create(made); }
cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t descriptor) { return destroy(descriptor); }

cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t descriptor, cudnnDataType_t type, int n, int c,
                                           int h, int w, int n_stride, int c_stride, int h_stride, int w_stride) {
  *descriptor = {true, type, {n, c, h, w}, {n_stride, c_stride, h_stride, w_stride}};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t descriptor, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int o, int c, int h, int w) {
  *descriptor = {true, type, format, {o, c, h, w}};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t descriptor, int pad_h, int pad_w,
                                              int stride_h, int stride_w, int dilation_h, int dilation_w,
                                              cudnnConvolutionMode_t mode, cudnnDataType_t compute) {
  if (mode != CUDNN_CROSS_CORRELATION) die("cudnnSetConvolution2dDescriptor: a flipped filter is not emulated");
  *descriptor = {true,
                 {.stride = {stride_h, stride_w}, .padding = {pad_h, pad_w}, .dilation = {dilation_h, dilation_w}},
                 compute,
                 CUDNN_DEFAULT_MATH};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t descriptor, int groups) {
  descriptor->window.groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t descriptor, cudnnMathType_t math) {
  descriptor->math = math;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t descriptor, cudnnActivationMode_t mode,
                                           cudnnNanPropagation_t nan, double) {
  *descriptor = {true, mode, nan};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                     cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t how,
                                                     cudnnTensorDescriptor_t y, int most, int* count,
                                                     cudnnConvolutionFwdAlgoPerf_t* results) {
  return heuristics(Pass::forward, handle, {x, w, how, y}, {6, 1, 4, 2, 0}, most, count, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t handle, cudnnFilterDescriptor_t w,
                                                          cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t how,
                                                          cudnnTensorDescriptor_t dx, int most, int* count,
                                                          cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return heuristics(Pass::input_gradient, handle, {dx, w, how, dy}, {1, 2, 0}, most, count, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                            cudnnTensorDescriptor_t dy,
                                                            cudnnConvolutionDescriptor_t how,
                                                            cudnnFilterDescriptor_t dw, int most, int* count,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return heuristics(Pass::weight_gradient, handle, {x, dw, how, dy}, {0, 1, 2}, most, count, results);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                      cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t how,
                                                      cudnnTensorDescriptor_t y, cudnnConvolutionFwdAlgo_t algorithm,
                                                      std::size_t* bytes) {
  return ask_for_workspace(Pass::forward, handle, {x, w, how, y}, algorithm, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t handle, cudnnFilterDescriptor_t w,
                                                           cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t how,
                                                           cudnnTensorDescriptor_t dx,
                                                           cudnnConvolutionBwdDataAlgo_t algorithm,
                                                           std::size_t* bytes) {
  return ask_for_workspace(Pass::input_gradient, handle, {dx, w, how, dy}, algorithm, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t how,
    cudnnFilterDescriptor_t dw, cudnnConvolutionBwdFilterAlgo_t algorithm, std::size_t* bytes) {
  return ask_for_workspace(Pass::weight_gradient, handle, {x, dw, how, dy}, algorithm, bytes);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x,
                                      const void* x_data, cudnnFilterDescriptor_t w, const void* w_data,
                                      cudnnConvolutionDescriptor_t how, cudnnConvolutionFwdAlgo_t algorithm,
                                      void* workspace, std::size_t bytes, const void* beta, cudnnTensorDescriptor_t y,
                                      void* y_data) {
  const Problem p{x, w, how, y};
  if (factor(Pass::forward, p, alpha) != 1) die("cudnnConvolutionForward: alpha is not 1");
  return run(Pass::forward, handle, p, algorithm, {x_data, w_data, y_data, workspace, bytes},
             factor(Pass::forward, p, beta) == 1);
}
// The reference lists what is not supported here: activations other than ReLU and the identity, NaN propagation, and
// the identity with any algorithm except IMPLICIT_PRECOMP_GEMM.
cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x, const void* x_data, cudnnFilterDescriptor_t w,
    const void* w_data, cudnnConvolutionDescriptor_t how, cudnnConvolutionFwdAlgo_t algorithm, void* workspace,
    std::size_t bytes, const void* alpha2, cudnnTensorDescriptor_t z, const void* z_data, cudnnTensorDescriptor_t bias,
    const void* bias_data, cudnnActivationDescriptor_t activation, cudnnTensorDescriptor_t y, void* y_data) {
  constexpr const char* call = "cudnnConvolutionBiasActivationForward";
  const Problem p{x, w, how, y};
  if (!activation->is_set || !bias->is_set || !z->is_set) die("%s: a descriptor was not set", call);
  if (activation->mode != CUDNN_ACTIVATION_IDENTITY) die("%s: a ReLU is not emulated", call);
  if (activation->nan != CUDNN_NOT_PROPAGATE_NAN || algorithm != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM ||
      !emulation::libraries().add_bias)
    return CUDNN_STATUS_NOT_SUPPORTED;
  if (factor(Pass::forward, p, alpha) != 1 || factor(Pass::forward, p, alpha2) != 0)
    die("%s: alpha1 is not 1, or alpha2 not 0", call);
  if (z->size != y->size || z_data != y_data) die("%s: z is not y", call);
  if (bias->type != y->type || bias->size != std::array<std::int64_t, 4>{1, y->size[1], 1, 1})
    die("%s: the bias is not one number for each channel of y", call);
  emulation::check_memory(call, "the bias", bias_data, 16);
  return run(Pass::forward, handle, p, algorithm, {x_data, w_data, y_data, workspace, bytes, bias_data}, false);
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha, cudnnFilterDescriptor_t w,
                                           const void* w_data, cudnnTensorDescriptor_t dy, const void* dy_data,
                                           cudnnConvolutionDescriptor_t how, cudnnConvolutionBwdDataAlgo_t algorithm,
                                           void* workspace, std::size_t bytes, const void* beta,
                                           cudnnTensorDescriptor_t dx, void* dx_data) {
  const Problem p{dx, w, how, dy};
  if (factor(Pass::input_gradient, p, alpha) != 1) die("cudnnConvolutionBackwardData: alpha is not 1");
  return run(Pass::input_gradient, handle, p, algorithm, {dx_data, w_data, dy_data, workspace, bytes},
             factor(Pass::input_gradient, p, beta) == 1);
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x,
                                             const void* x_data, cudnnTensorDescriptor_t dy, const void* dy_data,
                                             cudnnConvolutionDescriptor_t how,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                                             std::size_t bytes, const void* beta, cudnnFilterDescriptor_t dw,
                                             void* dw_data) {
  const Problem p{x, dw, how, dy};
  if (factor(Pass::weight_gradient, p, alpha) != 1) die("cudnnConvolutionBackwardFilter: alpha is not 1");
  const bool is_narrow = dw->type == CUDNN_DATA_HALF || dw->type == CUDNN_DATA_BFLOAT16;
  if (is_narrow && algorithm != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1)
    die("cudnnConvolutionBackwardFilter: algorithm %d adds up in 16 bits", algorithm);
  return run(Pass::weight_gradient, handle, p, algorithm, {x_data, dw_data, dy_data, workspace, bytes},
             factor(Pass::weight_gradient, p, beta) == 1);
}
