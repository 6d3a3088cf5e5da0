#include <tandem/distributed/groups/operation.h>

namespace tandem::distributed {
namespace {

using Kind = Operation::Kind;

const char* name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return "sum";
    case ReduceOp::mean: return "mean";
    case ReduceOp::min: return "min";
    case ReduceOp::max: return "max";
    case ReduceOp::product: return "product";
  }
  return "reduction";
}

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::broadcast: return "broadcast";
    case Kind::all_reduce: return "all_reduce";
    case Kind::reduce: return "reduce";
    case Kind::all_gather: return "all_gather";
    case Kind::reduce_scatter: return "reduce_scatter";
    case Kind::gather: return "gather";
    case Kind::scatter: return "scatter";
    case Kind::all_to_all: return "all_to_all";
    case Kind::barrier: return "barrier";
    case Kind::send: return "send";
    case Kind::receive: return "receive";
  }
  return "operation";
}

}  // namespace

const char* Operation::kind_name() const { return name_of(kind); }

std::string Operation::what() const {
  const std::string text = kind_name();
  if (name.empty() || name == text) return text;
  // Errors show the text, and watchdogs publish it as one line.
  std::string shown = name;
  for (char& c : shown)
    if ((c >= 0 && c < ' ') || c == 127) c = '?';
  return text + " '" + shown + "'";
}

std::string Operation::signature() const {
  if (kind == Kind::barrier) return kind_name();
  const Array& array = outputs.empty() ? inputs.front() : outputs.front();
  return signature(kind, reduce_op, array.dtype(), array.shape(), root);
}

// Every collective builds this text, so the code avoids streams, which are several times slower.
std::string Operation::signature(Kind kind, ReduceOp reduce_op, DType dtype, const Shape& shape, int root) {
  std::string text = name_of(kind);
  if (kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter)
    text.append("(").append(name_of(reduce_op)).append(")");
  if (kind == Kind::barrier) return text;
  text.append(" of ").append(name_of(dtype)).append(" (");
  for (int i = 0; i < shape.ndim(); ++i) text.append(i == 0 ? "" : ", ").append(std::to_string(shape[i]));
  text += ')';
  if (kind == Kind::broadcast || kind == Kind::scatter) text.append(" from rank ").append(std::to_string(root));
  if (kind == Kind::reduce || kind == Kind::gather) text.append(" to rank ").append(std::to_string(root));
  return text;
}

std::size_t Operation::bytes() const {
  std::size_t bytes = 0;
  for (const auto& input : inputs) bytes += input.bytes();
  for (const auto& output : outputs) bytes += output.bytes();
  return bytes;
}

void Operation::release_arrays() {
  inputs.clear();
  outputs.clear();
}

}  // namespace tandem::distributed
