#include <tandem/core/ops/create.h>
#include <tandem/nn/embedding.h>

namespace tandem::nn {

Embedding::Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim, const EmbeddingOptions& options)
    : options_(options) {
  TANDEM_CHECK(num_embeddings > 0 && embedding_dim > 0, "Embedding: sizes must be positive, got ", num_embeddings,
               " and ", embedding_dim);
  const auto padding_idx = options.padding_idx;
  TANDEM_CHECK(!padding_idx || (-num_embeddings <= *padding_idx && *padding_idx < num_embeddings),
               "Embedding: padding_idx ", padding_idx.value_or(0), " is out of range for ", num_embeddings, " rows");
  Array values = ops::randn({num_embeddings, embedding_dim});
  if (padding_idx) values.select(0, *padding_idx).fill(0);
  weight = add_parameter("weight", std::move(values));
}

}  // namespace tandem::nn
