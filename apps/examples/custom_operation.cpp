// A custom operation with its gradient: the Huber loss of a prediction, in one pass instead of several element-wise
// operations. The program checks the gradient and trains with the operation. docs/own_operation.md explains it.
#include <tandem/tandem.h>

#include <cmath>
#include <iostream>

using namespace tandem;

// The Huber loss (Huber, "Robust Estimation of a Location Parameter", 1964), averaged over all elements. With e =
// prediction - target, an element is 0.5 e^2 if |e| < delta, and otherwise delta (|e| - 0.5 delta). Both are f32 or f64
// and have the same shape. The target gets no gradient.
template <class T>
Tensor huber(const Tensor& prediction, const Array& target, double delta) {
  const Array p = prediction.value().contiguous(), t = target.contiguous();
  const std::int64_t n = p.numel();
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double e = std::abs(static_cast<double>(p.data<T>()[i] - t.data<T>()[i]));
    sum += e < delta ? 0.5 * e * e : delta * (e - 0.5 * delta);
  }
  return autograd::record(
      "huber", {prediction}, full({}, sum / static_cast<double>(n), p.dtype()),
      [p = autograd::Saved("huber", p), t = autograd::Saved("huber", t), n, delta](const Array& grad, autograd::Needs) {
        const Array result = Array::empty(p.get().shape(), p.get().dtype());
        const double scale = grad.item() / static_cast<double>(n);
        for (std::int64_t i = 0; i < n; ++i) {
          const double e = static_cast<double>(p.get().data<T>()[i] - t.get().data<T>()[i]);
          result.data<T>()[i] = static_cast<T>(scale * std::min(delta, std::max(-delta, e)));
        }
        return autograd::Gradients{result};
      });
}

Tensor huber(const Tensor& prediction, const Array& target, double delta = 1) {
  TANDEM_CHECK(prediction.shape() == target.shape() && prediction.dtype() == target.dtype(),
               "huber: the prediction is ", prediction.shape(), ' ', prediction.dtype(), ", the target ",
               target.shape(), ' ', target.dtype());
  TANDEM_CHECK(prediction.device().is_cpu(), "huber: runs only on the CPU, but the prediction is on ",
               prediction.device());
  if (prediction.dtype() == DType::f64) return huber<double>(prediction, target, delta);
  TANDEM_CHECK(prediction.dtype() == DType::f32, "huber: needs f32 or f64, got ", prediction.dtype());
  return huber<float>(prediction, target, delta);
}

int main(int argc, char** argv) {
  return distributed::run_program(argc, argv, {"custom_operation", "(checks a gradient and fits a line with it)"}, [] {
    const Array points = Array::from(std::vector<double>{-3, -0.4, 0.2, 0.9, 1.7, 5}, {2, 3});
    const Array targets = Array::from(std::vector<double>{0, 0, 0.1, 0, 0, 5.5}, {2, 3});
    gradcheck([&](const std::vector<Tensor>& in) { return huber(in[0], targets); }, {Tensor(points, true)});
    std::cout << "the gradient agrees with finite differences\n";

    // The program fits a line to points of which every tenth is an outlier. A squared loss would follow the outliers.
    std::vector<float> xs, ys;
    for (int i = 0; i < 100; ++i) {
      xs.push_back(static_cast<float>(i) / 50 - 1);
      ys.push_back(2 * xs.back() + 1 + (i % 10 == 0 ? 30.0f : 0.0f));
    }
    const Array x = Array::from(xs, {100, 1}), y = Array::from(ys, {100, 1});
    manual_seed(0);
    nn::Linear line(1, 1);
    optim::SGD optimizer(line.parameters(), {.lr = 0.5});
    for (int step = 0; step < 300; ++step) {
      optimizer.zero_grad();
      huber(line(x), y, 0.1).backward();
      optimizer.step();
    }
    const double slope = line.weight.item(), offset = line.bias.item();
    std::cout << "y = " << slope << " x + " << offset << '\n';
    TANDEM_CHECK(std::abs(slope - 2) < 0.2 && std::abs(offset - 1) < 0.2, "the line is not y = 2 x + 1");
  });
}
