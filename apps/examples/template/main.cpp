// Trains your own model, on one process or on several: tandemrun --nproc-per-node 2 build/my_model
#include <tandem/tandem.h>

#include <iostream>

using namespace tandem;
using namespace tandem::distributed;

// The model's layers, and its computation.
struct Net : nn::Module {
  nn::Linear& hidden = add("hidden", nn::Linear(2, 64));
  nn::Linear& output = add("output", nn::Linear(64, 2));

  // points (N, 2) -> a score for each of the two classes (N, 2)
  Tensor forward(const Tensor& points) override { return output(relu(hidden(points))); }
};

// Random points in a square, inputs (count, 2). Points inside a circle belong to class 1, the others to class 0.
data::ArrayDataset make_points(std::int64_t count, std::uint64_t seed) {
  Generator generator(seed);
  const Array points = rand({count, 2}, DType::f32, {}, generator), classes = zeros({count}, DType::i64);
  for (std::int64_t i = 0; i < count; ++i) {
    const float x = points.data<float>()[2 * i] - 0.5f, y = points.data<float>()[2 * i + 1] - 0.5f;
    classes.data<std::int64_t>()[i] = x * x + y * y < 0.16f;
  }
  return data::ArrayDataset(points, classes);
}

// The fraction of points that the model classifies correctly.
double share_right(Net& model, const data::ArrayDataset& points) {
  const NoGrad no_grad;
  const nn::EvaluationMode evaluation(model);
  const double right = sum(argmax(model(points.inputs()), 1) == points.targets()).item();
  return right / static_cast<double>(points.size());
}

int main(int argc, char** argv) {
  return run_program(argc, argv, {"my_model", "(tandemrun --nproc-per-node 2 my_model: on two processes)"}, [] {
    manual_seed(0);
    const auto group = init();
    const auto points = make_points(10000, 1), others = make_points(1000, 2);
    data::Loader loader(points, {.batch_size = 50, .shard = shard_of(*group), .shuffle = true});
    Net model;
    DistributedDataParallel ddp(model, group);
    optim::Adam optimizer(model.parameters(), {.lr = 0.01});
    for (int epoch = 0; epoch < 5; ++epoch) {
      for (auto& [x, classes] : loader) {
        optimizer.zero_grad();
        cross_entropy(ddp(x), classes).backward();
        optimizer.step();
      }
      if (group->rank() == 0)
        std::cout << "Epoch " << epoch + 1 << ": " << 100 * share_right(model, others) << " % right" << std::endl;
    }
    // Python reads the file with safetensors.torch.load_file.
    if (group->rank() == 0) save_arrays("my_model.safetensors", model.state_dict());
  });
}
