#include <tandem/core/cuda/cublas.h>
#include <tandem/core/cuda/layouts.h>
#include <tandem/core/cuda/library.h>
#include <tandem/core/cuda/plan_log.h>
#include <tandem/core/cuda/runtime.h>

#include <cublasLt.h>

#include <algorithm>
#include <sstream>

namespace tandem::cuda {

namespace {

// 32 MiB is what PyTorch gives cuBLASLt on the largest GPUs. A plan takes only what its algorithm uses.
constexpr std::size_t most_workspace = std::size_t{32} << 20;

const char* advice(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return ": the GPU can't be used, its driver is older than this cuBLAS, or its memory is full";
    case CUBLAS_STATUS_ALLOC_FAILED: return ": the GPU's memory is full; use a smaller batch";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return ": this GPU is too old for this cuBLAS; install an older CUDA, or use --device cpu";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return ": a kernel failed, and this process can't use the GPU any more; run it under compute-sanitizer "
             "to see which";
    default: return "";
  }
}

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  detail::fail("cuBLASLt ", cublasLtGetVersion(), ", ", call, ": ", cublasLtGetStatusName(status), ", ",
               cublasLtGetStatusString(status), advice(status));
}
#define TANDEM_CUBLAS(call) check(call, #call)

struct Destroy {
  void operator()(cublasLtMatmulDesc_t d) const { cublasLtMatmulDescDestroy(d); }
  void operator()(cublasLtMatrixLayout_t d) const { cublasLtMatrixLayoutDestroy(d); }
  void operator()(cublasLtMatmulPreference_t d) const { cublasLtMatmulPreferenceDestroy(d); }
};
using Operation = std::unique_ptr<cublasLtMatmulDescOpaque_t, Destroy>;
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Destroy>;
using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, Destroy>;

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return CUDA_R_32F;
    case DType::f64: return CUDA_R_64F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::f16: return CUDA_R_16F;
    default: detail::fail("matmul: needs a floating dtype, got ", dtype);
  }
}

// `dtype` is that of the operands.
Operation make_operation(DType dtype, bool tf32, const ColumnMajor& left, const ColumnMajor& right) {
  cublasLtMatmulDesc_t made = nullptr;
  const bool wide = dtype == DType::f64;
  const auto compute = wide                          ? CUBLAS_COMPUTE_64F
                       : dtype == DType::f32 && tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                     : CUBLAS_COMPUTE_32F;
  TANDEM_CUBLAS(cublasLtMatmulDescCreate(&made, compute, wide ? CUDA_R_64F : CUDA_R_32F));
  Operation operation(made);
  const cublasOperation_t a = left.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t b = right.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  TANDEM_CUBLAS(cublasLtMatmulDescSetAttribute(made, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a));
  TANDEM_CUBLAS(cublasLtMatmulDescSetAttribute(made, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b));
  return operation;
}

// The cuBLASLt layout of `of`, whose matrices lie in memory as `m` says.
Layout make_layout(const Array& of, const ColumnMajor& m) {
  cublasLtMatrixLayout_t made = nullptr;
  TANDEM_CUBLAS(cublasLtMatrixLayoutCreate(&made, type_of(of.dtype()), static_cast<std::uint64_t>(m.rows),
                                           static_cast<std::uint64_t>(m.columns), m.leading));
  Layout layout(made);
  if (of.ndim() == 3) {
    const auto count = static_cast<std::int32_t>(of.dim(0));
    const std::int64_t stride = of.strides()[0];
    TANDEM_CUBLAS(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
    TANDEM_CUBLAS(
        cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
  }
  return layout;
}

// An alignment that every matrix of a batch has, in bytes.
std::uint32_t alignment_of_matrices(const Array& m) {
  auto address = reinterpret_cast<std::uintptr_t>(m.raw());
  if (m.ndim() == 3 && m.dim(0) > 1) address |= static_cast<std::uintptr_t>(m.strides()[0]) * size_of(m.dtype());
  return alignment_of(reinterpret_cast<const void*>(address));
}

template <class T>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t name, T value) {
  TANDEM_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference.get(), name, &value, sizeof value));
}

Preference make_preference(const Array& left, const Array& right, const Array& y) {
  cublasLtMatmulPreference_t made = nullptr;
  TANDEM_CUBLAS(cublasLtMatmulPreferenceCreate(&made));
  Preference preference(made);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of_matrices(left));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of_matrices(right));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of_matrices(y));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of_matrices(y));
  // If a product is divided along K, its parts are added up in f32 and not in 16 bits.
  if (size_of(y.dtype()) == 2)
    set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  return preference;
}

// The additional work of a product, with a vector in y's dtype. A bias has as many numbers as y has columns. The sums
// of the rows of a have as many numbers as y has rows.
enum class Epilogue { none, bias, row_sums };

// A product in cuBLAS's terms: D = A B, where A is b', B is a' and D is y' (x' is the transpose of x).
struct Plan {
  Operation operation;
  Layout a, b, d;
  cublasLtMatmulAlgo_t algorithm;
  std::size_t workspace;
  // The epilogue is also `none` if no algorithm does the additional work, and nullopt if no algorithm computes the
  // product at all.
  std::optional<Epilogue> epilogue;
};

// The vector of an epilogue, which cuBLAS calls a bias, or the gradient of one.
void set_vector(const Operation& operation, const void* vector) {
  TANDEM_CUBLAS(
      cublasLtMatmulDescSetAttribute(operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &vector, sizeof vector));
}

// Puts an algorithm into the plan. Returns whether cuBLAS has one.
bool choose_algorithm(cublasLtHandle_t handle, const Preference& preference, Plan& plan) {
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const auto status = cublasLtMatmulAlgoGetHeuristic(handle, plan.operation.get(), plan.a.get(), plan.b.get(),
                                                     plan.d.get(), plan.d.get(), preference.get(), 1, &found, &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return false;
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  if (count == 0 || found.state != CUBLAS_STATUS_SUCCESS) return false;
  plan.algorithm = found.algo;
  plan.workspace = found.workspaceSize;
  return true;
}

std::unique_ptr<Plan> make_plan(cublasLtHandle_t handle, const Array& a, const Array& b, Epilogue epilogue,
                                const Array* vector, const Array& y, bool tf32) {
  const DType dtype = a.dtype();
  const ColumnMajor left = *transpose_of(b), right = *transpose_of(a);
  auto plan = std::make_unique<Plan>(Plan{make_operation(dtype, tf32, left, right),
                                          make_layout(b, left),
                                          make_layout(a, right),
                                          make_layout(y, {y.dim(-1), y.dim(-2), y.dim(-1), false}),
                                          {},
                                          0,
                                          epilogue});
  const Preference preference = make_preference(b, a, y);
  const auto set_epilogue = [&](cublasLtEpilogue_t name, const Array* with) {
    TANDEM_CUBLAS(
        cublasLtMatmulDescSetAttribute(plan->operation.get(), CUBLASLT_MATMUL_DESC_EPILOGUE, &name, sizeof name));
    set_vector(plan->operation, with ? with->raw() : nullptr);
  };
  if (epilogue != Epilogue::none) {
    // A column of y' has as many numbers as the bias has. The rows of a are the columns of B.
    set_epilogue(epilogue == Epilogue::bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_BGRADB, vector);
    if (choose_algorithm(handle, preference, *plan)) return plan;
    set_epilogue(CUBLASLT_EPILOGUE_DEFAULT, nullptr);
    plan->epilogue = Epilogue::none;
  }
  if (!choose_algorithm(handle, preference, *plan)) plan->epilogue = std::nullopt;
  return plan;
}

// "f32 (3, 70) x (70, 2), strides (70, 1) and (2, 1) -> f32"
std::string words_for(const Array& a, const Array& b, const Array& y) {
  std::ostringstream text;
  text << a.dtype() << ' ' << a.shape() << " x " << b.shape() << ", strides " << a.strides() << " and " << b.strides()
       << " -> " << y.dtype();
  return text.str();
}

void log(const Plan& plan, const Array& a, const Array& b, Epilogue wanted, const Array& y) {
  std::ostringstream text;
  text << "cuBLASLt " << words_for(a, b, y);
  if (!plan.epilogue) return log_plan(text.str() + ": no algorithm");
  int algorithm = 0, parts = 0;
  std::size_t written = 0;
  cublasLtMatmulAlgoConfigGetAttribute(&plan.algorithm, CUBLASLT_ALGO_CONFIG_ID, &algorithm, sizeof algorithm,
                                       &written);
  cublasLtMatmulAlgoConfigGetAttribute(&plan.algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts, sizeof parts,
                                       &written);
  const char* const names[] = {"no epilogue", "bias", "row sums"};
  text << ", " << names[static_cast<int>(*plan.epilogue)];
  if (plan.epilogue != wanted) text << " (no algorithm for " << names[static_cast<int>(wanted)] << ')';
  text << ": algorithm " << algorithm << ", " << parts << " parts along K, workspace " << (plan.workspace >> 10)
       << " KiB";
  log_plan(text.str());
}

// Returns which epilogue was applied, or nullopt if cuBLASLt has no algorithm. If `only_with_it`, the product is not
// computed without the wanted epilogue.
std::optional<Epilogue> multiply(const Array& a, const Array& b, Epilogue epilogue, const Array* vector, const Array& y,
                                 bool only_with_it, const ProductMode& mode) {
  auto& library = Library<cublasLtHandle_t, Plan>::of(y.device().index);
  const std::lock_guard lock(library.mutex);
  if (!library.handle) TANDEM_CUBLAS(cublasLtCreate(&library.handle));
  CallKey key(a.dtype(), y.dtype(), epilogue, mode.tf32, mode.adds, vector ? alignment_of(vector->raw()) : 0);
  for (const Array* m : {&a, &b, &y}) {
    key.add(alignment_of_matrices(*m));
    key.add(m->shape());
    key.add(m->strides());
  }
  Plan& plan = library.plans.get(key, [&] {
    auto made = make_plan(library.handle, a, b, epilogue, vector, y, mode.tf32);
    if (has_plan_log()) log(*made, a, b, epilogue, y);
    return made;
  });
  if (!plan.epilogue || (only_with_it && plan.epilogue != epilogue)) return plan.epilogue;
  if (plan.epilogue != Epilogue::none) set_vector(plan.operation, vector->raw());
  Array workspace;
  if (plan.workspace > 0) workspace = Array::empty({static_cast<std::int64_t>(plan.workspace)}, DType::u8, y.device());
  // The factors are read from the host, in the operation's scale type.
  const float narrow[] = {0, 1};
  const double wide[] = {0, 1};
  const auto factor = [&](bool is_one) {
    return y.dtype() == DType::f64 ? static_cast<const void*>(&wide[is_one]) : &narrow[is_one];
  };
  const cublasStatus_t status =
      cublasLtMatmul(library.handle, plan.operation.get(), factor(true), b.raw(), plan.a.get(), a.raw(), plan.b.get(),
                     factor(mode.adds), y.raw(), plan.d.get(), y.raw(), plan.d.get(), &plan.algorithm,
                     workspace.defined() ? workspace.raw() : nullptr, plan.workspace, current_stream());
  if (status != CUBLAS_STATUS_SUCCESS) check(status, ("cublasLtMatmul of " + words_for(a, b, y)).c_str());
  return plan.epilogue;
}

}  // namespace

Product multiply(const Array& a, const Array& b, const Array* bias, const Array& y, const ProductMode& mode) {
  const Epilogue wanted = bias ? Epilogue::bias : Epilogue::none;
  const auto applied = multiply(a, b, wanted, bias, y, false, mode);
  return !applied ? Product::none : *applied == wanted ? Product::whole : Product::without_bias;
}

bool multiply_with_row_sums(const Array& a, const Array& b, const Array& y, const Array& row_sums,
                            const ProductMode& mode) {
  return multiply(a, b, Epilogue::row_sums, &row_sums, y, true, mode) == Epilogue::row_sums;
}

}  // namespace tandem::cuda
