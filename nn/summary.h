// A table of a model: what its modules put out, and how many parameters they have.
#pragma once

#include <tandem/nn/module.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace tandem::nn {

struct Summary {
  struct Row {
    std::string name;  // in its parent; empty for the model itself
    std::string description;
    int depth = 0;
    int calls = 0;                // 0: was not called by itself (never, or fused into the module before)
    Shape output;                 // of the first call
    std::int64_t parameters = 0;  // its own, without those of modules below
  };
  std::vector<Row> rows;  // a module before those below it, these in the order of their first calls
  std::int64_t parameters = 0, trainable_parameters = 0;
  std::size_t parameter_bytes = 0, buffer_bytes = 0;
};

// Runs the model once, in evaluation mode without gradients, and writes down what came by. The model is afterwards as
// it was.
//   std::cout << nn::summary(net, Tensor(ops::zeros({1, 1, 28, 28})));
Summary summary(Module& model, const Tensor& input);
// For a model that takes something else: `run` calls it.
Summary summary(Module& model, const std::function<void()>& run);

std::ostream& operator<<(std::ostream& out, const Summary& summary);

}  // namespace tandem::nn
