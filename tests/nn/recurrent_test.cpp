// Compares recurrent layers with PyTorch's.
#include <tandem/autograd/autocast.h>
#include <tandem/autograd/functions.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/recurrent.h>
#include <tandem/nn/sequential.h>

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "nn/names.h"
#include "support/arrays.h"
#include "support/golden.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using nn::GRU;
using nn::LSTM;
using nn::LSTMOptions;
using nn::RecurrentLayer;
using nn::RNN;
using testing::expect_close;
using testing::expect_same;
using testing::Golden;
using testing::Names;
using testing::names_of;

using State = RecurrentLayer::State;

constexpr std::int64_t input_size = 4, hidden_size = 6;

const Names kinds{"rnn_tanh", "rnn_relu", "lstm", "gru"};

std::unique_ptr<RecurrentLayer> make(const std::string& kind, const LSTMOptions& o = {}) {
  if (kind == "lstm") return std::make_unique<LSTM>(input_size, hidden_size, o);
  if (kind == "gru") return std::make_unique<GRU>(input_size, hidden_size, o);
  const auto nonlinearity = kind == "rnn_relu" ? nn::RNNNonlinearity::relu : nn::RNNNonlinearity::tanh;
  const nn::RNNOptions options{o.num_layers, nonlinearity, o.bias, o.batch_first, o.dropout, o.bidirectional};
  return std::make_unique<RNN>(input_size, hidden_size, options);
}

std::unique_ptr<RecurrentLayer> make(const nlohmann::json& c) {
  const auto& given = c.at("options");
  LSTMOptions options;
  options.num_layers = given.value("num_layers", options.num_layers);
  options.bias = given.value("bias", options.bias);
  options.batch_first = given.value("batch_first", options.batch_first);
  options.bidirectional = given.value("bidirectional", options.bidirectional);
  return make(c.at("kind").get<std::string>(), options);
}

// Returns the output and the last state of a layer of any kind.
std::pair<Tensor, State> call(RecurrentLayer& layer, const Tensor& x, const State& initial = {}) {
  if (auto* lstm = dynamic_cast<LSTM*>(&layer)) {
    const auto [output, state] = (*lstm)(x, initial);
    return {output, state};
  }
  if (auto* gru = dynamic_cast<GRU*>(&layer)) {
    const auto [output, h_n] = (*gru)(x, initial.h);
    return {output, {h_n, {}}};
  }
  const auto [output, h_n] = dynamic_cast<RNN&>(layer)(x, initial.h);
  return {output, {h_n, {}}};
}

const Golden& golden() {
  static const Golden file("recurrent.safetensors");
  return file;
}

TEST(Recurrent, StartsWithPyTorchsParameters) {
  for (const auto& [name, c] : golden().cases()) {
    manual_seed(7);
    const auto layer = make(c);
    const auto state = layer->state_dict();
    ASSERT_EQ(names_of(state), c.at("names").get<Names>()) << name;
    for (const auto& [key, array] : state) expect_same(golden()[name + "/state/" + key], array, name + ": " + key);
  }
}

TEST(Recurrent, EqualsPyTorch) {
  constexpr double tolerance = 1e-5;
  for (const auto& [name, c] : golden().cases()) {
    const auto layer = make(c);
    std::vector<NamedArray> state;
    for (const auto& key : c.at("names").get<Names>()) state.push_back({key, golden()[name + "/state/" + key]});
    layer->load_state_dict(state);
    const auto input = [&, name = name](const char* key) {
      return golden().has(name + '/' + key) ? Tensor(golden()[name + '/' + key], true) : Tensor();
    };
    const std::vector<std::pair<std::string, Tensor>> inputs{
        {"x", input("x")}, {"h_0", input("h_0")}, {"c_0", input("c_0")}};
    const auto [output, last] = call(*layer, inputs[0].second, {inputs[1].second, inputs[2].second});

    Tensor objective(ops::zeros({}));
    for (const auto& [key, result] : {std::pair("output", output), {"h_n", last.h}, {"c_n", last.c}}) {
      ASSERT_EQ(result.defined(), golden().has(name + '/' + key)) << name << ": " << key;
      if (!result.defined()) continue;
      expect_close(golden()[name + '/' + key], result.value(), tolerance, name + ": " + key);
      objective = objective + sum(result * golden()[name + "/grad_" + key]);
    }
    objective.backward();
    for (const auto& [key, tensor] : inputs)
      if (tensor.defined()) expect_close(golden()[name + "/grad_" + key], tensor.grad(), tolerance, name + ": " + key);
    for (const auto& [key, parameter] : layer->parameters())
      expect_close(golden()[name + "/grad/" + key], parameter.grad(), tolerance, name + ": " + key);
  }
}

TEST(Recurrent, ShapesOfAllOptions) {
  for (const auto& kind : kinds) {
    for (int bits = 0; bits < 64; ++bits) {
      const std::int64_t layers = bits & 1 ? 3 : 1, directions = bits & 2 ? 2 : 1, cells = layers * directions;
      const bool has_bias = bits & 4, batch_first = bits & 8, is_single = bits & 16, has_state = bits & 32;
      const auto layer = make(kind, {.num_layers = layers,
                                     .bias = has_bias,
                                     .batch_first = batch_first,
                                     .dropout = 0.5,
                                     .bidirectional = directions == 2});
      EXPECT_EQ(layer->cells.size(), static_cast<std::size_t>(cells));
      EXPECT_EQ(layer->parameters().size(), static_cast<std::size_t>(cells * (has_bias ? 4 : 2)));
      const auto shape = [&](std::int64_t size) {
        return is_single ? Shape{5, size} : batch_first ? Shape{3, 5, size} : Shape{5, 3, size};
      };
      const Shape of_state = is_single ? Shape{cells, hidden_size} : Shape{cells, 3, hidden_size};
      State initial;
      if (has_state) initial.h = Tensor(ops::randn(of_state));
      if (has_state && kind == "lstm") initial.c = Tensor(ops::randn(of_state));
      const auto [output, last] = call(*layer, Tensor(ops::randn(shape(input_size))), initial);
      EXPECT_EQ(output.shape(), shape(directions * hidden_size)) << kind << bits;
      EXPECT_EQ(last.h.shape(), of_state) << kind << bits;
      EXPECT_EQ(last.c.defined(), kind == "lstm");
      if (last.c.defined()) {
        EXPECT_EQ(last.c.shape(), of_state) << kind << bits;
      }
      // The forward direction of the last layer ends at the last step.
      const Tensor end = select(output, is_single || !batch_first ? 0 : 1, 4);
      expect_same(narrow(end, -1, 0, hidden_size).value().contiguous(),
                  select(last.h, 0, cells - directions).value().contiguous(), kind);
    }
  }
}

TEST(Recurrent, ReadsOnFromAState) {
  for (const auto& kind : kinds) {
    const auto layer = make(kind, {.num_layers = 2});
    const Tensor x(ops::randn({7, 3, input_size}));
    const auto [whole, end] = call(*layer, x);
    const auto [first, between] = call(*layer, narrow(x, 0, 0, 3));
    const auto [second, last] = call(*layer, narrow(x, 0, 3, 4), between);
    expect_close(whole.value(), cat({first, second}).value(), 1e-6, kind);
    expect_close(end.h.value(), last.h.value(), 1e-6, kind);
  }
}

TEST(Recurrent, ComputesTheSameWithoutGradients) {
  const Tensor x(ops::randn({6, 3, input_size}));
  for (const auto& kind : kinds) {
    const auto layer = make(kind, {.num_layers = 2, .bidirectional = true});
    const auto [output, last] = call(*layer, x);
    const NoGrad no_grad;
    const auto [again, end] = call(*layer, x);
    expect_same(output.value(), again.value(), kind);
    expect_same(last.h.value(), end.h.value(), kind);
  }
}

TEST(Recurrent, DropsBetweenLayersInTrainingOnly) {
  const Tensor x(ops::randn({5, 3, input_size}));
  for (const auto& kind : kinds) {
    const auto layer = make(kind, {.num_layers = 2, .dropout = 0.5});
    const auto output = [&](std::uint64_t seed) {
      manual_seed(seed);
      return call(*layer, x).first.value();
    };
    const Array trained = output(1);
    expect_same(trained, output(1), kind + ": one seed");
    EXPECT_NE(trained.to_vector<float>(), output(2).to_vector<float>()) << kind;
    layer->eval();
    const auto without = make(kind, {.num_layers = 2});
    without->load_state_dict(layer->state_dict());
    expect_same(call(*without, x).first.value(), output(1), kind + ": evaluation");

    // If all of the first layer's output is dropped, the second layer reads zeros.
    const auto all = make(kind, {.num_layers = 2, .dropout = 1});
    expect_same(call(*all, x).first.value(), call(*all, x * 2).first.value(), kind + ": all dropped");
    // Dropout applies neither to the first layer's input nor to the last layer's output.
    const auto one = make(kind, {.dropout = 1}), same = make(kind);
    same->load_state_dict(one->state_dict());
    expect_same(call(*same, x).first.value(), call(*one, x).first.value(), kind + ": one layer");
  }
}

TEST(Recurrent, IsAModule) {
  nn::Sequential layers{LSTM(input_size, hidden_size, {.batch_first = true}), nn::Linear(hidden_size, 2)};
  EXPECT_EQ(layers(Tensor(ops::randn({3, 5, input_size}))).shape(), (Shape{3, 5, 2}));
  EXPECT_EQ(names_of(layers.state_dict()),
            (Names{"0.weight_ih_l0", "0.weight_hh_l0", "0.bias_ih_l0", "0.bias_hh_l0", "1.weight", "1.bias"}));

  GRU gru(input_size, hidden_size);
  int calls = 0;
  Shape seen;
  gru.on_forward([&](nn::Module&, const Tensor& output) {
    ++calls;
    seen = output.shape();
  });
  gru(Tensor(ops::randn({5, 3, input_size})));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(seen, (Shape{5, 3, hidden_size}));

  EXPECT_EQ(gru.describe(), "GRU(in=4, hidden=6)");
  const LSTMOptions all{.num_layers = 2, .bias = false, .batch_first = true, .dropout = 0.25, .bidirectional = true};
  EXPECT_EQ(LSTM(3, 5, all).describe(),
            "LSTM(in=3, hidden=5, 2 layers, bidirectional, batch first, dropout 0.25, without bias)");
  EXPECT_EQ(RNN(3, 5).describe(), "RNN(in=3, hidden=5)");
  EXPECT_EQ(RNN(3, 5, {.nonlinearity = nn::RNNNonlinearity::relu}).describe(), "RNN(in=3, hidden=5, relu)");
}

TEST(Recurrent, CellsAreTheParameters) {
  LSTM lstm(input_size, hidden_size, {.num_layers = 3, .bidirectional = true});
  const auto parameters = lstm.parameters();
  std::size_t at = 0;
  for (const auto& cell : lstm.cells)
    for (const Tensor* member : {&cell.weight_ih, &cell.weight_hh, &cell.bias_ih, &cell.bias_hh})
      EXPECT_TRUE(member->same_as(parameters[at++].tensor));
  EXPECT_EQ(at, parameters.size());

  EXPECT_ERROR(lstm.cells[0].weight_hh = lstm.cells[1].weight_hh, "can't be replaced by another Tensor");
  lstm.tie(lstm.cells[0].weight_hh, lstm.cells[1].weight_hh);
  EXPECT_EQ(lstm.parameters().size(), parameters.size() - 1);
}

TEST(Recurrent, OtherDtypes) {
  for (const auto& kind : kinds) {
    const auto layer = make(kind, {.num_layers = 2});
    const Tensor x(ops::randn({5, 3, input_size}));
    const auto expected = call(*layer, x).first.value();
    {
      const Autocast autocast(DType::bf16);
      const auto [output, last] = call(*layer, x);
      expect_close(expected, output.value(), 0.03, kind + " in bf16");
      if (last.c.defined()) {
        EXPECT_EQ(last.c.dtype(), DType::f32);  // accumulates many small changes
      }
      sum(output).backward();
      for (const auto& [name, parameter] : layer->parameters()) EXPECT_EQ(parameter.grad().dtype(), DType::f32);
    }
    layer->to(DType::f64);
    const auto [output, last] = call(*layer, cast(x, DType::f64));
    EXPECT_EQ(output.dtype(), DType::f64);
    expect_close(expected, output.value(), 1e-5, kind + " in f64");
  }
}

TEST(Recurrent, ABatchOfNothing) {
  for (const auto& kind : kinds) {
    const auto layer = make(kind, {.bidirectional = true});
    const auto [output, last] = call(*layer, Tensor(ops::zeros({5, 0, input_size})));
    EXPECT_EQ(output.shape(), (Shape{5, 0, 2 * hidden_size}));
    EXPECT_EQ(last.h.shape(), (Shape{2, 0, hidden_size}));
  }
}

TEST(Recurrent, RefusesWhatDoesNotFit) {
  EXPECT_ERROR(LSTM(0, 5), "LSTM", "positive", "0 and 5");
  EXPECT_ERROR(RNN(3, -1), "RNN", "positive", "3 and -1");
  EXPECT_ERROR(GRU(3, 5, {.num_layers = 0}), "GRU", "num_layers", "0");
  EXPECT_ERROR(GRU(3, 5, {.dropout = 1.5}), "GRU", "dropout", "1.5");

  LSTM lstm(3, 5, {.num_layers = 2});
  const Tensor x(ops::zeros({4, 2, 3})), state(ops::zeros({2, 2, 5}));
  EXPECT_ERROR(lstm(Tensor()), "LSTM", "input is undefined");
  EXPECT_ERROR(lstm(Tensor(ops::zeros({4, 2, 7}))), "LSTM", "(L, N, 3) or (L, 3)", "(4, 2, 7)");
  EXPECT_ERROR(lstm(Tensor(ops::zeros({3}))), "LSTM", "(L, N, 3) or (L, 3)", "(3)");
  EXPECT_ERROR(LSTM(3, 5, {.batch_first = true})(Tensor(ops::zeros({1, 4, 2, 3}))), "LSTM", "(N, L, 3)");
  EXPECT_ERROR(lstm(Tensor(ops::zeros({0, 2, 3}))), "LSTM", "at least one step", "(0, 2, 3)");
  EXPECT_ERROR(lstm(Tensor(ops::zeros({4, 2, 3}, DType::f64))), "the same dtype", "f64 and f32");
  EXPECT_ERROR(lstm(x, {state, Tensor(ops::zeros({1, 2, 5}))}), "LSTM", "initial c", "(2, 2, 5)", "(1, 2, 5)");
  EXPECT_ERROR(lstm(x, {Tensor(ops::zeros({2, 5})), state}), "LSTM", "initial h", "(2, 2, 5)", "(2, 5)");
  EXPECT_ERROR(lstm(x, {state, {}}), "LSTM", "both h and c", "only h");
  EXPECT_ERROR(lstm(x, {state, Tensor(ops::zeros({2, 2, 5}, DType::f64))}), "LSTM", "initial c", "f64 and f32");
  EXPECT_ERROR(GRU(3, 5)(Tensor(ops::zeros({4, 3})), state), "GRU", "initial h", "(1, 5)", "(2, 2, 5)");
}

}  // namespace
}  // namespace tandem
