#include <tandem/autograd/autocast.h>
#include <tandem/autograd/functions/recurrent.h>
#include <tandem/autograd/functions/views.h>
#include <tandem/autograd/operation.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/formulas/recurrent.h>
#include <tandem/core/ops.h>
#include <tandem/core/ops/recurrent.h>

#include <array>
#include <vector>

namespace tandem {

using namespace autograd;

namespace {

constexpr const char* name = "recurrence";

void check(RecurrentCell cell, const Tensor& from_x, const Tensor& weight, const Tensor& bias,
           const RecurrenceOptions& options) {
  const std::int64_t gates = gates_of(cell);
  TANDEM_CHECK(from_x.shape().ndim() == 3 && weight.shape().ndim() == 2 && weight.dim(0) == gates * weight.dim(1) &&
                   from_x.dim(2) == weight.dim(0),
               name, ": input ", from_x.shape(), " and weight ", weight.shape(), " do not fit: expected (L, N, ", gates,
               " H) and (", gates, " H, H)");
  TANDEM_CHECK(from_x.dim(0) > 0, name, ": the sequence must have at least one step, got input ", from_x.shape());
  TANDEM_CHECK(!bias.defined() || bias.shape() == Shape{weight.dim(0)}, name, ": bias must be (", weight.dim(0),
               "), got ", bias.shape());
  TANDEM_CHECK(states_of(cell) == 2 || !options.c_0.defined(), name, ": this cell has no c, but c_0 is given");
  const Shape wanted{from_x.dim(1), weight.dim(1)};
  const DType dtype = options.h_0.defined() ? options.h_0.dtype() : weight.dtype();
  for (const Tensor& state : {options.h_0, options.c_0}) {
    if (!state.defined()) continue;
    TANDEM_CHECK(state.shape() == wanted && state.dtype() == dtype, name, ": the initial state must be ", wanted, ' ',
                 dtype, " for input ", from_x.shape(), ", got ", state.shape(), ' ', state.dtype());
    check_dtypes(name, state, weight);
  }
  for (const Tensor& each : {from_x, weight, bias, options.h_0, options.c_0}) {
    if (!each.defined()) continue;
    TANDEM_CHECK(is_floating(each.dtype()), name, ": needs floating dtypes, got ", each.dtype());
    TANDEM_CHECK(each.device() == from_x.device(), name, ": the input is on ", from_x.device(),
                 ", another argument on ", each.device());
    check_dtypes(name, each, weight);
  }
}

}  // namespace

Recurrence recurrence(RecurrentCell cell, const Tensor& from_x, const Tensor& weight, const Tensor& bias,
                      const RecurrenceOptions& options) {
  const Scope scope(name);
  check(cell, from_x, weight, bias, options);
  const std::int64_t length = from_x.dim(0), batch = from_x.dim(1), units = weight.dim(1);
  const bool reverse = options.reverse;
  const std::array<Tensor, 2> given{options.h_0, options.c_0};
  std::vector<Array> first;
  for (int s = 0; s < states_of(cell); ++s) {
    const Tensor& state = given[static_cast<std::size_t>(s)];
    const DType dtype = options.h_0.defined() ? options.h_0.dtype() : weight.dtype();
    first.push_back(state.defined() ? state.value() : ops::zeros({batch, units}, dtype, from_x.device()));
  }
  bool is_recorded = false;
  for (const Tensor& input : {from_x, weight, bias, options.h_0, options.c_0})
    is_recorded |= grad_enabled() && input.defined() && input.requires_grad();
  const Array w = autocast_low(weight).value();
  const auto forward = ops::recurrent(cell, from_x.value(), w, value_of(bias), first, reverse, is_recorded);
  // One result holds all states. Its first dimension lists all steps of h, then all steps of c. Its parts are views.
  const std::int64_t rows = length + 1, start = reverse ? 0 : 1, last = reverse ? 0 : length;
  const Shape all_states{states_of(cell) * rows, batch, units};
  const Tensor states = record(
      name, {from_x, weight, bias, options.h_0, options.c_0}, forward.states.reshape(all_states),
      [cell, saved = Saved(name, forward.states), kept = forward.kept, w = Saved(name, w), reverse,
       shape = forward.states.shape(), weight_dtype = weight.dtype()](const Array& grad, Needs needs) -> Gradients {
        const ops::RecurrentStates forward{saved, kept};
        const auto gradients = ops::recurrent_grad(cell, w, forward, grad.reshape(shape), reverse);
        Gradients result{gradients.from_x, {}, {}, gradients.first.select(0, 0), {}};
        // After the loop, one product sums the weight's gradient over all steps.
        const Array table = gradients.from_h.flatten(0, 1);
        const DType low = w.get().dtype();
        if (needs[1])
          result[1] =
              ops::matmul(table.to(low).transpose(0, 1), forward.before(reverse).select(0, 0).flatten(0, 1).to(low))
                  .to(weight_dtype);
        if (needs[2]) result[2] = ops::reduce(Reduction::sum, table, {0});
        if (states_of(cell) == 2) result[4] = gradients.first.select(0, 1);
        return result;
      });
  Recurrence result;
  result.output = narrow(states, 0, start, length);
  result.h_n = select(states, 0, last);
  if (states_of(cell) == 2) result.c_n = select(states, 0, rows + last);
  return result;
}

}  // namespace tandem
