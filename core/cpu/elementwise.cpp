#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/loops.h>

#include <cstring>

namespace tandem {

void CpuBackend::copy(const Array& from, const Array& to) {
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
    cpu::transform<T, T>(to, to, [converted](T) { return converted; });
  });
}

void CpuBackend::map(const UnaryOp& op, const Array& x, const Array& y) {
  std::visit([&](const auto& f) {
    const auto run = [&](auto type) {
      using T = decltype(type);
      cpu::transform<T, T>(x, y, [f](T v) { return static_cast<T>(f.value(static_cast<compute_t<T>>(v))); });
    };
    using F = std::decay_t<decltype(f)>;
    if constexpr (std::is_same_v<F, functors::Affine>) dispatch_number(x.dtype(), "arithmetic", run);
    else dispatch_floating(x.dtype(), "element-wise operation", run);
  }, op);
}

void CpuBackend::map_grad(const UnaryOp& op, const Array& saved, const Array& grad_y, const Array& grad_x) {
  std::visit([&](const auto& f) {
    dispatch_floating(grad_y.dtype(), "gradient of an element-wise operation", [&](auto type) {
      using T = decltype(type);
      using C = compute_t<T>;
      cpu::transform<T, T>(saved, grad_y, grad_x, [f](T s, T g) {
        return static_cast<T>(static_cast<C>(g) * f.derivative(static_cast<C>(s)));
      });
    });
  }, op);
}

void CpuBackend::zip(const BinaryOp& op, const Array& a, const Array& b, const Array& y) {
  std::visit([&](const auto& f) {
    dispatch_number(y.dtype(), "arithmetic", [&](auto type) {
      using T = decltype(type);
      using C = compute_t<T>;
      cpu::transform<T, T>(a, b, y, [f](T u, T v) { return static_cast<T>(f.value(static_cast<C>(u), static_cast<C>(v))); });
    });
  }, op);
}

void CpuBackend::zip_grad(const BinaryOp& op, int operand, const Array& a, const Array& b, const Array& grad_y,
                          const Array& grad) {
  std::visit([&](const auto& f) {
    dispatch_floating(grad.dtype(), "gradient of an element-wise operation", [&](auto type) {
      using T = decltype(type);
      using C = compute_t<T>;
      cpu::transform<T, T>(a, b, grad, [f, operand](T u, T v) {
        const C x = u, y = v;
        return static_cast<T>(operand == 0 ? f.derivative_a(x, y) : f.derivative_b(x, y));
      });
      cpu::transform<T, T>(grad, grad_y, grad, [](T d, T g) { return static_cast<T>(static_cast<C>(d) * static_cast<C>(g)); });
    });
  }, op);
}

void CpuBackend::compare(const CompareOp& op, const Array& a, const Array& b, const Array& y) {
  std::visit([&](const auto& f) {
    dispatch(a.dtype(), [&](auto type) {
      using T = decltype(type);
      using C = compute_t<T>;
      cpu::transform<bool, T>(a, b, y, [f](T u, T v) { return f.value(static_cast<C>(u), static_cast<C>(v)); });
    });
  }, op);
}

}  // namespace tandem
