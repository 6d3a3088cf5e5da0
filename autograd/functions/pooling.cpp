#include <tandem/autograd/functions/pooling.h>
#include <tandem/autograd/images_and_signals.h>
#include <tandem/autograd/operation.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/ops.h>

namespace tandem {

using namespace autograd;

namespace {

// Max pooling. If `places` is not null, it gets the position of each maximum within its window.
Tensor pool_maximum(const Tensor& x, const Pooling& pooling, Kind kind, const char* operation,
                    Array* places = nullptr) {
  const auto pooled = ops::max_pool2d(as_image(x.value(), kind), pooling);
  if (places != nullptr) *places = pooled.index;
  return record(operation, {x}, as_given(pooled.y, kind),
                [index = pooled.index, pooling, kind](const Array& grad, Needs) -> Gradients {
                  return {as_given(ops::max_pool2d_grad(as_image(grad, kind), index, pooling), kind)};
                });
}

// Turns positions within windows into row-major positions in the image.
Array in_plane(const Array& places, const Pooling& pooling) {
  using functors::Add, functors::Affine;
  const auto [h, w] = std::pair(pooling.h, pooling.w);
  const auto begins = [&](const PoolAxis& axis, const Shape& shape) {
    std::vector<std::int64_t> values;
    for (std::int64_t o = 0; o < axis.outputs; ++o) values.push_back(axis.taps(o).begin);
    return Array::from(values, shape).to(places.device());
  };
  const Array of_window = places.to(DType::i64),
              width = ops::scalar(static_cast<double>(w.kernel), DType::i64, places.device());
  const auto along = [&](const BinaryOp& op, const PoolAxis& axis, const Shape& shape) {
    const Array steps = ops::map(Affine{static_cast<double>(axis.dilation)}, ops::zip(op, of_window, width));
    return ops::zip(Add{}, steps, begins(axis, shape));
  };
  const Array row = along(functors::FloorDivide{}, h, {h.outputs, 1}),
              column = along(functors::Remainder{}, w, {w.outputs});
  return ops::zip(Add{}, ops::map(Affine{static_cast<double>(w.size)}, row), column);
}

Tensor pool_average(const Tensor& x, const Pooling& pooling, Kind kind, const char* operation) {
  return record(operation, {x}, as_given(ops::avg_pool2d(as_image(x.value(), kind), pooling), kind),
                [pooling, kind](const Array& grad, Needs) -> Gradients {
                  return {as_given(ops::avg_pool2d_grad(as_image(grad, kind), pooling), kind)};
                });
}

void check_pooled(const Tensor& x, Kind kind, const char* operation) {
  check_ndim(x, kind, operation, "input", batch_shape(kind));
}

// Describes how windows of `kernel_size` lie on x, from the options that max and average pooling share.
template <class Options>
Pooling pooling_of(const Tensor& x, Extent kernel_size, const Options& o, Extent dilation, Kind kind,
                   const char* operation) {
  check_pooled(x, kind, operation);
  const Window window{extent_of(kernel_size, kind, 1, operation),
                      extent_of(o.stride.value_or(kernel_size), kind, 1, operation),
                      extent_of(o.padding, kind, 0, operation), extent_of(dilation, kind, 1, operation)};
  return ops::pooling_of(as_image(x.value(), kind), window, o.ceil_mode, operation);
}

Tensor max_pool(const Tensor& x, Extent kernel_size, const MaxPool2dOptions& o, Kind kind, const char* operation) {
  const Scope scope(operation);
  return pool_maximum(x, pooling_of(x, kernel_size, o, o.dilation, kind, operation), kind, operation);
}

Tensor avg_pool(const Tensor& x, Extent kernel_size, const AvgPool2dOptions& o, Kind kind, const char* operation) {
  const Scope scope(operation);
  TANDEM_CHECK(!o.divisor_override || *o.divisor_override != 0, operation, ": divisor_override must not be 0");
  Pooling pooling = pooling_of(x, kernel_size, o, 1, kind, operation);
  pooling.count_include_pad = o.count_include_pad;
  pooling.divisor = o.divisor_override.value_or(0);
  return pool_average(x, pooling, kind, operation);
}

Pooling adaptive(const Tensor& x, Extent output_size, Kind kind, const char* operation) {
  check_pooled(x, kind, operation);
  return ops::adaptive_pooling_of(as_image(x.value(), kind), extent_of(output_size, kind, 1, operation), operation);
}

Tensor adaptive_average(const Tensor& x, Extent output_size, Kind kind, const char* operation) {
  const Scope scope(operation);
  const Pooling pooling = adaptive(x, output_size, kind, operation);
  // A single window over the whole image is a mean. A mean works in any memory order, and its gradient is one repeated
  // number.
  if (pooling.h.outputs == 1 && pooling.w.outputs == 1)
    return mean(x, kind == Kind::signal ? Dims{2} : Dims{2, 3}, true);
  return pool_average(x, pooling, kind, operation);
}

Tensor adaptive_maximum(const Tensor& x, Extent output_size, Kind kind, const char* operation) {
  const Scope scope(operation);
  return pool_maximum(x, adaptive(x, output_size, kind, operation), kind, operation);
}

}  // namespace

Tensor max_pool2d(const Tensor& x, Extent kernel_size, const MaxPool2dOptions& options) {
  return of_batch(max_pool, Kind::image, "max_pool2d", x, kernel_size, options);
}
Tensor max_pool1d(const Tensor& x, Extent kernel_size, const MaxPool1dOptions& options) {
  return of_batch(max_pool, Kind::signal, "max_pool1d", x, kernel_size, options);
}
ValuesAndIndices max_pool2d_with_indices(const Tensor& x, Extent kernel_size, const MaxPool2dOptions& options) {
  Array indices;
  const auto pool = [&](const Tensor& batch, Kind kind, const char* operation) {
    const Scope scope(operation);
    const Pooling pooling = pooling_of(batch, kernel_size, options, options.dilation, kind, operation);
    const Tensor y = pool_maximum(batch, pooling, kind, operation, &indices);
    indices = in_plane(indices, pooling);
    return y;
  };
  const Tensor values = of_batch(pool, Kind::image, "max_pool2d_with_indices", x);
  return {values, indices.reshape(values.shape())};
}
Tensor avg_pool2d(const Tensor& x, Extent kernel_size, const AvgPool2dOptions& options) {
  return of_batch(avg_pool, Kind::image, "avg_pool2d", x, kernel_size, options);
}
Tensor avg_pool1d(const Tensor& x, Extent kernel_size, const AvgPool1dOptions& options) {
  return of_batch(avg_pool, Kind::signal, "avg_pool1d", x, kernel_size, options);
}

Tensor adaptive_avg_pool2d(const Tensor& x, Extent output_size) {
  return of_batch(adaptive_average, Kind::image, "adaptive_avg_pool2d", x, output_size);
}
Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t output_size) {
  return of_batch(adaptive_average, Kind::signal, "adaptive_avg_pool1d", x, output_size);
}
Tensor adaptive_max_pool2d(const Tensor& x, Extent output_size) {
  return of_batch(adaptive_maximum, Kind::image, "adaptive_max_pool2d", x, output_size);
}

}  // namespace tandem
