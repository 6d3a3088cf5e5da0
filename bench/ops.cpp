// Times single operations. bench/ops runs this program next to torch_ops.py, which has the same operations under the
// same names.
//
// Reads lines "NAME ELEMENTS SECONDS". Calls the operation repeatedly for SECONDS, and answers with the time of the
// shortest call, in seconds. NAME_train means forward and backward. For bench/convolutions, NAME describes a
// convolution and ELEMENTS is the number of images; the prefix "exact:" selects direct sums.
#include <tandem/core/device/math_mode.h>
#include <tandem/tandem.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>

using namespace tandem;

namespace {

using Run = std::function<void()>;
using Prepare = std::function<Run(std::int64_t)>;

Array random(const Shape& shape, DType dtype = DType::f32) { return ops::rand(shape).to(dtype); }
// The shape of `elements` numbers in rows of `width`, or of one shorter row if there are fewer.
Shape rows(std::int64_t elements, std::int64_t width = 1024) {
  width = std::min(width, elements);
  return {elements / width, width};
}
std::int64_t side(std::int64_t elements) { return static_cast<std::int64_t>(std::sqrt(static_cast<double>(elements))); }

template <class F>
Prepare unary(F f) {
  return [f](std::int64_t n) -> Run {
    const Tensor x = random(rows(n));
    return [f, x] { f(x); };
  };
}
// Prepares forward and backward of f, whose inputs are leaves made from the arrays that `make` returns.
template <class Make, class F>
Prepare train(Make make, F f) {
  return [make, f](std::int64_t n) -> Run {
    std::vector<Tensor> in;
    for (const Array& a : make(n)) in.emplace_back(a, is_floating(a.dtype()));
    const Tensor y = f(in);
    const Array gradient = ops::ones_like(y.value());
    return [f, in, gradient] {
      for (Tensor t : in) t.zero_grad();
      f(in).backward({.gradient = gradient});
    };
  };
}
template <class Make, class F>
Prepare forward(Make make, F f) {
  return [make, f](std::int64_t n) -> Run {
    const std::vector<Array> arrays = make(n);
    const std::vector<Tensor> in(arrays.begin(), arrays.end());
    return [f, in] { f(in); };
  };
}

using In = std::vector<Tensor>;
using Arrays = std::vector<Array>;

Arrays one(std::int64_t n) { return {random(rows(n))}; }
Arrays short_rows(std::int64_t n) { return {random(rows(n, 64))}; }
// About n numbers as (a, 128, 64); for a small n the second dimension is smaller.
Arrays stacked(std::int64_t n) {
  const std::int64_t rows = std::min<std::int64_t>(128, std::max<std::int64_t>(1, n / 64));
  return {random({std::max<std::int64_t>(1, n / (64 * rows)), rows, 64})};
}
Arrays two(std::int64_t n) { return {random(rows(n)), random(rows(n))}; }
Arrays matrices(std::int64_t n) { return {random({side(n), side(n)}), random({side(n), side(n)})}; }
Arrays low_matrices(std::int64_t n) {
  return {random({side(n), side(n)}, DType::bf16), random({side(n), side(n)}, DType::bf16)};
}
// (batch, 128, 64) and (batch, 64, 128)
Arrays batches(std::int64_t n) {
  const std::int64_t batch = std::max<std::int64_t>(1, n / (128 * 64));
  return {random({batch, 128, 64}), random({batch, 64, 128})};
}
// Images (N, 64, H, W) of 32 x 32 pixels or fewer, and a weight (64, 64, 3, 3).
Arrays images(std::int64_t n) {
  const std::int64_t size = std::min<std::int64_t>(32, std::max<std::int64_t>(3, side(n / 64)));
  return {random({std::max<std::int64_t>(1, n / (64 * size * size)), 64, size, size}).channels_last(),
          random({64, 64, 3, 3})};
}
// Query, key and value, each (N, 8 heads, length, 64).
Arrays heads(std::int64_t n) {
  const std::int64_t length = std::min<std::int64_t>(512, std::max<std::int64_t>(1, n / 512));
  const Shape shape{std::max<std::int64_t>(1, n / (512 * length)), 8, length, 64};
  return {random(shape), random(shape), random(shape)};
}
Arrays normalised(std::int64_t n) {
  const Shape shape = rows(n);
  return {random(shape), random({shape[1]}), random({shape[1]})};
}
Arrays classes(std::int64_t n) {
  const Shape shape = rows(n);
  return {random(shape), ops::randint(0, shape[1], {shape[0]})};
}
Arrays row_indices(std::int64_t n) {
  const Shape shape = rows(n);
  return {random(shape), ops::randint(0, shape[0], {shape[0]})};
}
Arrays element_indices(std::int64_t n) {
  const Shape shape = rows(n);
  return {random(shape), ops::randint(0, shape[1], shape)};
}
Arrays two_vectors(std::int64_t n) { return {random({side(n)}), random({side(n)})}; }
Arrays scattered(std::int64_t n) {
  const Shape shape = rows(n);
  return {random(shape), ops::randint(0, shape[1], shape), random(shape)};
}
Arrays tokens(std::int64_t n) {
  return {random({1000, 64}), ops::randint(0, 1000, {std::max<std::int64_t>(1, n / 64)})};
}

// Feature maps (N, C, H, W) of at most 33 x 33 pixels and 2,048 channels.
Array feature_maps(std::int64_t n) {
  const std::int64_t channels = std::min<std::int64_t>(2048, n);
  const std::int64_t size = std::min<std::int64_t>(33, std::max<std::int64_t>(1, side(n / channels)));
  return random({std::max<std::int64_t>(1, n / (channels * size * size)), channels, size, size});
}

// Ten parameters with gradients. Together they have n elements, and each has at least one.
std::vector<NamedTensor> parameters(std::int64_t n) {
  std::vector<NamedTensor> made;
  for (int i = 0; i < 10; ++i) {
    Tensor t(random({std::max<std::int64_t>(1, n / 10)}), true);
    t.set_grad(random(t.shape()));
    made.push_back({std::to_string(i), t});
  }
  return made;
}
template <class Optimizer, class Options>
Prepare optimizer(Options options) {
  return [options](std::int64_t n) -> Run {
    return [o = std::make_shared<Optimizer>(parameters(n), options)] { o->step(); };
  };
}

const std::map<std::string, Prepare>& table() {
  const auto add_pair = [](const In& in) { return add(in[0], in[1]); };
  const auto multiply = [](const In& in) { return matmul(in[0], in[1]); };
  const auto convolve = [](const In& in) { return conv2d(in[0], in[1], {}, {.padding = 1}); };
  const auto attend = [](const In& in) { return scaled_dot_product_attention(in[0], in[1], in[2]); };
  const auto normalise = [](const In& in) { return layer_norm(in[0], {in[1].dim(0)}, in[1], in[2]); };
  const auto embed = [](const In& in) { return embedding(in[1].value(), in[0]); };
  const auto pool = [](const In& in) { return adaptive_avg_pool2d(in[0], 1); };
  static const std::map<std::string, Prepare> all = {
      {"add", forward(two, add_pair)},
      {"add_train", train(two, add_pair)},
      {"add_number", unary([](const Tensor& x) { return x + 1.5; })},
      {"add_row", forward(
                      [](std::int64_t n) {
                        return Arrays{random(rows(n)), random({rows(n)[1]})};
                      },
                      add_pair)},
      {"add_column", forward(
                         [](std::int64_t n) {
                           return Arrays{random(rows(n)), random({rows(n)[0], 1})};
                         },
                         add_pair)},
      {"add_narrow_row", forward(
                             [](std::int64_t n) {
                               return Arrays{random(rows(n, 3)), random({rows(n, 3)[1]})};
                             },
                             add_pair)},
      {"add_transposed", forward(
                             [](std::int64_t n) {
                               return Arrays{random({side(n), side(n)}), random({side(n), side(n)}).transpose(0, 1)};
                             },
                             add_pair)},
      {"mul", forward(two, [](const In& in) { return mul(in[0], in[1]); })},
      {"where", forward(two, [](const In& in) { return where(gt(in[0], 0.5), in[0], in[1]); })},
      {"to_bf16", unary([](const Tensor& x) { return cast(x, DType::bf16); })},
      {"relu", unary([](const Tensor& x) { return tandem::relu(x); })},
      {"relu_train", train(one, [](const In& in) { return relu(in[0]); })},
      {"exp", unary([](const Tensor& x) { return tandem::exp(x); })},
      {"log", unary([](const Tensor& x) { return tandem::log(x); })},
      {"sqrt", unary([](const Tensor& x) { return tandem::sqrt(x); })},
      {"tanh", unary([](const Tensor& x) { return tandem::tanh(x); })},
      {"sigmoid", unary([](const Tensor& x) { return tandem::sigmoid(x); })},
      {"gelu", unary([](const Tensor& x) { return gelu(x); })},
      {"gelu_train", train(one, [](const In& in) { return gelu(in[0]); })},
      {"sum", unary([](const Tensor& x) { return sum(x); })},
      {"sum_last", unary([](const Tensor& x) { return sum(x, {1}); })},
      {"sum_first", unary([](const Tensor& x) { return sum(x, {0}); })},
      {"sum_short_rows", forward(short_rows, [](const In& in) { return sum(in[0], {1}); })},
      {"sum_middle", forward(stacked, [](const In& in) { return sum(in[0], {1}); })},
      {"mean_train", train(one, [](const In& in) { return mean(in[0], {1}); })},
      {"amax_last", unary([](const Tensor& x) { return amax(x, {1}); })},
      {"amax_middle", forward(stacked, [](const In& in) { return amax(in[0], {1}); })},
      {"argmax_last", unary([](const Tensor& x) { return argmax(x, 1); })},
      {"var_last", unary([](const Tensor& x) { return var(x, {1}); })},
      {"cumsum_last", unary([](const Tensor& x) { return cumsum(x, 1); })},
      {"sort_last", unary([](const Tensor& x) { return sort(x, 1); })},
      {"sort_all", unary([](const Tensor& x) { return sort(reshape(x, {-1}), 0); })},
      {"topk_last", unary([](const Tensor& x) { return topk(x, std::min<std::int64_t>(5, x.dim(1)), 1); })},
      {"softmax", unary([](const Tensor& x) { return softmax(x, 1); })},
      {"softmax_train", train(one, [](const In& in) { return softmax(in[0], 1); })},
      {"log_softmax", unary([](const Tensor& x) { return log_softmax(x, 1); })},
      {"cross_entropy_train", train(classes, [](const In& in) { return cross_entropy(in[0], in[1].value()); })},
      {"layer_norm", forward(normalised, normalise)},
      {"layer_norm_train", train(normalised, normalise)},
      {"matmul", forward(matrices, multiply)},
      {"matmul_train", train(matrices, multiply)},
      {"matmul_bf16", forward(low_matrices, multiply)},
      {"bmm", forward(batches, multiply)},
      {"conv2d", forward(images, convolve)},
      {"conv2d_train", train(images, convolve)},
      {"max_pool2d", forward(images, [](const In& in) { return max_pool2d(in[0], 2); })},
      {"attention", forward(heads, attend)},
      {"attention_train", train(heads, attend)},
      {"cat_first", forward(two, [](const In& in) { return cat(in, 0); })},
      {"cat_last", forward(two, [](const In& in) { return cat(in, 1); })},
      {"transpose_copy", forward(matrices, [](const In& in) { return contiguous(transpose(in[0], 0, 1)); })},
      {"pad", unary([](const Tensor& x) {
         return pad(x, {1, 1, 1, 1});
       })},
      {"flip", unary([](const Tensor& x) { return flip(x, {1}); })},
      {"outer", forward(two_vectors, [](const In& in) { return outer(in[0], in[1]); })},
      {"dot", forward(two, [](const In& in) { return dot(flatten(in[0]), flatten(in[1])); })},
      {"index_select", forward(row_indices, [](const In& in) { return index_select(in[0], 0, in[1].value()); })},
      {"gather", forward(element_indices, [](const In& in) { return gather(in[0], 1, in[1].value()); })},
      {"scatter_add_train", train(scattered, [](const In& in) { return scatter_add(in[0], 1, in[1].value(), in[2]); })},
      {"embedding_train", train(tokens, embed)},
      {"dropout_train", train(one, [](const In& in) { return dropout(in[0], 0.1, true); })},
      {"global_avg_pool_train", train([](std::int64_t n) { return Arrays{feature_maps(n).channels_last()}; }, pool)},
      {"global_avg_pool_rows_train", train([](std::int64_t n) { return Arrays{feature_maps(n)}; }, pool)},
      {"sgd", optimizer<optim::SGD>(optim::SGDOptions{.momentum = 0.9})},
      {"adam", optimizer<optim::Adam>(optim::AdamOptions{})},
      {"adamw", optimizer<optim::AdamW>(optim::AdamWOptions{})},
      {"rmsprop", optimizer<optim::RMSprop>(optim::RMSpropOptions{})},
      {"clip_grad_norm", [](std::int64_t n) -> Run { return [p = parameters(n)] { optim::clip_grad_norm_(p, 1.0); }; }},
  };
  return all;
}

// Runs a convolution by its description, such as "conv2d:16-32:3:2:1:56:f32". It lists the function (conv1d, conv2d,
// conv_transpose2d), the channels in and out, the kernel size, stride, groups, the image size and the dtype. A final
// ":train" adds both gradients. There are `n` images; with stride 1, padding keeps the size.
Run convolution(const std::string& description, std::int64_t n) {
  std::vector<std::string> parts;
  std::string part;
  for (std::istringstream text(description); std::getline(text, part, ':');) parts.push_back(part);
  TANDEM_CHECK(parts.size() == 7 || (parts.size() == 8 && parts[7] == "train"), "no convolution: ", description);
  const std::string& function = parts[0];
  const auto number = [](const std::string& text) { return static_cast<std::int64_t>(std::stoll(text)); };
  const std::int64_t in = number(parts[1]), out = number(parts[1].substr(parts[1].find('-') + 1));
  const std::int64_t kernel = number(parts[2]), stride = number(parts[3]), groups = number(parts[4]);
  const std::int64_t size = number(parts[5]);
  const DType dtype = parts[6] == "bf16" ? DType::bf16 : DType::f32;
  const auto make = [=](std::int64_t) -> Arrays {
    if (function == "conv1d") return {random({n, in, size}, dtype), random({out, in / groups, kernel}, dtype)};
    const Array x = random({n, in, size, size}, dtype).channels_last();
    if (function == "conv_transpose2d") return {x, random({in, out / groups, kernel, kernel}, dtype)};
    return {x, random({out, in / groups, kernel, kernel}, dtype)};
  };
  const auto f = [=](const In& t) {
    const ConvOptions options{.stride = stride, .padding = kernel / 2, .groups = groups};
    if (function == "conv1d") return conv1d(t[0], t[1], {}, options);
    if (function == "conv2d") return conv2d(t[0], t[1], {}, options);
    return conv_transpose2d(t[0], t[1], {}, {.stride = stride, .padding = kernel / 2, .groups = groups});
  };
  return parts.size() == 8 ? train(make, f)(n) : forward(make, f)(n);
}

double shortest(const Run& run, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto time = [&](int calls) {
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) run();
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  time(3);
  // So many calls are timed together that the cost of reading the clock is negligible.
  const int calls = std::max(1, static_cast<int>(50e-6 / std::max(1e-9, time(1))));
  double best = 1e9, spent = 0;
  while (spent < seconds) {
    const double t = time(calls);
    best = std::min(best, t / calls);
    spent += t;
  }
  return best;
}

}  // namespace

int main() try {
  std::string name;
  std::int64_t elements = 0;
  double seconds = 0;
  std::cout.precision(9);
  while (std::cin >> name >> elements >> seconds) {
    const bool exact = name.starts_with("exact:");
    set_exact_convolutions(exact);
    if (exact) name = name.substr(name.find(':') + 1);
    if (name.starts_with("conv") && name.find(':') != std::string::npos) {
      std::cout << shortest(convolution(name, elements), seconds) << std::endl;
      continue;
    }
    const auto found = table().find(name);
    TANDEM_CHECK(found != table().end(), "there is no measurement of '", name, "'");
    std::cout << shortest(found->second(elements), seconds) << std::endl;
  }
  return 0;
} catch (const Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
