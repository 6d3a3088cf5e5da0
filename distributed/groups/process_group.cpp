#include <tandem/core/array/overlap.h>
#include <tandem/distributed/groups/process_group.h>

namespace tandem::distributed {
namespace {

using Kind = Operation::Kind;

void check_reduction(const Array& array, ReduceOp op) {
  TANDEM_CHECK(op != ReduceOp::mean || is_floating(array.dtype()), "a mean over ranks needs a floating dtype, got ",
               array.dtype());
}

void check_apart(const char* kind, const std::vector<Array>& outputs) {
  const auto share = [](const Array& a, const Array& b) {
    return a.storage() == b.storage() && a.numel() > 0 && (a.offset() == b.offset() || overlap(a, b));
  };
  for (std::size_t i = 1; i < outputs.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      TANDEM_CHECK(!share(outputs[i], outputs[j]), kind, ": outputs ", j, " and ", i,
                   " share memory, as copies of an Array do: give each its own with zeros() or empty()");
}

}  // namespace

std::shared_ptr<Work> ProcessGroup::broadcast(Array array, int root, std::string name) {
  check_rank("root", root);
  return begin({.kind = Kind::broadcast, .name = std::move(name), .outputs = {std::move(array)}, .root = root});
}

std::shared_ptr<Work> ProcessGroup::all_reduce(Array array, ReduceOp op, std::string name) {
  check_reduction(array, op);
  return begin({.kind = Kind::all_reduce, .name = std::move(name), .outputs = {std::move(array)}, .reduce_op = op});
}

std::shared_ptr<Work> ProcessGroup::reduce(Array array, int root, ReduceOp op, std::string name) {
  check_rank("root", root);
  check_reduction(array, op);
  return begin(
      {.kind = Kind::reduce, .name = std::move(name), .outputs = {std::move(array)}, .root = root, .reduce_op = op});
}

std::shared_ptr<Work> ProcessGroup::all_gather(std::vector<Array> outputs, Array input, std::string name) {
  check_equal("all_gather", outputs, input);
  return begin(
      {.kind = Kind::all_gather, .name = std::move(name), .inputs = {std::move(input)}, .outputs = std::move(outputs)});
}

std::shared_ptr<Work> ProcessGroup::reduce_scatter(Array output, std::vector<Array> inputs, ReduceOp op,
                                                   std::string name) {
  check_equal("reduce_scatter", inputs, output);
  check_reduction(output, op);
  return begin({.kind = Kind::reduce_scatter,
                .name = std::move(name),
                .inputs = std::move(inputs),
                .outputs = {std::move(output)},
                .reduce_op = op});
}

std::shared_ptr<Work> ProcessGroup::gather(std::vector<Array> outputs, Array input, int root, std::string name) {
  check_rank("root", root);
  if (rank() == root) {
    check_equal("gather", outputs, input);
  } else {
    TANDEM_CHECK(outputs.empty(), "gather: only the root, rank ", root, ", receives anything; rank ", rank(),
                 " must give no outputs");
  }
  return begin({.kind = Kind::gather,
                .name = std::move(name),
                .inputs = {std::move(input)},
                .outputs = std::move(outputs),
                .root = root});
}

std::shared_ptr<Work> ProcessGroup::scatter(Array output, std::vector<Array> inputs, int root, std::string name) {
  check_rank("root", root);
  if (rank() == root) {
    check_equal("scatter", inputs, output);
  } else {
    TANDEM_CHECK(inputs.empty(), "scatter: only the root, rank ", root, ", sends anything; rank ", rank(),
                 " must give no inputs");
  }
  return begin({.kind = Kind::scatter,
                .name = std::move(name),
                .inputs = std::move(inputs),
                .outputs = {std::move(output)},
                .root = root});
}

std::shared_ptr<Work> ProcessGroup::all_to_all(std::vector<Array> outputs, std::vector<Array> inputs,
                                               std::string name) {
  TANDEM_CHECK(!inputs.empty(), "all_to_all over ", size(), " ranks was given no inputs");
  check_equal("all_to_all", inputs, inputs.front());
  check_equal("all_to_all", outputs, inputs.front());
  return begin(
      {.kind = Kind::all_to_all, .name = std::move(name), .inputs = std::move(inputs), .outputs = std::move(outputs)});
}

std::shared_ptr<Work> ProcessGroup::barrier(std::string name) {
  return begin({.kind = Kind::barrier, .name = std::move(name)});
}

std::shared_ptr<Work> ProcessGroup::send(Array array, int to, std::string name) {
  check_rank("receiving", to);
  TANDEM_CHECK(to != rank(), "rank ", to, " can't send to itself");
  return begin({.kind = Kind::send, .name = std::move(name), .inputs = {std::move(array)}, .root = to});
}

std::shared_ptr<Work> ProcessGroup::receive(Array array, int from, std::string name) {
  check_rank("sending", from);
  TANDEM_CHECK(from != rank(), "rank ", from, " can't receive from itself");
  return begin({.kind = Kind::receive, .name = std::move(name), .outputs = {std::move(array)}, .root = from});
}

std::shared_ptr<Work> ProcessGroup::begin(Operation operation) {
  check_apart(operation.kind_name(), operation.outputs);
  const bool is_message = operation.kind == Kind::send || operation.kind == Kind::receive;
  if (operation.name.empty() && !is_message) {
    std::thread::id first, me = std::this_thread::get_id();
    TANDEM_CHECK(unnamed_by_.compare_exchange_strong(first, me) || first == me, operation.kind_name(),
                 ": two threads start operations without a name on this group, and the other ranks can't know which of "
                 "them comes first: give the operations names, or give each thread its own group (subgroup)");
  }
  return start(std::move(operation));
}

void ProcessGroup::check_rank(const char* role, int rank) const {
  TANDEM_CHECK(rank >= 0 && rank < size(), role, " rank ", rank, " is not in this group of ", size());
}

void ProcessGroup::check_equal(const char* kind, const std::vector<Array>& list, const Array& one) const {
  TANDEM_CHECK(static_cast<int>(list.size()) == size(), kind, " over ", size(), " ranks was given ", list.size(),
               " arrays, but needs one for each rank");
  for (const auto& array : list) {
    TANDEM_CHECK(array.shape() == one.shape() && array.dtype() == one.dtype(), kind,
                 " needs arrays of the same shape and dtype, got ", array.dtype(), " ", array.shape(), " and ",
                 one.dtype(), " ", one.shape());
  }
}

std::shared_ptr<ProcessGroup> required(std::shared_ptr<ProcessGroup> group, const char* who) {
  TANDEM_CHECK(group, who,
               ": the process group is null. init() returns one; subgroup() returns null on ranks outside of it");
  return group;
}

}  // namespace tandem::distributed
