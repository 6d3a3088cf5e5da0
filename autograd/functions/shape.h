// Operations that join, repeat or move elements. Names and semantics are PyTorch's. A negative dimension counts from
// the end. Results are new arrays unless stated otherwise. functions/views.h has the views.
#pragma once

#include <tandem/autograd/functions/views.h>
#include <tandem/core/ops/shape.h>

#include <span>
#include <vector>

namespace tandem {

// Joins inputs along `dim`, in the promoted dtype. All other sizes must be equal. Inputs of shape (0) are skipped.
Tensor cat(std::span<const Tensor> inputs, std::int64_t dim = 0);
inline Tensor cat(std::initializer_list<Tensor> inputs, std::int64_t dim = 0) {
  return cat(std::span(inputs.begin(), inputs.size()), dim);
}
// Joins inputs of the same shape along a new dimension.
Tensor stack(std::span<const Tensor> inputs, std::int64_t dim = 0);
inline Tensor stack(std::initializer_list<Tensor> inputs, std::int64_t dim = 0) {
  return stack(std::span(inputs.begin(), inputs.size()), dim);
}

// The order of dimensions in meshgrid(). ij: dimension i belongs to tensor i. xy: the first two dimensions are swapped.
enum class Indexing { ij, xy };
// The coordinates of a grid. Result i is the vector `tensors[i]` along dimension i, repeated along the other
// dimensions. The results are views.
std::vector<Tensor> meshgrid(std::span<const Tensor> tensors, Indexing indexing = Indexing::ij);
inline std::vector<Tensor> meshgrid(std::initializer_list<Tensor> tensors, Indexing indexing = Indexing::ij) {
  return meshgrid(std::span(tensors.begin(), tensors.size()), indexing);
}

// `padding` is {before, after} for the last dimension, then for the dimension before it, and so on. A negative number
// crops (PadMode::constant only).
Tensor pad(const Tensor& x, const ops::Padding& padding, PadMode mode = PadMode::constant, Number value = 0);
// Shifts elements along `dims`. Elements that leave at one end enter at the other. Without `dims`, x is treated as
// flattened.
Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims = {});
Tensor flip(const Tensor& x, const Dims& dims);  // reverses each of `dims`
// Repeats x repeats[i] times along dimension i. More repeats than dimensions add leading dimensions.
Tensor repeat(const Tensor& x, const Dims& repeats);
Tensor tile(const Tensor& x,
            const Dims& repeats);  // like repeat(), but fewer repeats than dimensions apply to the last dimensions
// Repeats each element `repeats` times in a row along `dim`. Without `dim`, x is flattened.
Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::int64_t dim);
Tensor repeat_interleave(const Tensor& x, std::int64_t repeats);
// Returns x (..., M, N) on and below (above) the diagonal of the elements (i, i + diagonal), and 0 elsewhere.
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);

Tensor contiguous(const Tensor& x);  // row-major; returns x itself if it is already row-major
Tensor clone(const Tensor& x);

}  // namespace tandem
