// Views show the elements of x, or some of them, in another shape or order. They share the memory of x. Names and
// semantics are PyTorch's. A negative dimension counts from the end.
#pragma once

#include <tandem/autograd/tensor.h>

#include <vector>

namespace tandem {

// Returns a view with this shape, of which one size may be -1. Throws an Error if no view can have this shape.
Tensor view(const Tensor& x, const Shape& shape);
// Like view(), but copies x if no view can have this shape.
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor flatten(const Tensor& x, std::int64_t from_dim = 0, std::int64_t to_dim = -1);
Tensor unflatten(const Tensor& x, std::int64_t dim, const Shape& sizes);  // one size may be -1
Tensor permute(const Tensor& x, const Dims& order);
Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b);
Tensor swapaxes(const Tensor& x, std::int64_t a, std::int64_t b);  // the same as transpose()
// (M, N) -> (N, M); returns a vector or scalar unchanged
Tensor t(const Tensor& x);
Tensor movedim(const Tensor& x, std::int64_t from, std::int64_t to);
Tensor expand(const Tensor& x, const Shape& shape);  // repeats dimensions of size 1; -1 keeps a size
Tensor squeeze(const Tensor& x);                     // drops all dimensions of size 1
Tensor squeeze(const Tensor& x, std::int64_t dim);   // drops `dim` if its size is 1
Tensor squeeze(const Tensor& x, const Dims& dims);
Tensor unsqueeze(const Tensor& x, std::int64_t dim);
// Like x[begin:end:step] in Python, along `dim`.
Tensor slice(const Tensor& x, std::int64_t dim, std::int64_t begin, std::int64_t end = Array::to_end,
             std::int64_t step = 1);
Tensor narrow(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t length);
Tensor select(const Tensor& x, std::int64_t dim, std::int64_t index);  // drops `dim`
Tensor diagonal(const Tensor& x, std::int64_t offset = 0, std::int64_t dim1 = 0, std::int64_t dim2 = 1);

// Splits x along `dim`. split() returns parts of `size`, of which the last may be smaller, or parts of the given sizes.
// chunk() returns at most `count` parts of equal size, of which the last may be smaller. unbind() returns the slices
// without the dimension. The gradients of all parts are collected in one array.
std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t dim = 0);
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, std::int64_t dim = 0);
std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, std::int64_t dim = 0);
std::vector<Tensor> unbind(const Tensor& x, std::int64_t dim = 0);

}  // namespace tandem
