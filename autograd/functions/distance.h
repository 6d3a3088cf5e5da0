// Distances of vectors; their lengths and angles.
#pragma once

#include <tandem/autograd/tensor.h>

namespace tandem {

// x divided by its norms along `dim`, which count as `eps` at least.
Tensor normalize(const Tensor& x, double p = 2, std::int64_t dim = 1, double eps = 1e-12);
// The cosine of the angle between vectors along `dim`, which is dropped; both broadcast. Norms count as `eps` at least.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, std::int64_t dim = 1, double eps = 1e-8);
// The norm of a - b + eps over the last dimension: (..., M), (..., M) -> (...); both broadcast.
Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p = 2, double eps = 1e-6, bool keepdim = false);
// The norm of each row of a less each of b: (..., P, M), (..., R, M) -> (..., P, R); leading dimensions broadcast. The
// differences are made one by one, P * R * M of them; for p = 2 and more than 25 rows by a matrix product, which is
// less exact where rows are close.
Tensor cdist(const Tensor& a, const Tensor& b, double p = 2);

}  // namespace tandem
