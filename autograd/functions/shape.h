// Operations that give the same numbers another shape or order. Names and meanings are PyTorch's. A negative dimension
// counts from the end. Results that are views share memory with x.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/ops/shape.h>

#include <span>
#include <vector>

namespace tandem {

// Views.
Tensor view(const Tensor& x, const Shape& shape);     // one size may be -1; Error when no view can express the shape
Tensor reshape(const Tensor& x, const Shape& shape);  // the same, but copies when no view can express the shape
Tensor flatten(const Tensor& x, std::int64_t from_dim = 0, std::int64_t to_dim = -1);
Tensor unflatten(const Tensor& x, std::int64_t dim, const Shape& sizes);  // one size may be -1
Tensor permute(const Tensor& x, const Dims& order);
Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b);
Tensor swapaxes(const Tensor& x, std::int64_t a, std::int64_t b);  // transpose
Tensor t(const Tensor& x);                                         // (M, N) -> (N, M); a vector or scalar stays
Tensor movedim(const Tensor& x, std::int64_t from, std::int64_t to);
Tensor expand(const Tensor& x, const Shape& shape);  // repeats dimensions of size 1; -1 keeps a size
Tensor squeeze(const Tensor& x);                     // drops all dimensions of size 1
Tensor squeeze(const Tensor& x, std::int64_t dim);   // drops `dim` where its size is 1
Tensor squeeze(const Tensor& x, const Dims& dims);
Tensor unsqueeze(const Tensor& x, std::int64_t dim);
// x[begin:end:step] of Python along `dim`.
Tensor slice(const Tensor& x, std::int64_t dim, std::int64_t begin, std::int64_t end = Array::to_end,
             std::int64_t step = 1);
Tensor narrow(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t length);
Tensor select(const Tensor& x, std::int64_t dim, std::int64_t index);  // drops `dim`
Tensor diagonal(const Tensor& x, std::int64_t offset = 0, std::int64_t dim1 = 0, std::int64_t dim2 = 1);

// Views that make up x along `dim`. split() gives parts of `size`, of which the last may be smaller, or parts of the
// given sizes. chunk() gives `count` equal parts, of which the last may be smaller or missing. unbind() gives the
// slices without the dimension. The gradients of all parts gather in one array.
std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t dim = 0);
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, std::int64_t dim = 0);
std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, std::int64_t dim = 0);
std::vector<Tensor> unbind(const Tensor& x, std::int64_t dim = 0);

// Joins inputs along `dim`, in the promoted dtype. All other sizes must be equal. Inputs of shape (0) are skipped.
Tensor cat(std::span<const Tensor> inputs, std::int64_t dim = 0);
inline Tensor cat(std::initializer_list<Tensor> inputs, std::int64_t dim = 0) {
  return cat(std::span(inputs.begin(), inputs.size()), dim);
}
// Joins inputs of one shape along a new dimension.
Tensor stack(std::span<const Tensor> inputs, std::int64_t dim = 0);
inline Tensor stack(std::initializer_list<Tensor> inputs, std::int64_t dim = 0) {
  return stack(std::span(inputs.begin(), inputs.size()), dim);
}

// The order of the dimensions of meshgrid(). ij: dimension i is that of tensor i. xy: the first two change places.
enum class Indexing { ij, xy };
// The coordinates of a grid. Result i is the vector `tensors[i]` along dimension i, repeated along the other
// dimensions. The results are views.
std::vector<Tensor> meshgrid(std::span<const Tensor> tensors, Indexing indexing = Indexing::ij);
inline std::vector<Tensor> meshgrid(std::initializer_list<Tensor> tensors, Indexing indexing = Indexing::ij) {
  return meshgrid(std::span(tensors.begin(), tensors.size()), indexing);
}

// `padding` is {before, after} for the last dimension, then for the dimension before it, and so on. A negative number
// cuts elements off (PadMode::constant only).
Tensor pad(const Tensor& x, const ops::Padding& padding, PadMode mode = PadMode::constant, double value = 0);
// Shifts elements along `dims`; those that leave at one end enter at the other. Without `dims` x counts as one long
// row.
Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims = {});
Tensor flip(const Tensor& x, const Dims& dims);  // reverses each of `dims`
// x repeated repeats[i] times along dimension i. More repeats than dimensions add dimensions in front.
Tensor repeat(const Tensor& x, const Dims& repeats);
Tensor tile(const Tensor& x,
            const Dims& repeats);  // as repeat(), but fewer repeats than dimensions are those of the last ones
// Each element `repeats` times in a row, along `dim`. Without `dim` x counts as one long row.
Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::int64_t dim);
Tensor repeat_interleave(const Tensor& x, std::int64_t repeats);
// x (..., M, N) on and below (above) the diagonal of the elements (i, i + diagonal), 0 elsewhere.
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);

Tensor contiguous(const Tensor& x);  // row-major; x itself when it is row-major already
Tensor clone(const Tensor& x);

}  // namespace tandem
