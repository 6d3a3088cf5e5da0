// A table of a model: the shapes of the outputs of its modules, and the numbers of their parameters.
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
    int calls = 0;                // 0: the module was never called, or was fused into the module before it
    Shape output;                 // the shape of the output of the first call
    std::int64_t parameters = 0;  // elements of its own parameters, without those of modules below
  };
  std::vector<Row> rows;  // a module comes before its children, which are in the order of their first calls
  std::int64_t parameters = 0, trainable_parameters = 0;
  std::size_t parameter_bytes = 0, buffer_bytes = 0;
};

// Runs the model once, in evaluation mode and without gradients, and notes every call of a module. Afterwards the model
// is as it was before.
//   std::cout << nn::summary(net, Tensor(ops::zeros({1, 1, 28, 28})));
Summary summary(Module& model, const Tensor& input);
// The same for a model that takes other inputs: `run` calls the model.
Summary summary(Module& model, const std::function<void()>& run);

std::ostream& operator<<(std::ostream& out, const Summary& summary);

}  // namespace tandem::nn
