// Operations that copy numbers to new positions. Views are members of Array. Names and meanings are PyTorch's.
#pragma once

#include <tandem/core/array/array.h>

#include <span>
#include <vector>

namespace tandem {

// What fills the padding around an array: a constant; the array's mirror image, without repeating the edge; the number
// at the edge; or the numbers from the opposite side.
enum class PadMode { constant, reflect, replicate, circular };

namespace ops {

// Concatenates the inputs along `dim`, in the promoted dtype. All other dimensions must be equal. Inputs of shape (0)
// are skipped.
Array cat(std::span<const Array> inputs, std::int64_t dim = 0);
// Joins the inputs along a new dimension. All inputs have the same shape.
Array stack(std::span<const Array> inputs, std::int64_t dim = 0);

// {before, after} for the last dimension, then for the dimension before it, and so on. A negative number, allowed only
// in constant mode, cuts off that many elements. Reflection must be smaller than the dimension, and circular padding no
// larger than the dimension.
using Padding = std::vector<std::int64_t>;
Array pad(const Array& x, const Padding& padding, PadMode mode = PadMode::constant, Number value = 0);
// Computes the gradient with respect to x (of shape `shape`) from the gradient of pad(x, ...).
Array pad_grad(const Array& grad, const Shape& shape, const Padding& padding, PadMode mode);

// Shifts x along `dims`. Elements shifted out at one end reappear at the other. Without `dims`, x is shifted as one
// long row.
Array roll(const Array& x, const Dims& shifts, const Dims& dims = {});
Array flip(const Array& x, const Dims& dims);
// Tiles x: repeats[i] copies along dimension i. If there are more repeats than dimensions, x gets new leading
// dimensions.
Array repeat(const Array& x, const Dims& repeats);
// Repeats each element `repeats` times in a row along `dim`.
Array repeat_interleave(const Array& x, std::int64_t repeats, std::int64_t dim);
// The gradients of repeat and repeat_interleave sum over the repetitions. `shape` is the shape of x.
Array repeat_grad(const Array& grad, const Shape& shape, const Dims& repeats);
Array repeat_interleave_grad(const Array& grad, const Shape& shape, std::int64_t repeats, std::int64_t dim);

// Returns x (..., M, N) on and below (triu: above) the diagonal of the elements (i, i + diagonal), and 0 elsewhere.
Array tril(const Array& x, std::int64_t diagonal = 0);
Array triu(const Array& x, std::int64_t diagonal = 0);

}  // namespace ops
}  // namespace tandem
