// Recurrent layers read sequences step by step and carry a state from step to step.
//
//   nn::LSTM lstm(28, 64, {.num_layers = 2, .batch_first = true});
//   const auto [output, state] = lstm(x);        // x (N, L, 28) -> output (N, L, 64); state.h and state.c (2, N, 64)
//   const auto [more, later] = lstm(next, state);  // reads on where x ended
//
// x is (L, N, input_size), (N, L, input_size) with batch_first, or (L, input_size) for a single sequence. The output is
// h of the last layer after each step. It has the shape of x with D * hidden_size in place of input_size, where D is 2
// for a bidirectional layer and otherwise 1. States are (num_layers * D, N, hidden_size), even with batch_first, or
// (num_layers * D, hidden_size) for a single sequence. The state defaults to zeros.
//
// All sequences of a batch have the same length: there are no packed sequences. In a Sequential, a recurrent layer
// passes only its output on.
#pragma once

#include <tandem/core/formulas/recurrent_cell.h>
#include <tandem/nn/module.h>

namespace tandem::nn {

// The options of RNN, LSTM and GRU. Only RNN lets the caller choose the nonlinearity. For the others `nonlinearity` is
// an empty struct, and setting it does not compile. RecurrentOptions is a template instead of a base class because
// designated initialisers can't name the members of a base.
template <class NonlinearityChoice>
struct RecurrentOptions {
  std::int64_t num_layers = 1;  // layer i + 1 reads the output of layer i
  NonlinearityChoice nonlinearity = {};
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;          // in training, the fraction of zeros in the output of each layer except the last
  bool bidirectional = false;  // each layer reads in both directions and concatenates the outputs
};
enum class RNNNonlinearity { tanh, relu };
struct NoNonlinearity {};
using RNNOptions = RecurrentOptions<RNNNonlinearity>;
using LSTMOptions = RecurrentOptions<NoNonlinearity>;
using GRUOptions = RecurrentOptions<NoNonlinearity>;

// The common parts of RNN, LSTM and GRU.
class RecurrentLayer : public Module {
 public:
  struct State {
    Tensor h, c;  // c is defined only for LSTM
  };
  // The parameters of one layer for one direction: weight_ih (G * hidden_size, in), weight_hh (G * hidden_size,
  // hidden_size), and bias_ih and bias_hh (G * hidden_size), which are undefined without bias. G is the number of
  // gates. `in` is input_size for the first layer and D * hidden_size for the others.
  struct Cell {
    Tensor weight_ih, weight_hh, bias_ih, bias_hh;
  };

  Tensor forward(const Tensor& x) override { return run(x, {}).first; }
  std::string describe() const override;

  // Ordered by layer. In a bidirectional layer, the backward cell comes second. Names are PyTorch's: "weight_ih_l0",
  // "weight_ih_l0_reverse".
  std::vector<Cell> cells;

 protected:
  // `name` is the class name, for errors.
  RecurrentLayer(const char* name, RecurrentCell kind, std::int64_t input_size, std::int64_t hidden_size,
                 const RecurrentOptions<NoNonlinearity>& options);
  // Implements operator() of each class. Returns the output and the state after the last step.
  std::pair<Tensor, State> call(const Tensor& x, const State& initial);

 private:
  std::pair<Tensor, State> run(const Tensor& input, const State& initial);

  RecurrentCell kind_;
  std::int64_t input_size_, hidden_size_;
  RecurrentOptions<NoNonlinearity> options_;
};

// h' = tanh(x weight_ih^T + bias_ih + h weight_hh^T + bias_hh), or relu in place of tanh.
class RNN : public RecurrentLayer {
 public:
  RNN(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options = {});
  struct Result {
    Tensor output, h_n;
  };
  Result operator()(const Tensor& x, const Tensor& h_0 = {});
  std::string describe() const override;

 private:
  RNNNonlinearity nonlinearity_;
};

// Long short-term memory (Hochreiter and Schmidhuber, Neural Computation 9, 1997, with the forget gate of Gers et al.,
// 2000). The gates are i, f, g and o: c' = sigmoid(f) c + sigmoid(i) tanh(g), and h' = sigmoid(o) tanh(c').
class LSTM : public RecurrentLayer {
 public:
  LSTM(std::int64_t input_size, std::int64_t hidden_size, const LSTMOptions& options = {});
  struct Result {
    Tensor output;
    State state;
  };
  Result operator()(const Tensor& x, const State& initial = {});
};

// Gated recurrent units (Cho et al., arXiv:1406.1078). The gates are r, z and n: h' = n' + sigmoid(z) (h - n'), where
// n' = tanh(n of x + sigmoid(r) * n of h).
class GRU : public RecurrentLayer {
 public:
  GRU(std::int64_t input_size, std::int64_t hidden_size, const GRUOptions& options = {});
  struct Result {
    Tensor output, h_n;
  };
  Result operator()(const Tensor& x, const Tensor& h_0 = {});
};

}  // namespace tandem::nn
