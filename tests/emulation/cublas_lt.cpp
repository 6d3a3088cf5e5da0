// Emulates the part of cuBLASLt that core/cuda/cublas.cpp uses, with the CPU's operations. The rules are those of
// cuBLAS's reference (https://docs.nvidia.com/cuda/cublas/#cublasltmatmul). Misuse aborts the process. A product that
// cuBLASLt can't compute has no algorithm.
#include <cublasLt.h>

#include <tandem/core/ops.h>

#include <cstring>

#include "device_memory.h"
#include "libraries.h"
#include "streams.h"

using emulation::die;
using tandem::Array;
using tandem::DType;

struct EmulatedCublas {
  int device;
};
struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t transposed[2] = {CUBLAS_OP_N, CUBLAS_OP_N};
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* vector = nullptr;
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  std::int64_t rows, columns, leading, stride = 0;
  std::int32_t batch = 1;
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::size_t workspace = 0;
  std::uint32_t alignment[4] = {256, 256, 256, 256};
};

namespace {

constexpr std::size_t workspace_of_long_sums = 4096;
constexpr std::int64_t long_sum = 64;

DType dtype_of(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_64F: return DType::f64;
    case CUDA_R_16F: return DType::f16;
    case CUDA_R_16BF: return DType::bf16;
    default: return DType::f32;
  }
}

template <class T>
void take(T& to, const void* value, std::size_t bytes) {
  if (bytes != sizeof(T)) die("cuBLASLt: an attribute of %zu bytes has a value of %zu", sizeof(T), bytes);
  std::memcpy(&to, value, bytes);
}

struct Product {
  cublasLtMatmulDesc_t how;
  cublasLtMatrixLayout_t a, b, c, d;
  std::int64_t rows() const { return how->transposed[0] == CUBLAS_OP_T ? a->columns : a->rows; }
  std::int64_t sums() const { return how->transposed[0] == CUBLAS_OP_T ? a->rows : a->columns; }
  std::int64_t columns() const { return how->transposed[1] == CUBLAS_OP_T ? b->rows : b->columns; }
};

// Returns whether these types are combined in the table of cublasLtMatmul.
bool are_supported(const Product& p) {
  const bool is_double = p.a->type == CUDA_R_64F;
  if (p.a->type != p.b->type || p.c->type != p.d->type) return false;
  if (p.how->scale != (is_double ? CUDA_R_64F : CUDA_R_32F)) return false;
  if (is_double) return p.how->compute == CUBLAS_COMPUTE_64F && p.d->type == CUDA_R_64F;
  if (p.a->type == CUDA_R_32F) return p.how->compute != CUBLAS_COMPUTE_64F && p.d->type == CUDA_R_32F;
  return p.how->compute == CUBLAS_COMPUTE_32F && (p.d->type == p.a->type || p.d->type == CUDA_R_32F);
}

void check_product(const char* call, cublasLtHandle_t handle, const Product& p) {
  emulation::check_context(call);
  if (handle->device != emulation::current_device()) die("%s: the handle is of another GPU", call);
  const std::int64_t k = p.how->transposed[1] == CUBLAS_OP_T ? p.b->columns : p.b->rows;
  if (p.sums() != k || p.d->rows != p.rows() || p.d->columns != p.columns()) die("%s: shapes do not fit", call);
  if (k <= 0 || p.d->rows <= 0 || p.d->columns <= 0) die("%s: an empty matrix", call);
  for (const auto m : {p.a, p.b, p.c, p.d}) {
    if (m->leading < m->rows) die("%s: the leading dimension is shorter than a column", call);
    if (m->batch != p.d->batch) die("%s: batches of different sizes", call);
  }
  if (p.d->batch > 65535) die("%s: a batch of %d", call, p.d->batch);
}

// Returns true if the factor is 1, and false if it is 0. Any other factor ends the program.
bool is_one(const Product& p, const void* given) {
  const double value = p.how->scale == CUDA_R_64F ? *static_cast<const double*>(given)
                                                  : static_cast<double>(*static_cast<const float*>(given));
  if (value != 0 && value != 1) die("cublasLtMatmul: a factor of %g", value);
  return value == 1;
}

// Returns matrix number `i` of a batch in the GPU's memory.
Array matrix(const cublasLtMatrixLayoutOpaque_t& m, const void* data, std::int64_t i, bool transposed) {
  const DType dtype = dtype_of(m.type);
  const void* const first =
      static_cast<const char*>(data) + static_cast<std::size_t>(i * m.stride) * tandem::size_of(dtype);
  const Array stored = emulation::numbers_at(first, dtype, {m.rows, m.columns}, {1, m.leading});
  return transposed ? stored.transpose(0, 1) : stored;
}

template <class T>
cublasStatus_t destroy(T* made) {
  delete made;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

std::size_t cublasLtGetVersion() { return 130100; }
const char* cublasLtGetStatusName(cublasStatus_t) { return "CUBLAS_STATUS_NOT_SUPPORTED"; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "emulated cuBLASLt: not supported"; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  emulation::check_context("cublasLtCreate");
  emulation::check_not_recorded("cublasLtCreate");
  *handle = new EmulatedCublas{emulation::current_device()};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute, cudaDataType_t scale) {
  *made = new cublasLtMatmulDescOpaque_t{compute, scale};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t descriptor) { return destroy(descriptor); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t descriptor, cublasLtMatmulDescAttributes_t name,
                                              const void* value, std::size_t bytes) {
  switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA: take(descriptor->transposed[0], value, bytes); break;
    case CUBLASLT_MATMUL_DESC_TRANSB: take(descriptor->transposed[1], value, bytes); break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE: take(descriptor->epilogue, value, bytes); break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: take(descriptor->vector, value, bytes); break;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType_t type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t leading) {
  *made = new cublasLtMatrixLayoutOpaque_t{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns),
                                           leading};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return destroy(layout); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t name,
                                                const void* value, std::size_t bytes) {
  switch (name) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: take(layout->batch, value, bytes); break;
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: take(layout->stride, value, bytes); break;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  *made = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) { return destroy(preference); }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t name, const void* value,
                                                    std::size_t bytes) {
  switch (name) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: take(preference->workspace, value, bytes); break;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: {
      std::uint32_t mask = 0;
      take(mask, value, bytes);
      break;
    }
    default: take(preference->alignment[name - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, bytes);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t* results, int* count) {
  const Product p{descriptor, a, b, c, d};
  check_product("cublasLtMatmulAlgoGetHeuristic", handle, p);
  emulation::check_plans("cublasLtMatmulAlgoGetHeuristic");
  *count = 0;
  const auto& can = emulation::libraries();
  const auto epilogue = descriptor->epilogue;
  if (can.fails_early && can.cublas_failure) return static_cast<cublasStatus_t>(can.cublas_failure);
  if (!are_supported(p) || !can.multiply || (epilogue == CUBLASLT_EPILOGUE_BIAS && !can.add_bias) ||
      (epilogue == CUBLASLT_EPILOGUE_BGRADB && !can.sum_rows))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const std::size_t needed = p.sums() >= long_sum ? workspace_of_long_sums : 0;  // a long sum is computed in parts
  if (most < 1 || needed > preference->workspace) return CUBLAS_STATUS_SUCCESS;
  *count = 1;
  results[0] = {{}, needed, CUBLAS_STATUS_SUCCESS};
  std::memcpy(results[0].algo.alignment, preference->alignment, sizeof preference->alignment);
  results[0].algo.epilogue = epilogue;
  results[0].algo.workspace = needed;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t*, cublasLtMatmulAlgoConfigAttributes_t,
                                                    void* value, std::size_t bytes, std::size_t* written) {
  std::memset(value, 0, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t descriptor, const void* alpha,
                              const void* a_data, cublasLtMatrixLayout_t a, const void* b_data,
                              cublasLtMatrixLayout_t b, const void* beta, const void* c_data, cublasLtMatrixLayout_t c,
                              void* d_data, cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t* algorithm,
                              void* workspace, std::size_t bytes, cudaStream_t stream) {
  constexpr const char* call = "cublasLtMatmul";
  const Product p{descriptor, a, b, c, d};
  check_product(call, handle, p);
  if (!are_supported(p)) die("%s: these types do not go together", call);
  if (const int failure = emulation::libraries().cublas_failure) return static_cast<cublasStatus_t>(failure);
  if (c_data != d_data) die("%s: C is not D", call);
  if (algorithm->epilogue != descriptor->epilogue) die("%s: the algorithm is for another epilogue", call);
  if (!is_one(p, alpha)) die("%s: a product times 0", call);
  const bool adds = is_one(p, beta);
  const cublasLtMatrixLayout_t layouts[] = {a, b, c, d};
  const void* const matrices[] = {a_data, b_data, c_data, d_data};
  for (int i = 0; i < 4; ++i) {
    const auto& m = *layouts[i];
    const std::size_t step = static_cast<std::size_t>(m.stride) * tandem::size_of(dtype_of(m.type));
    if (m.batch > 1 && step % algorithm->alignment[i] != 0) die("%s: a matrix of a batch is not aligned", call);
    emulation::check_memory(call, "a matrix", matrices[i], algorithm->alignment[i]);
  }
  if (bytes < algorithm->workspace) die("%s: a workspace of %zu bytes, not %zu", call, bytes, algorithm->workspace);
  if (bytes > 0) emulation::check_memory(call, "the workspace", workspace, 16);
  const bool adds_bias = descriptor->epilogue == CUBLASLT_EPILOGUE_BIAS;
  const bool sums_rows = descriptor->epilogue == CUBLASLT_EPILOGUE_BGRADB;
  Array vector;
  if (adds_bias || sums_rows) {
    if (d->batch != 1) die("%s: an epilogue of a batch is not emulated", call);
    emulation::check_memory(call, "the bias", descriptor->vector, 16);
    vector = emulation::numbers_at(descriptor->vector, dtype_of(d->type), {adds_bias ? p.rows() : p.columns()}, {1});
  }
  const bool tf32 = descriptor->compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  for (std::int64_t i = 0; i < d->batch; ++i) {
    const Array left = matrix(*a, a_data, i, descriptor->transposed[0] == CUBLAS_OP_T);
    const Array right = matrix(*b, b_data, i, descriptor->transposed[1] == CUBLAS_OP_T);
    const Array out = matrix(*d, d_data, i, false);
    emulation::submit_library_work(stream, "cuBLAS", workspace, algorithm->workspace, [=] {
      const bool widens = left.dtype() != DType::f64 && (adds || left.dtype() != out.dtype());
      const auto read = [&](const Array& m) { return tf32 ? emulation::as_tf32(m) : widens ? m.to(DType::f32) : m; };
      Array product = tandem::ops::matmul(read(left), read(right));
      if (adds_bias) product = tandem::ops::zip(tandem::functors::Add{}, product, vector.reshape({product.dim(0), 1}));
      if (adds) product = tandem::ops::zip(tandem::functors::Add{}, product, out.to(product.dtype()));
      Array(out).copy_from(emulation::as_a_library(product));
      if (!sums_rows) return;
      const Array wide = right.dtype() == DType::f64 ? right : right.to(DType::f32);
      Array(vector).copy_from(tandem::ops::reduce(tandem::Reduction::sum, wide, {0}));
    });
  }
  return CUBLAS_STATUS_SUCCESS;
}
