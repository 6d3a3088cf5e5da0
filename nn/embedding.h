#pragma once

#include <tandem/autograd/functions/index.h>
#include <tandem/nn/module.h>

namespace tandem::nn {

// Rows of a table: indices (...) i64 or i32 -> (..., embedding_dim). weight (num_embeddings, embedding_dim) starts from
// N(0, 1); the row padding_idx (from the end where negative) starts at 0 and is not trained.
class Embedding : public Module {
 public:
  Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim, std::optional<std::int64_t> padding_idx = {});
  Tensor forward(const Tensor& index) override { return embedding(index.value(), weight, padding_idx); }

  Tensor weight;
  const std::optional<std::int64_t> padding_idx;
};

}  // namespace tandem::nn
