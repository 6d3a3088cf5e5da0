#include <tandem/autograd/autocast.h>
#include <tandem/autograd/functions.h>
#include <tandem/autograd/functions/recurrent.h>
#include <tandem/core/formulas/recurrent.h>
#include <tandem/nn/init.h>
#include <tandem/nn/recurrent.h>

#include <cmath>
#include <sstream>

namespace tandem::nn {

RecurrentLayer::RecurrentLayer(const char* name, RecurrentCell kind, std::int64_t input_size, std::int64_t hidden_size,
                               const RecurrentOptions<NoNonlinearity>& options)
    : kind_(kind), input_size_(input_size), hidden_size_(hidden_size), options_(options) {
  TANDEM_CHECK(input_size > 0 && hidden_size > 0, name, ": sizes must be positive, got ", input_size, " and ",
               hidden_size);
  TANDEM_CHECK(options.num_layers > 0, name, ": num_layers must be positive, got ", options.num_layers);
  TANDEM_CHECK(options.dropout >= 0 && options.dropout <= 1, name, ": dropout must be from 0 to 1, got ",
               options.dropout);
  const std::int64_t gates = gates_of(kind);
  const double bound = 1 / std::sqrt(static_cast<double>(hidden_size));
  for (std::int64_t layer = 0; layer < options.num_layers; ++layer) {
    const std::int64_t in = layer == 0 ? input_size : (options.bidirectional ? 2 : 1) * hidden_size;
    for (const char* direction : {"", "_reverse"}) {
      if (*direction && !options.bidirectional) continue;
      const auto add = [&](const std::string& what, const Shape& shape) {
        return add_parameter(what + "_l" + std::to_string(layer) + direction, init::uniform(shape, bound));
      };
      Cell cell;
      cell.weight_ih = add("weight_ih", {gates * hidden_size, in});
      cell.weight_hh = add("weight_hh", {gates * hidden_size, hidden_size});
      if (options.bias) {
        cell.bias_ih = add("bias_ih", {gates * hidden_size});
        cell.bias_hh = add("bias_hh", {gates * hidden_size});
      }
      cells.push_back(std::move(cell));
    }
  }
}

std::string RecurrentLayer::describe() const {
  std::ostringstream out;
  out << class_name() << "(in=" << input_size_ << ", hidden=" << hidden_size_;
  if (options_.num_layers > 1) out << ", " << options_.num_layers << " layers";
  if (options_.bidirectional) out << ", bidirectional";
  if (options_.batch_first) out << ", batch first";
  if (options_.dropout > 0) out << ", dropout " << options_.dropout;
  out << (options_.bias ? ")" : ", without bias)");
  return out.str();
}

std::pair<Tensor, RecurrentLayer::State> RecurrentLayer::call(const Tensor& x, const State& initial) {
  std::pair<Tensor, State> result;
  called([&] {
    result = run(x, initial);
    return result.first;
  });
  return result;
}

std::pair<Tensor, RecurrentLayer::State> RecurrentLayer::run(const Tensor& input, const State& initial) {
  TANDEM_CHECK(input.defined(), class_name(), ": the input is undefined");
  const int ndim = input.shape().ndim();
  TANDEM_CHECK((ndim == 2 || ndim == 3) && input.dim(-1) == input_size_, class_name(), ": input must be ",
               options_.batch_first ? "(N, L, " : "(L, N, ", input_size_, ") or (L, ", input_size_, "), got ",
               input.shape());
  const bool is_single = ndim == 2, batch_first = options_.batch_first && !is_single;
  // From here on, x is (L, N, size).
  Tensor x = is_single ? unsqueeze(input, 1) : batch_first ? transpose(input, 0, 1) : input;
  const std::int64_t length = x.dim(0), batch = x.dim(1), count = static_cast<std::int64_t>(cells.size());
  TANDEM_CHECK(length > 0, class_name(), ": the sequence must have at least one step, got input ", input.shape());
  const Tensor& weight = cells[0].weight_hh;
  const auto states = [&](const char* name, const Tensor& given) {
    if (!given.defined()) return std::vector<Tensor>(cells.size());
    const Shape wanted = is_single ? Shape{count, hidden_size_} : Shape{count, batch, hidden_size_};
    TANDEM_CHECK(given.shape() == wanted, class_name(), ": the initial ", name, " must be ", wanted, " for input ",
                 input.shape(), ", got ", given.shape());
    check_dtypes((class_name() + "'s initial " + name).c_str(), given, weight);
    return unbind(is_single ? unsqueeze(given, 1) : given);
  };
  const bool has_c = states_of(kind_) == 2;
  TANDEM_CHECK(!has_c || initial.h.defined() == initial.c.defined(), class_name(),
               ": the initial state needs both h and c, got only ", initial.h.defined() ? "h" : "c");
  std::vector<Tensor> h = states("h", initial.h), c(cells.size());
  if (has_c) c = states("c", initial.c);

  const std::size_t directions = options_.bidirectional ? 2 : 1;
  for (std::size_t first = 0; first < cells.size(); first += directions) {
    if (first > 0) x = dropout(x, options_.dropout, is_training());
    std::vector<Tensor> outputs;
    for (std::size_t i = first; i < first + directions; ++i) {
      const Cell& cell = cells[i];
      // Gates that only add the contributions of x and h take the sum of both biases.
      const bool adds_biases = options_.bias && adds_gates(kind_);
      const Tensor bias = adds_biases ? cell.bias_ih + cell.bias_hh : cell.bias_hh;
      // One product covers the inputs of all steps.
      const Tensor from_x = linear(x, cell.weight_ih, adds_biases ? Tensor() : cell.bias_ih);
      const Recurrence read =
          recurrence(kind_, from_x, cell.weight_hh, bias, {.h_0 = h[i], .c_0 = c[i], .reverse = i > first});
      outputs.push_back(read.output);
      h[i] = read.h_n;
      c[i] = read.c_n;
    }
    x = directions == 1 ? outputs[0] : cat(outputs, -1);
  }

  const auto joined = [&](const std::vector<Tensor>& parts) { return is_single ? cat(parts) : stack(parts); };
  return {is_single ? squeeze(x, 1) : batch_first ? transpose(x, 0, 1) : x, {joined(h), has_c ? joined(c) : Tensor()}};
}

namespace {

RecurrentCell cell_of(RNNNonlinearity nonlinearity) {
  if (nonlinearity == RNNNonlinearity::relu) return RecurrentCell::relu;
  return RecurrentCell::tanh;
}

}  // namespace

RNN::RNN(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options)
    : RecurrentLayer(
          "RNN", cell_of(options.nonlinearity), input_size, hidden_size,
          {options.num_layers, {}, options.bias, options.batch_first, options.dropout, options.bidirectional}),
      nonlinearity_(options.nonlinearity) {}

RNN::Result RNN::operator()(const Tensor& x, const Tensor& h_0) {
  const auto [output, state] = call(x, {h_0, {}});
  return {output, state.h};
}

std::string RNN::describe() const {
  std::string text = RecurrentLayer::describe();
  if (nonlinearity_ == RNNNonlinearity::relu) text.insert(text.size() - 1, ", relu");
  return text;
}

LSTM::LSTM(std::int64_t input_size, std::int64_t hidden_size, const LSTMOptions& options)
    : RecurrentLayer("LSTM", RecurrentCell::lstm, input_size, hidden_size, options) {}

LSTM::Result LSTM::operator()(const Tensor& x, const State& initial) {
  const auto [output, state] = call(x, initial);
  return {output, state};
}

GRU::GRU(std::int64_t input_size, std::int64_t hidden_size, const GRUOptions& options)
    : RecurrentLayer("GRU", RecurrentCell::gru, input_size, hidden_size, options) {}

GRU::Result GRU::operator()(const Tensor& x, const Tensor& h_0) {
  const auto [output, state] = call(x, {h_0, {}});
  return {output, state.h};
}

}  // namespace tandem::nn
