#include <tandem/core/array/matrix_layout.h>
#include <tandem/core/base/temporarily.h>
#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/matmul_method.h>
#include <tandem/core/cpu/parallel.h>

#include <Eigen/Core>

#include <algorithm>
#include <optional>
#include <type_traits>
#include <vector>

namespace tandem {

namespace {

// Below this number of multiplications, Eigen's inlined loops are faster than calling a library's kernels.
constexpr std::int64_t eigen_products = 24 * 24 * 24;

// y (B, M, N) = a (B, M, K) b (B, K, N) [+ y]. Each operand has a matrix layout (core/array/matrix_layout.h).
template <class T>
struct Products {
  std::int64_t batch, rows, inner, columns;
  const T* a;
  const T* b;
  T* y;
  std::int64_t a_step, b_step, y_step;  // elements from one matrix of the batch to the next
  MatrixLayout a_layout, b_layout;
  bool adds;

  Products(const Array& left, const Array& right, const Array& out, bool adds)
      : batch(out.ndim() == 3 ? out.dim(0) : 1),
        rows(out.dim(-2)),
        inner(left.dim(-1)),
        columns(out.dim(-1)),
        a(static_cast<const T*>(left.raw())),
        b(static_cast<const T*>(right.raw())),
        y(static_cast<T*>(out.raw())),
        a_step(out.ndim() == 3 ? left.strides()[0] : 0),
        b_step(out.ndim() == 3 ? right.strides()[0] : 0),
        y_step(out.ndim() == 3 ? out.strides()[0] : 0),
        a_layout(*matrix_layout(left)),
        b_layout(*matrix_layout(right)),
        adds(adds) {}
  std::int64_t products() const { return rows * inner * columns; }
};

template <class T>
using RowMajor =
    Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0, Eigen::OuterStride<>>;
template <class T>
using ColumnMajor =
    Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>, 0, Eigen::OuterStride<>>;

// Calls f with a map of the matrix that matches its layout. Eigen multiplies fastest if the type says which dimension
// is dense.
template <class T, class F>
void with_matrix(const T* data, std::int64_t rows, std::int64_t columns, const MatrixLayout& layout, F f) {
  if (layout.transposed) f(ColumnMajor<T>(data, rows, columns, Eigen::OuterStride<>(layout.leading)));
  else f(RowMajor<T>(data, rows, columns, Eigen::OuterStride<>(layout.leading)));
}

template <class T>
void multiply_eigen(const Products<T>& p, std::int64_t i) {
  Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>> y(p.y + i * p.y_step, p.rows,
                                                                                  p.columns);
  with_matrix(p.a + i * p.a_step, p.rows, p.inner, p.a_layout, [&](const auto& left) {
    with_matrix(p.b + i * p.b_step, p.inner, p.columns, p.b_layout, [&](const auto& right) {
      if (p.adds) y.noalias() += left * right;
      else y.noalias() = left * right;
    });
  });
}

void multiply_gemm(const Products<float>& p, std::int64_t i) {
  cpu::gemm({.rows = p.rows,
             .inner = p.inner,
             .columns = p.columns,
             .a = p.a + i * p.a_step,
             .a_layout = p.a_layout,
             .b = p.b + i * p.b_step,
             .b_layout = p.b_layout,
             .y = p.y + i * p.y_step,
             .y_leading = p.columns,
             .beta = p.adds ? 1.f : 0.f});
}

// Computes the product of a row and a column, a single number. The libraries would treat it as a matrix product. The
// sum runs over pieces that do not depend on the number of threads, so the result does not depend on it either.
template <class T>
void multiply_vectors(const Products<T>& p, std::int64_t i) {
  using Vector = Eigen::Matrix<T, Eigen::Dynamic, 1>;
  using Dense = Eigen::Map<const Vector>;
  using Strided = Eigen::Map<const Vector, 0, Eigen::InnerStride<>>;
  const std::int64_t a_step = p.a_layout.transposed ? p.a_layout.leading : 1;
  const std::int64_t b_step = p.b_layout.transposed ? 1 : p.b_layout.leading;
  const auto product = [&](std::int64_t first, std::int64_t n) -> T {
    const T* a = p.a + i * p.a_step + first * a_step;
    const T* b = p.b + i * p.b_step + first * b_step;
    if (a_step == 1 && b_step == 1) return Dense(a, n).dot(Dense(b, n));
    return Strided(a, n, Eigen::InnerStride<>(a_step)).dot(Strided(b, n, Eigen::InnerStride<>(b_step)));
  };
  constexpr std::int64_t piece = cpu::parallel_grain / 2;
  T sum = p.adds ? p.y[i * p.y_step] : T(0);
  if (p.inner <= piece) {
    sum += product(0, p.inner);
  } else {
    std::vector<T> sums(static_cast<std::size_t>((p.inner + piece - 1) / piece));
    cpu::parallel_for(static_cast<std::int64_t>(sums.size()), p.inner, [&](std::int64_t k) {
      sums[static_cast<std::size_t>(k)] = product(k * piece, std::min(piece, p.inner - k * piece));
    });
    for (const T part : sums) sum += part;
  }
  p.y[i * p.y_step] = sum;
}

// Computes products of integers modulo 2^bits, as in all integer arithmetic.
template <class T>
void multiply_integers(const Products<T>& p, std::int64_t i) {
  const auto step = [](const MatrixLayout& l) {
    return l.transposed ? std::pair(std::int64_t{1}, l.leading) : std::pair(l.leading, std::int64_t{1});
  };
  const auto [a_row, a_column] = step(p.a_layout);
  const auto [b_row, b_column] = step(p.b_layout);
  for (std::int64_t r = 0; r < p.rows; ++r) {
    T* y = p.y + i * p.y_step + r * p.columns;
    if (!p.adds) std::fill(y, y + p.columns, T(0));
    for (std::int64_t k = 0; k < p.inner; ++k) {
      const T factor = p.a[i * p.a_step + r * a_row + k * a_column];
      const T* b = p.b + i * p.b_step + k * b_row;
      for (std::int64_t c = 0; c < p.columns; ++c) y[c] = wrapping_sum(y[c], wrapping_product(factor, b[c * b_column]));
    }
  }
}

// Distributes a batch over threads if that keeps all of them busy. Otherwise the libraries divide each product.
template <class T, class F>
void for_each_product(const Products<T>& p, F multiply) {
  const std::int64_t threads = omp_get_max_threads();
  if (p.batch % threads == 0 || p.batch >= 4 * threads)
    cpu::parallel_for(p.batch, p.batch * p.products() / 8, [&](std::int64_t i) { multiply(p, i); });
  else
    for (std::int64_t i = 0; i < p.batch; ++i) multiply(p, i);
}

template <class T>
void multiply(const Array& a, const Array& b, const Array& y, bool adds) {
  const Products<T> p(a, b, y, adds);
  if constexpr (std::is_integral_v<T>) for_each_product(p, multiply_integers<T>);
  else if (p.rows * p.columns == 1) for_each_product(p, multiply_vectors<T>);
  else if constexpr (std::is_same_v<T, double>) for_each_product(p, multiply_eigen<T>);
  else for_each_product(p, p.products() < eigen_products ? multiply_eigen<float> : multiply_gemm);
}

// A product with fewer multiplications than this is finished before other threads have woken up.
constexpr std::int64_t team_products = 512 * 1024;

// While this object lives, this thread starts no other threads.
class WithoutTeam : NoCopy {
 public:
  WithoutTeam() : threads_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~WithoutTeam() { omp_set_num_threads(threads_); }

 private:
  const int threads_;
};

}  // namespace

void cpu::gemm(const Gemm& g) {
  if (const auto methods = matmul_methods.entries(); !methods.empty()) return methods.front().gemm(g);
  using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::Map<Rows, 0, Eigen::OuterStride<>> y(g.y, g.rows, g.columns, Eigen::OuterStride<>(g.y_leading));
  if (g.beta == 0) y.setZero();
  else if (g.beta != 1) y *= g.beta;
  with_matrix(g.a, g.rows, g.inner, g.a_layout, [&](const auto& a) {
    with_matrix(g.b, g.inner, g.columns, g.b_layout, [&](const auto& b) { y.noalias() += g.alpha * a * b; });
  });
}

void CpuBackend::matmul(const Array& left, const Array& right, const std::optional<Array>& bias, const Array& y) {
  std::optional<WithoutTeam> alone;
  if (y.numel() > 1 && y.numel() * left.dim(-1) < team_products && omp_get_max_threads() > 1) alone.emplace();
  const Array a = with_matrix_layout(left), b = with_matrix_layout(right);
  const auto methods = cpu::matmul_methods.entries();
  if (y.dtype() == DType::bf16 && !methods.empty() && methods.front().matmul(a, b, bias, y)) return;
  const bool narrow = size_of(y.dtype()) == 2;
  const Array sum = narrow ? Array::empty(y.shape()) : y;
  if (bias) copy(bias->expand(sum.shape()), sum);
  const bool adds = bias.has_value();
  switch (y.dtype()) {
    case DType::f64: return multiply<double>(a, b, y, adds);
    case DType::i64: return multiply<std::int64_t>(a, b, y, adds);
    case DType::i32: return multiply<std::int32_t>(a, b, y, adds);
    case DType::u8: return multiply<std::uint8_t>(a, b, y, adds);
    default: multiply<float>(a.to(DType::f32), b.to(DType::f32), sum, adds);
  }
  if (narrow) copy(sum, y);
}

}  // namespace tandem
