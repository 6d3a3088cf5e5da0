// A table of a model: the output shapes of its modules and their numbers of parameters.
#pragma once

#include <tandem/nn/module.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace tandem::nn {

struct Summary {
  struct Row {
    std::string name;  // the name in the parent; empty for the model itself
    std::string description;
    int depth = 0;
    int calls = 0;                // 0: the module was never called, or was fused into the previous module
    Shape output;                 // the output shape of the first call
    std::int64_t parameters = 0;  // elements of the module's own parameters, without those of modules below it
  };
  std::vector<Row> rows;  // a module comes before its children, which are ordered by their first calls
  std::int64_t parameters = 0, trainable_parameters = 0;
  std::size_t parameter_bytes = 0, buffer_bytes = 0;
};

// Runs the model once, in evaluation mode and without gradients, and records every call of a module. The model's state
// is the same afterwards.
//   std::cout << nn::summary(net, Tensor(ops::zeros({1, 1, 28, 28})));
Summary summary(Module& model, const Tensor& input);
// The same for a model with other inputs: `run` calls the model.
Summary summary(Module& model, const std::function<void()>& run);

std::ostream& operator<<(std::ostream& out, const Summary& summary);

}  // namespace tandem::nn
