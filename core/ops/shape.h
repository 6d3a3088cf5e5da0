// The same numbers in another arrangement, copied; views are Array's own. Names and meanings are PyTorch's.
#pragma once

#include <tandem/core/array/array.h>

#include <span>
#include <vector>

namespace tandem {

// What lies outside of a padded array: a value; its mirror image without the edge; the edge; the other side.
enum class PadMode { constant, reflect, replicate, circular };

namespace ops {

// One after the other along `dim`, equal in all other dimensions, in the promoted dtype. Inputs of shape (0) are
// skipped.
Array cat(std::span<const Array> inputs, std::int64_t dim = 0);
// One after the other along a new dimension; all of one shape.
Array stack(std::span<const Array> inputs, std::int64_t dim = 0);

// {before, after} of the last dimension, then of the one before it, and so on. Negative: as many are cut off, where the
// mode is constant. Reflection needs less than the size, circular no more than it.
using Padding = std::vector<std::int64_t>;
Array pad(const Array& x, const Padding& padding, PadMode mode = PadMode::constant, double value = 0);
// The gradient of x (of shape `shape`) from that of pad(x, ...).
Array pad_grad(const Array& grad, const Shape& shape, const Padding& padding, PadMode mode);

// Shifted along `dims`, round about; without dims, as one long row.
Array roll(const Array& x, const Dims& shifts, const Dims& dims = {});
Array flip(const Array& x, const Dims& dims);
// x side by side, repeats[i] times along dimension i; more repeats than dimensions add dimensions in front.
Array repeat(const Array& x, const Dims& repeats);
// Each element `repeats` times in a row, along `dim`.
Array repeat_interleave(const Array& x, std::int64_t repeats, std::int64_t dim);
// The gradients of the two: sums over what was repeated. `shape` is that of x.
Array repeat_grad(const Array& grad, const Shape& shape, const Dims& repeats);
Array repeat_interleave_grad(const Array& grad, const Shape& shape, std::int64_t repeats, std::int64_t dim);

// x (..., M, N) on and below (above) the diagonal whose elements are (i, i + diagonal), 0 elsewhere.
Array tril(const Array& x, std::int64_t diagonal = 0);
Array triu(const Array& x, std::int64_t diagonal = 0);

}  // namespace ops
}  // namespace tandem
