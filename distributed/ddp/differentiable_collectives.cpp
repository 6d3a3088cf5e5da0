#include <tandem/autograd/operation.h>
#include <tandem/distributed/ddp/differentiable_collectives.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <sstream>
#include <utility>
#include <vector>

namespace tandem::distributed {
namespace {

// What each rank tells the others about its input, as int64 numbers.
struct Description {
  enum Mode { no_grad, no_gradient, needs_gradient };

  Description(const Tensor& x, std::int64_t rows, std::int64_t call) {
    const Mode mode = !grad_enabled() ? no_grad : x.requires_grad() ? needs_gradient : no_gradient;
    numbers = {call, mode, rows, static_cast<std::int64_t>(x.dtype())};
    numbers.insert(numbers.end(), x.shape().begin(), x.shape().end());
    numbers.resize(length, -1);
  }
  explicit Description(const Array& array) : numbers(array.to_vector<std::int64_t>()) {}

  std::int64_t call() const { return numbers[0]; }
  Mode mode() const { return static_cast<Mode>(numbers[1]); }
  std::int64_t rows() const { return numbers[2]; }
  DType dtype() const { return static_cast<DType>(numbers[3]); }
  Shape shape() const {
    const auto end = std::find(numbers.begin() + 4, numbers.end(), -1);
    return Shape(std::span(numbers.begin() + 4, end));
  }
  std::string text() const {
    std::ostringstream out;
    out << dtype() << ' ' << shape();
    return out.str();
  }

  static constexpr std::size_t length = 4 + Shape::max_ndim;
  std::vector<std::int64_t> numbers;
};

// A call of a collective on which all ranks have agreed.
struct Call {
  const char* function;
  std::shared_ptr<ProcessGroup> group;
  std::string name;                  // of the messages, for errors of the group
  std::string gradient{};            // the same for backward; differs from call to call
  std::vector<std::int64_t> rows{};  // by rank
  bool needs_gradient = false;       // whether the input of any rank needs a gradient

  bool is_even() const { return std::count(rows.begin(), rows.end(), rows[0]) == group->size(); }
  std::int64_t all_rows() const { return std::accumulate(rows.begin(), rows.end(), std::int64_t{0}); }
};

std::vector<Description> exchange(ProcessGroup& group, const Description& mine, const std::string& name) {
  std::vector<Array> arrays;
  for (int r = 0; r < group.size(); ++r) arrays.push_back(Array::empty({Description::length}, DType::i64));
  group.all_gather(arrays, Array::from(mine.numbers), "shapes for " + name)->wait();
  return {arrays.begin(), arrays.end()};
}

// Compares the inputs of all ranks. All ranks throw the same Error. `rows` is the number of rows that this rank gives
// or gets. With `is_uneven`, the first dimensions may differ.
Call agree(const char* function, const Tensor& x, std::int64_t rows, bool is_uneven,
           const std::shared_ptr<ProcessGroup>& group, const std::string& name) {
  static std::atomic<std::int64_t> calls = 0;
  Call call{function, required(group, function), name.empty() ? function : std::string(function) + " of " + name};
  const auto all = exchange(*group, {x, rows, ++calls}, call.name);
  const auto comparable = [&](const Description& d) {
    auto numbers = std::vector(d.numbers.begin() + 3, d.numbers.end());
    if (is_uneven) numbers[1] = std::min<std::int64_t>(numbers[1], 0);  // -1: no dimension
    return numbers;
  };
  int with_gradient = -1, under_no_grad = -1;
  for (int r = 0; r < group->size(); ++r) {
    TANDEM_CHECK(comparable(all[r]) == comparable(all[0]), call.name, ": rank 0 has ", all[0].text(), ", but rank ", r,
                 " has ", all[r].text(), ": all ranks need the same dtype and the same ",
                 is_uneven ? "dimensions after the first" : "shape");
    if (all[r].mode() == Description::needs_gradient) with_gradient = r;
    if (all[r].mode() == Description::no_grad) under_no_grad = r;
    call.rows.push_back(all[r].rows());
  }
  TANDEM_CHECK(with_gradient < 0 || under_no_grad < 0, call.name, ": the input of rank ", with_gradient,
               " needs a gradient, but rank ", under_no_grad,
               " is under NoGrad and would take no part in backward: use NoGrad on all ranks or on none");
  call.needs_gradient = with_gradient >= 0;
  // Rank 0's number makes the name of each call different. The same calls in another order are then an error.
  call.gradient = "gradient of " + call.name + ", call " + std::to_string(all[0].call());
  return call;
}

// Returns the rows of each rank as views of `all`.
std::vector<Array> parts_of(const Array& all, const Call& call) {
  std::vector<Array> parts;
  std::int64_t begin = 0;
  for (const auto rows : call.rows) {
    parts.push_back(all.slice(0, begin, begin + rows));
    begin += rows;
  }
  return parts;
}

// Starts `start(rank)` for each rank that has numbers, and waits until all are done.
void for_each_part(const std::vector<Array>& parts, const std::function<std::shared_ptr<Work>(int)>& start) {
  std::vector<std::shared_ptr<Work>> works;
  for (std::size_t r = 0; r < parts.size(); ++r)
    if (parts[r].numel() > 0) works.push_back(start(static_cast<int>(r)));
  for (const auto& work : works) work->wait();
}

Array gather_rows(const Call& call, const Array& mine, const std::string& name) {
  Shape shape = mine.shape();
  shape[0] = call.all_rows();
  const Array all = Array::empty(shape, mine.dtype(), mine.device());
  auto parts = parts_of(all, call);
  if (all.numel() > 0 && call.is_even()) {
    call.group->all_gather(std::move(parts), mine, name)->wait();
    return all;
  }
  parts[static_cast<std::size_t>(call.group->rank())].copy_from(mine);
  for_each_part(parts, [&](int r) { return call.group->broadcast(parts[r], r, name); });
  return all;
}

Array sum_and_scatter(const Call& call, const Array& mine, const std::string& name) {
  auto parts = parts_of(mine.contiguous(), call);
  Array& own = parts[static_cast<std::size_t>(call.group->rank())];
  if (mine.numel() > 0 && call.is_even()) {
    const Array result = Array::empty(own.shape(), own.dtype(), own.device());
    call.group->reduce_scatter(result, parts, ReduceOp::sum, name)->wait();
    return result;
  }
  own = own.clone();  // reduce changes only the root's array
  for_each_part(parts, [&](int r) { return call.group->reduce(parts[r], r, ReduceOp::sum, name); });
  return own;
}

Array sum_of(const Call& call, const Array& mine, const std::string& name) {
  const Array sum = mine.clone();
  call.group->all_reduce(sum, ReduceOp::sum, name)->wait();
  return sum;
}

// Records the operation if any rank's input needs a gradient, because all ranks must then take part in backward. If
// this rank's input needs none, a leaf that nobody else knows takes its place.
Tensor record(const Call& call, const Tensor& x, Array value, std::function<Array(const Array&)> back) {
  const bool is_needed = x.requires_grad();
  const Tensor input = call.needs_gradient && !is_needed ? Tensor(x.value(), true) : x;
  return autograd::record(call.function, {input}, std::move(value),
                          [back = std::move(back), is_needed](const Array& grad, autograd::Needs) {
                            const Array mine = back(grad);
                            return autograd::Gradients{is_needed ? mine : Array()};
                          });
}

}  // namespace

Tensor all_gather(const Tensor& rows, const std::shared_ptr<ProcessGroup>& group, const std::string& name) {
  const int ndim = rows.shape().ndim();
  const Call call = agree("all_gather", rows, ndim > 0 ? rows.dim(0) : 0, true, group, name);
  TANDEM_CHECK(ndim > 0, call.name, ": a scalar has no rows: give it one dimension with reshape(x, {1})");
  return record(call, rows, gather_rows(call, rows.value(), call.name),
                [call](const Array& grad) { return sum_and_scatter(call, grad, call.gradient); });
}

Tensor reduce_scatter(const Tensor& x, std::int64_t rows, const std::shared_ptr<ProcessGroup>& group,
                      const std::string& name) {
  const Call call = agree("reduce_scatter", x, rows, false, group, name);
  const bool fits = x.shape().ndim() > 0 && call.all_rows() == x.dim(0);
  std::string asked;
  for (const auto r : call.rows) asked += (asked.empty() ? "" : " + ") + std::to_string(r);
  TANDEM_CHECK(fits && *std::min_element(call.rows.begin(), call.rows.end()) >= 0, call.name, ": the ranks ask for ",
               asked, " rows of an array of shape ", x.shape(), ": together they must ask for all of its rows");
  return record(call, x, sum_and_scatter(call, x.value(), call.name),
                [call](const Array& grad) { return gather_rows(call, grad, call.gradient); });
}

Tensor all_reduce(const Tensor& x, const std::shared_ptr<ProcessGroup>& group, const std::string& name) {
  const Call call = agree("all_reduce", x, 0, false, group, name);
  return record(call, x, sum_of(call, x.value(), call.name),
                [call](const Array& grad) { return sum_of(call, grad, call.gradient); });
}

}  // namespace tandem::distributed
