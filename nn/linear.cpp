#include <tandem/nn/init.h>
#include <tandem/nn/linear.h>

#include <cmath>

namespace tandem::nn {

Linear::Linear(std::int64_t in_features, std::int64_t out_features, const LinearOptions& options) {
  TANDEM_CHECK(in_features > 0 && out_features > 0, "Linear: sizes must be positive, got ", in_features, " and ",
               out_features);
  weight = add_parameter("weight", init::kaiming_uniform({out_features, in_features}));
  if (options.bias)
    bias = add_parameter("bias", init::uniform({out_features}, 1 / std::sqrt(static_cast<double>(in_features))));
}

Bilinear::Bilinear(std::int64_t in1_features, std::int64_t in2_features, std::int64_t out_features,
                   const BilinearOptions& options) {
  TANDEM_CHECK(in1_features > 0 && in2_features > 0 && out_features > 0, "Bilinear: sizes must be positive, got ",
               in1_features, ", ", in2_features, " and ", out_features);
  const double bound = 1 / std::sqrt(static_cast<double>(in1_features));
  weight = add_parameter("weight", init::uniform({out_features, in1_features, in2_features}, bound));
  if (options.bias) bias = add_parameter("bias", init::uniform({out_features}, bound));
}

std::string Linear::describe() const {
  return describe_as("in=", weight.dim(1), ", out=", weight.dim(0), bias.defined() ? "" : ", without bias");
}

std::string Bilinear::describe() const {
  return describe_as("in1=", weight.dim(1), ", in2=", weight.dim(2), ", out=", weight.dim(0),
                     bias.defined() ? "" : ", without bias");
}

}  // namespace tandem::nn
