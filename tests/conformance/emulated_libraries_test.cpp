// The emulated cuBLASLt and cuDNN abort the process if a caller breaks a rule. They also check rules that the real
// libraries do not check.
#ifdef TANDEM_EMULATED_CUDA
#include <tandem/core/backend/backend.h>
#include <tandem/core/cuda/runtime.h>
#include <tandem/core/ops.h>

#include <gtest/gtest.h>

#include <array>
#include <thread>

#include <cublasLt.h>
#include <cudnn.h>

namespace tandem {
namespace {

const Device gpu = Device::cuda(0);

// A forked process has no thread to emulate the GPU.
class EmulatedLibrariesDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

// A product of two 64 x 64 matrices. Each test breaks one rule.
struct Multiplication {
  std::int64_t leading = 64;
  std::uint32_t promised_alignment = 4;
  int offset = 0;  // of the first matrix, in elements
  bool is_on_host = false;
  std::size_t workspace = 4096;
  float factor = 1;
  bool gets_epilogue_late = false;
  cudaDataType_t type_of_result = CUDA_R_32F;

  void run() const {
    backend(gpu);
    constexpr int n = 64;
    const Array a = ops::zeros({n * n + 1}, DType::f32, gpu), y = ops::zeros({n * n}, DType::f32, gpu);
    const Array scratch = Array::empty({4096}, DType::u8, gpu);
    const std::array<float, n * n> of_host{};
    const float zero = 0;
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t in, out;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    cublasLtCreate(&handle);
    cublasLtMatmulDescCreate(&how, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatrixLayoutCreate(&in, CUDA_R_32F, n, n, leading);
    cublasLtMatrixLayoutCreate(&out, type_of_result, n, n, n);
    cublasLtMatmulPreferenceCreate(&preference);
    constexpr std::size_t most = 1 << 20;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &promised_alignment,
                                         sizeof promised_alignment);
    cublasLtMatmulAlgoGetHeuristic(handle, how, in, in, out, out, preference, 1, &found, &count);
    if (gets_epilogue_late) {
      constexpr auto bias = CUBLASLT_EPILOGUE_BIAS;
      cublasLtMatmulDescSetAttribute(how, CUBLASLT_MATMUL_DESC_EPILOGUE, &bias, sizeof bias);
    }
    const float* const first = is_on_host ? of_host.data() : static_cast<const float*>(a.raw()) + offset;
    cublasLtMatmul(handle, how, &factor, first, in, a.raw(), in, &zero, y.raw(), out, y.raw(), out, &found.algo,
                   scratch.raw(), workspace, cuda::current_stream());
    synchronize(gpu);
  }
};

TEST_F(EmulatedLibrariesDeathTest, AProductHoldsTheRulesOfCublas) {
  Multiplication{}.run();
  EXPECT_DEATH(Multiplication{.leading = 63}.run(), "the leading dimension is shorter than a column");
  EXPECT_DEATH((Multiplication{.promised_alignment = 16, .offset = 1}.run()), "is not aligned to 16 bytes");
  EXPECT_DEATH(Multiplication{.is_on_host = true}.run(), "is not in a GPU's memory");
  EXPECT_DEATH(Multiplication{.workspace = 4095}.run(), "a workspace of 4095 bytes, not 4096");
  EXPECT_DEATH(Multiplication{.factor = 2}.run(), "a factor of 2");
  EXPECT_DEATH(Multiplication{.gets_epilogue_late = true}.run(), "the algorithm is for another epilogue");
  EXPECT_DEATH(Multiplication{.type_of_result = CUDA_R_16F}.run(), "these types do not go together");
}

// A 3 x 3 convolution of one image with 2 channels. Each test breaks one rule.
struct Convolution {
  int channels_of_filter = 2, height_of_result = 3;
  cudnnTensorFormat_t format_of_filter = CUDNN_TENSOR_NCHW;
  cudnnDataType_t computes_in = CUDNN_DATA_FLOAT;
  std::size_t workspace = 1024;
  bool is_in_stream = true;

  void run() const {
    backend(gpu);
    const Array numbers = ops::zeros({64}, DType::f32, gpu), scratch = Array::empty({1024}, DType::u8, gpu);
    const float one = 1, zero = 0;
    cudnnHandle_t handle;
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t weight;
    cudnnConvolutionDescriptor_t how;
    cudnnCreate(&handle);
    if (is_in_stream) cudnnSetStream(handle, cuda::current_stream());
    cudnnCreateTensorDescriptor(&x);
    cudnnCreateTensorDescriptor(&y);
    cudnnCreateFilterDescriptor(&weight);
    cudnnCreateConvolutionDescriptor(&how);
    cudnnSetTensor4dDescriptorEx(x, CUDNN_DATA_FLOAT, 1, 2, 5, 5, 50, 25, 5, 1);
    cudnnSetTensor4dDescriptorEx(y, CUDNN_DATA_FLOAT, 1, 1, height_of_result, 3, height_of_result * 3,
                                 height_of_result * 3, 3, 1);
    cudnnSetFilter4dDescriptor(weight, CUDNN_DATA_FLOAT, format_of_filter, 1, channels_of_filter, 3, 3);
    cudnnSetConvolution2dDescriptor(how, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, computes_in);
    cudnnSetConvolutionGroupCount(how, 1);
    const Array result = ops::zeros({16}, DType::f32, gpu);
    cudnnConvolutionForward(handle, &one, x, numbers.raw(), weight, numbers.raw(), how,
                            CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, scratch.raw(), workspace, &zero, y,
                            result.raw());
    synchronize(gpu);
  }
};

TEST_F(EmulatedLibrariesDeathTest, AConvolutionHoldsTheRulesOfCudnn) {
  Convolution{}.run();
  EXPECT_DEATH(Convolution{.channels_of_filter = 3}.run(), "channels or images do not fit");
  EXPECT_DEATH(Convolution{.height_of_result = 4}.run(), "y has not the size that the convolution gives");
  EXPECT_DEATH(Convolution{.format_of_filter = CUDNN_TENSOR_NHWC}.run(), "x is not in the filter's format");
  EXPECT_DEATH(Convolution{.computes_in = CUDNN_DATA_DOUBLE}.run(), "all others in float");
  EXPECT_DEATH(Convolution{.workspace = 1023}.run(), "a workspace of 1023 bytes, which needs 1024");
  EXPECT_DEATH(Convolution{.is_in_stream = false}.run(), "in another stream");
}

// The first call of a thread may find no context.
TEST_F(EmulatedLibrariesDeathTest, AThreadChoosesAGpuBeforeItUsesALibrary) {
  cublasLtHandle_t products;
  cudnnHandle_t convolutions;
  EXPECT_DEATH(std::thread([&] { cublasLtCreate(&products); }).join(), "there may be no context");
  EXPECT_DEATH(std::thread([&] { cudnnCreate(&convolutions); }).join(), "there may be no context");
}

}  // namespace
}  // namespace tandem
#endif
