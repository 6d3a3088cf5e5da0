// Normalisation.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/backend.h>

#include <memory>

namespace tandem {

class BatchNormExchange;  // autograd/batch_norm_exchange.h

// Batch normalisation over all but C (Ioffe, Szegedy, arXiv:1502.03167), then what `fusion` asks for.
struct BatchNormState {
  Array running_mean, running_var;  // (C); updated in place in training
  bool training = true;
  double momentum = 0.1;
  double eps = 1e-5;
  // In training, where the rest of the batch is on other ranks; null: x is the whole batch.
  std::shared_ptr<BatchNormExchange> exchange = nullptr;
  Array num_batches = {};  // () i64, counts the batches of training; undefined where nobody counts
};
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, BatchNormState& state,
                  BatchNormFusion fusion = {});

}  // namespace tandem
