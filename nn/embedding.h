#pragma once

#include <tandem/autograd/functions/index.h>
#include <tandem/nn/module.h>

namespace tandem::nn {

struct EmbeddingOptions {
  std::optional<std::int64_t> padding_idx = std::nullopt;
};

// Looks up rows of a table: indices (...) i64 or i32 -> (..., embedding_dim). weight (num_embeddings, embedding_dim) is
// initialised from a normal distribution. The row padding_idx starts as zeros and is not trained. A negative
// padding_idx counts from the end.
class Embedding : public Module {
 public:
  Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim, const EmbeddingOptions& options = {});
  Tensor forward(const Tensor& index) override { return embedding(index.value(), weight, options_.padding_idx); }
  std::string describe() const override { return describe_as(weight.dim(0), ", ", weight.dim(1)); }

  Tensor weight;

 private:
  EmbeddingOptions options_;
};

}  // namespace tandem::nn
