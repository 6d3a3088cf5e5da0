#include <tandem/autograd/autocast.h>
#include <tandem/autograd/functions/elementwise.h>
#include <tandem/autograd/functions/reduce.h>
#include <tandem/autograd/functions/views.h>
#include <tandem/autograd/operation.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/ops.h>

#include <cmath>

namespace tandem {

using namespace autograd;

namespace {

Array scaled(const Array& x, double factor) { return factor == 1 ? x : ops::map(functors::Affine{factor, 0}, x); }

// The result of a reduction in two shapes. `kept` keeps the reduced dimensions with size 1, and the gradient broadcasts
// from it. `value` has the shape that the caller wants.
struct Reduced {
  Array kept, value;
  Reduced(const Reduction& op, const Array& x, const Dims& dims, bool keepdim)
      : kept(ops::reduce(op, x, dims, true)), value(keepdim ? kept : ops::without_reduced(kept, dims)) {}
};

// A reduction whose derivative can be computed from x and the result.
Tensor differentiable(const char* name, const Reduction& op, const Tensor& x, const Dims& dims, bool keepdim) {
  const Scope scope(name);
  const Reduced y(op, x.value(), dims, keepdim);
  return record(name, {x}, y.value,
                [op, in = Saved(name, x.value()), out = Saved(name, y.kept)](const Array& grad, Needs) -> Gradients {
                  const Array& kept = out;
                  return {ops::reduce_grad(op, in, kept, grad.reshape(kept.shape()))};
                });
}

// A reduction such as max. Its gradient goes to the elements that equal the result, in equal shares.
Tensor extreme(const char* name, const Reduction& op, const Tensor& x, const Dims& dims, bool keepdim) {
  const Scope scope(name);
  const Reduced y(op, x.value(), dims, keepdim);
  return record(
      name, {x}, y.value,
      [op, dims, in = Saved(name, x.value()), out = Saved(name, y.kept)](const Array& grad, Needs) -> Gradients {
        using reductions::CountNonzero;
        const Array& kept = out;
        const Array one = ops::ones({}, grad.dtype(), grad.device());
        // 1 where an element equals the result, -1 where a negative element has the result as its magnitude, 0
        // elsewhere.
        const Array equals = ops::reduce_grad(op, in, kept, one);
        const Array count = ops::reduce(Reduction::count_nonzero, equals, dims, true).to(grad.dtype());
        const Array any = ops::reduce(CountNonzero{CountNonzero::Asked::any}, equals, dims, true).to(grad.dtype());
        const Array divisor = ops::zip(functors::Add{}, count, ops::map(functors::Affine{-1, 1}, any));
        return {ops::zip(functors::Mul{}, equals, ops::zip(functors::Div{}, grad.reshape(kept.shape()), divisor))};
      });
}

Tensor variance(const char* name, bool root, const Tensor& x, const Dims& dims, const VarOptions& options) {
  const Scope scope(name);
  const double correction = options.correction;
  const Reduced y(reductions::Var{correction, root}, x.value(), dims, options.keepdim);
  return record(name, {x}, y.value,
                [=, in = Saved(name, x.value()), out = Saved(name, y.kept)](const Array& grad, Needs) -> Gradients {
                  const Array& kept = out;
                  // A 16-bit mean would be too imprecise to subtract.
                  const DType dtype = promote(kept.dtype(), DType::f32);
                  const Array values = in.get().to(dtype);
                  const double count = static_cast<double>(values.numel()) /
                                       static_cast<double>(std::max<std::int64_t>(1, kept.numel()));
                  const double freedom = count - correction;
                  Array of_var = scaled(grad.reshape(kept.shape()).to(dtype), (root ? 1 : 2) / freedom);
                  // The derivative of sqrt(v) is dv / (2 sqrt(v)). It counts as 0 if all values are equal.
                  if (root) {
                    const Array one = ops::ones({}, dtype, grad.device());
                    of_var = ops::reduce_grad(reductions::Norm{2}, of_var, kept, one);
                  }
                  // If numbers are far from zero, their sum has lost digits that their differences from the mean still
                  // have.
                  const Array rough = ops::reduce(Reduction::mean, values, dims, true);
                  const Array rest = ops::reduce(Reduction::mean, ops::zip(functors::Sub{}, values, rough), dims, true);
                  const Array mean = ops::zip(functors::Add{}, rough, rest);
                  return {ops::reduce_grad(reductions::Var{}, values, mean, of_var).to(grad.dtype())};
                });
}

Tensor number_of_nonzeros(const Tensor& x, const Dims& dims, bool keepdim) {
  const Array count = ops::reduce(Reduction::count_nonzero, x.value(), dims, keepdim).to(x.dtype());
  return record("norm", {x}, count, [shape = x.shape()](const Array& grad, Needs) -> Gradients {
    return {ops::zeros({}, grad.dtype(), grad.device()).expand(shape)};
  });
}

}  // namespace

Tensor sum(const Tensor& input, const Dims& dims, bool keepdim) {
  const Scope scope("sum");
  const Tensor x = autocast_f32(input);
  const Array value = ops::reduce(Reduction::sum, x.value(), dims, keepdim);
  return record("sum", {x}, value,
                [shape = x.shape(), kept = ops::kept_shape(x.value(), dims, "sum")](
                    const Array& grad, Needs) -> Gradients { return {grad.reshape(kept).expand(shape)}; });
}

Tensor mean(const Tensor& x, const Dims& dims, bool keepdim) {
  const Scope scope("mean");
  const Array value = ops::reduce(Reduction::mean, x.value(), dims, keepdim);
  const double share = static_cast<double>(value.numel()) / static_cast<double>(x.numel());
  return record(
      "mean", {x}, value,
      [shape = x.shape(), kept = ops::kept_shape(x.value(), dims, "mean"), share](
          const Array& grad, Needs) -> Gradients { return {scaled(grad, share).reshape(kept).expand(shape)}; });
}

Tensor prod(const Tensor& input, const Dims& dims, bool keepdim) {
  const Scope scope("prod");
  const Tensor x = autocast_f32(input);
  const Reduced y(Reduction::prod, x.value(), dims, keepdim);
  return record(
      "prod", {x}, y.value,
      [dims, in = Saved("prod", x.value()), out = Saved("prod", y.kept)](const Array& grad, Needs) -> Gradients {
        const Array& kept = out;
        const Array grad_kept = grad.reshape(kept.shape());
        // The derivative with respect to one element is the product of the other elements. If x is not 0, that is y /
        // x. If x is the only 0, it is the product of the elements that are not 0. Otherwise it is 0.
        const Array others = ops::reduce(reductions::Prod{true}, in, dims, true);
        return {ops::reduce_grad(Reduction::prod, in, ops::zip(functors::Mul{}, grad_kept, others),
                                 ops::zip(functors::Mul{}, grad_kept, kept))};
      });
}

Tensor var(const Tensor& x, const Dims& dims, const VarOptions& options) {
  return variance("var", false, x, dims, options);
}
Tensor stddev(const Tensor& x, const Dims& dims, const VarOptions& options) {
  return variance("stddev", true, x, dims, options);
}

Tensor norm(const Tensor& input, double p, const Dims& dims, bool keepdim) {
  const Tensor x = autocast_f32(input);
  TANDEM_CHECK(is_floating(x.dtype()), "norm: needs a floating dtype, got ", x.dtype());
  TANDEM_CHECK(!std::isnan(p), "norm: p must be a number, got nan");
  if (p == 0) return number_of_nonzeros(x, dims, keepdim);
  if (std::isinf(p))
    return p > 0 ? extreme("norm", reductions::MaxMagnitude{}, x, dims, keepdim)
                 : extreme("norm", reductions::MinMagnitude{}, x, dims, keepdim);
  return differentiable("norm", reductions::Norm{p}, x, dims, keepdim);
}

Tensor logsumexp(const Tensor& x, const Dims& dims, bool keepdim) {
  const Tensor number = is_floating(x.dtype()) ? autocast_f32(x) : Tensor(x.value().to(DType::f32));
  return differentiable("logsumexp", reductions::LogSumExp{}, number, dims, keepdim);
}

Tensor amax(const Tensor& x, const Dims& dims, bool keepdim) {
  return extreme("amax", Reduction::max, x, dims, keepdim);
}
Tensor amin(const Tensor& x, const Dims& dims, bool keepdim) {
  return extreme("amin", Reduction::min, x, dims, keepdim);
}
Tensor max(const Tensor& x) { return extreme("max", Reduction::max, x, {}, false); }
Tensor min(const Tensor& x) { return extreme("min", Reduction::min, x, {}, false); }

Array argmax(const Tensor& x, std::optional<std::int64_t> dim, bool keepdim) {
  const Scope scope("argmax");
  return ops::argmax(x.value(), dim, keepdim);
}
Array argmin(const Tensor& x, std::optional<std::int64_t> dim, bool keepdim) {
  const Scope scope("argmin");
  return ops::argmin(x.value(), dim, keepdim);
}

Array any(const Tensor& x, const Dims& dims, bool keepdim) {
  const Scope scope("any");
  using reductions::CountNonzero;
  return ops::reduce(CountNonzero{CountNonzero::Asked::any}, x.value(), dims, keepdim);
}
Array all(const Tensor& x, const Dims& dims, bool keepdim) {
  const Scope scope("all");
  using reductions::CountNonzero;
  return ops::reduce(CountNonzero{CountNonzero::Asked::all}, x.value(), dims, keepdim);
}
Array count_nonzero(const Tensor& x, const Dims& dims) {
  const Scope scope("count_nonzero");
  return ops::reduce(Reduction::count_nonzero, x.value(), dims);
}

Tensor cumsum(const Tensor& input, std::int64_t dim) {
  const Scope scope("cumsum");
  const Tensor x = autocast_f32(input);
  return record("cumsum", {x}, ops::cumsum(x.value(), dim),
                [dim](const Array& grad, Needs) -> Gradients { return {ops::cumsum(grad, dim, true)}; });
}

Tensor cumprod(const Tensor& input, std::int64_t dim) {
  const Scope scope("cumprod");
  const Tensor x = autocast_f32(input);
  const Array y = ops::cumprod(x.value(), dim);
  return record(
      "cumprod", {x}, y,
      [dim, in = Saved("cumprod", x.value()), out = Saved("cumprod", y)](const Array& grad, Needs) -> Gradients {
        using functors::Div, functors::Equal, functors::Mul, functors::And;
        const auto sums = [&](const Array& products) {
          return ops::cumsum(ops::zip(Mul{}, grad, products), dim, true);
        };
        const Array zero = ops::zeros({}, grad.dtype(), grad.device());
        const Array one = ops::ones({}, grad.dtype(), grad.device());
        // The derivative of a product with respect to one of its factors x is y / x if x comes before the first zero.
        // At the first zero it is the product of the other factors, as if the zero were a 1. After the first zero every
        // product is 0, and so is the gradient.
        const Array is_zero = ops::compare(Equal{}, in, 0), zeros = ops::cumsum(is_zero, dim);
        const Array is_first = ops::compare(And{}, is_zero, ops::compare(Equal{}, zeros, 1));
        const Array without = ops::cumprod(ops::where(is_first, one, in), dim);
        return {ops::where(ops::compare(Equal{}, zeros, 0), ops::zip(Div{}, sums(out), in),
                           ops::where(is_first, sums(without), zero))};
      });
}

Tensor diff(const Tensor& x, std::int64_t n, std::int64_t dim) {
  TANDEM_CHECK(n >= 0, "diff: n must not be negative, got ", n);
  TANDEM_CHECK(x.shape().ndim() > 0, "diff: expected at least one dimension, got a scalar");
  Tensor y = x;
  for (std::int64_t i = 0; i < n && y.dim(dim) > 0; ++i) {
    const std::int64_t size = y.dim(dim) - 1;
    const Tensor later = narrow(y, dim, 1, size), earlier = narrow(y, dim, 0, size);
    y = x.dtype() == DType::boolean ? Tensor(logical_xor(later, earlier)) : later - earlier;
  }
  return y;
}

}  // namespace tandem
