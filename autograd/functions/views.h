// Views: the numbers of x in another shape or order, or a part of them, in the memory of x. Names and meanings are
// PyTorch's. A negative dimension counts from the end.
#pragma once

#include <tandem/autograd/tensor.h>

#include <vector>

namespace tandem {

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

// The parts that make up x along `dim`. split() gives parts of `size`, of which the last may be smaller, or parts of
// the given sizes. chunk() gives `count` equal parts, of which the last may be smaller or missing. unbind() gives the
// slices without the dimension. The gradients of all parts gather in one array.
std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t dim = 0);
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, std::int64_t dim = 0);
std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, std::int64_t dim = 0);
std::vector<Tensor> unbind(const Tensor& x, std::int64_t dim = 0);

}  // namespace tandem
