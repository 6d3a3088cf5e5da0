#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/loops.h>
#include <tandem/core/cpu/parallel.h>

#include <algorithm>
#include <cstring>

namespace tandem {

namespace {

// Moves numbers of one size without looking at them. Where source and target are dense in different dimensions (a
// transposition), it goes by tiles, so that each cache line is fetched once.
template <class Bits>
void copy_bits(const Array& from, const Array& to) {
  const cpu::LoopPlan<2> plan({&from, &to});
  const int inner = plan.rank - 1;
  int dense_in_source = inner;
  for (int d = 0; d < plan.rank; ++d)
    if (plan.stride[d][0] == 1) dense_in_source = d;
  const Bits* source = static_cast<const Bits*>(from.raw());
  Bits* target = static_cast<Bits*>(to.raw());
  if (dense_in_source == inner || plan.stride[inner][1] != 1) {
    cpu::transform<Bits, Bits>(from, to, [](Bits x) { return x; });
    return;
  }
  const std::int64_t columns = plan.size[inner], column_stride = plan.stride[inner][0];
  const std::int64_t rows = plan.size[dense_in_source], row_stride = plan.stride[dense_in_source][1];
  constexpr std::int64_t tile = 16;
  cpu::parallel_for(to.numel() / (rows * columns), to.numel(), [&](std::int64_t matrix) {
    const Bits* a = source;
    Bits* b = target;
    for (int d = inner - 1; d >= 0; --d) {
      if (d == dense_in_source) continue;
      const std::int64_t i = matrix % plan.size[d];
      matrix /= plan.size[d];
      a += i * plan.stride[d][0];
      b += i * plan.stride[d][1];
    }
    for (std::int64_t r0 = 0; r0 < rows; r0 += tile) {
      const std::int64_t r1 = std::min(rows, r0 + tile);
      for (std::int64_t c0 = 0; c0 < columns; c0 += tile) {
        const std::int64_t c1 = std::min(columns, c0 + tile);
        for (std::int64_t r = r0; r < r1; ++r)
          for (std::int64_t c = c0; c < c1; ++c) b[r * row_stride + c] = a[c * column_stride + r];
      }
    }
  });
}

}  // namespace

void CpuBackend::copy(const Array& from, const Array& to) {
  if (from.dtype() == to.dtype()) {
    switch (size_of(from.dtype())) {
      case 1: return copy_bits<std::uint8_t>(from, to);
      case 2: return copy_bits<std::uint16_t>(from, to);
      case 4: return copy_bits<std::uint32_t>(from, to);
      default: return copy_bits<std::uint64_t>(from, to);
    }
  }
  dispatch(from.dtype(), [&](auto source) {
    using In = decltype(source);
    dispatch(to.dtype(), [&](auto target) {
      using Out = decltype(target);
      cpu::transform<Out, In>(from, to, [](In x) { return static_cast<Out>(static_cast<compute_t<In>>(x)); });
    });
  });
}

void CpuBackend::fill(const Array& to, double value) {
  dispatch(to.dtype(), [&](auto type) {
    using T = decltype(type);
    const T converted = static_cast<T>(static_cast<compute_t<T>>(value));
    T* data = static_cast<T*>(to.raw());
    // Not a transform of what is there: new memory may hold what is no bool.
    cpu::for_each_row<1>({&to}, [=](const auto& offset, const auto& stride, std::int64_t n) {
      T* row = data + offset[0];
      if (stride[0] == 1) std::fill_n(row, n, converted);
      else
        for (std::int64_t i = 0; i < n; ++i) row[i * stride[0]] = converted;
    });
  });
}

void CpuBackend::map(const UnaryOp& op, const Array& x, const Array& y) {
  std::visit(
      [&](const auto& f) {
        const auto run = [&](auto type) {
          using T = decltype(type);
          cpu::transform<T, T>(x, y,
                               [f](T v) { return static_cast<T>(f.value(static_cast<compute_t<T>>(v))); });
        };
        using F = std::decay_t<decltype(f)>;
        if constexpr (std::is_same_v<F, functors::Affine>) dispatch_number(x.dtype(), "arithmetic", run);
        else dispatch_floating(x.dtype(), "element-wise operation", run);
      },
      op);
}

void CpuBackend::map_grad(const UnaryOp& op, const Array& saved, const Array& grad_y, const Array& grad_x) {
  std::visit(
      [&](const auto& f) {
        dispatch_floating(grad_y.dtype(), "gradient of an element-wise operation", [&](auto type) {
          using T = decltype(type);
          using C = compute_t<T>;
          cpu::transform<T, T>(saved, grad_y, grad_x, [f](T s, T g) {
            return static_cast<T>(static_cast<C>(g) * f.derivative(static_cast<C>(s)));
          });
        });
      },
      op);
}

void CpuBackend::zip(const BinaryOp& op, const Array& a, const Array& b, const Array& y) {
  std::visit(
      [&](const auto& f) {
        dispatch_number(y.dtype(), "arithmetic", [&](auto type) {
          using T = decltype(type);
          using C = compute_t<T>;
          cpu::transform<T, T>(a, b, y, [f](T u, T v) {
            return static_cast<T>(f.value(static_cast<C>(u), static_cast<C>(v)));
          });
        });
      },
      op);
}

void CpuBackend::zip_grad(const BinaryOp& op, int operand, const Array& a, const Array& b,
                          const Array& grad_y, const Array& grad) {
  std::visit(
      [&](const auto& f) {
        dispatch_floating(grad.dtype(), "gradient of an element-wise operation", [&](auto type) {
          using T = decltype(type);
          using C = compute_t<T>;
          cpu::transform<T, T>(a, b, grad, [f, operand](T u, T v) {
            const C x = u, y = v;
            return static_cast<T>(operand == 0 ? f.derivative_a(x, y) : f.derivative_b(x, y));
          });
          cpu::transform<T, T>(grad, grad_y, grad, [](T d, T g) {
            return static_cast<T>(static_cast<C>(d) * static_cast<C>(g));
          });
        });
      },
      op);
}

void CpuBackend::compare(const CompareOp& op, const Array& a, const Array& b, const Array& y) {
  std::visit(
      [&](const auto& f) {
        dispatch(a.dtype(), [&](auto type) {
          using T = decltype(type);
          using C = compute_t<T>;
          cpu::transform<bool, T>(a, b, y,
                                  [f](T u, T v) { return f.value(static_cast<C>(u), static_cast<C>(v)); });
        });
      },
      op);
}

}  // namespace tandem
