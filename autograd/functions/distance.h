// Distances, lengths and angles of vectors.
#pragma once

#include <tandem/autograd/tensor.h>

namespace tandem {

// Divides x by its norms along `dim`. A norm below `eps` counts as `eps`.
Tensor normalize(const Tensor& x, double p = 2, std::int64_t dim = 1, double eps = 1e-12);
// The cosine of the angle between vectors along `dim`. The result has no dimension `dim`. a and b broadcast. A norm
// below `eps` counts as `eps`.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, std::int64_t dim = 1, double eps = 1e-8);
// The norm of a - b + eps over the last dimension: a (..., M), b (..., M) -> (...). a and b broadcast.
Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p = 2, double eps = 1e-6, bool keepdim = false);
// The distance between each row of a and each row of b: a (..., P, M), b (..., R, M) -> (..., P, R). Leading dimensions
// broadcast. Usually all P * R * M differences are computed. If p = 2 and one operand has more than 25 rows, a matrix
// product replaces them. It is less accurate for rows that are close to each other.
Tensor cdist(const Tensor& a, const Tensor& b, double p = 2);

}  // namespace tandem
