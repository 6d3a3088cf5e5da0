#include <tandem/core/ops.h>
#include <tandem/distributed/groups/nccl/nccl_operations.h>

#include <limits>
#include <utility>

namespace tandem::distributed {
namespace {

using Kind = Operation::Kind;

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return ncclFloat32;
    case DType::f64: return ncclFloat64;
    case DType::bf16: return ncclBfloat16;
    case DType::f16: return ncclFloat16;
    case DType::i64: return ncclInt64;
    case DType::i32: return ncclInt32;
    case DType::u8:
    case DType::boolean: return ncclUint8;
  }
  detail::fail("NCCL has no type for ", dtype);
}

// For booleans, a sum is true if any value is true, and a product is true if all values are true.
ncclRedOp_t reduction_of(ReduceOp op, DType dtype) {
  const bool truth = dtype == DType::boolean;
  switch (op) {
    case ReduceOp::sum: return truth ? ncclMax : ncclSum;
    case ReduceOp::product: return truth ? ncclMin : ncclProd;
    case ReduceOp::mean: return ncclAvg;
    case ReduceOp::min: return ncclMin;
    case ReduceOp::max: return ncclMax;
  }
  return ncclSum;
}

bool are_adjacent(const std::vector<Array>& arrays) {
  for (std::size_t i = 1; i < arrays.size(); ++i) {
    if (arrays[i].raw() != static_cast<char*>(arrays[i - 1].raw()) + arrays[i - 1].bytes()) return false;
  }
  return true;
}

// Returns arrays of the same number and shape as `arrays`, one after the other in new memory. Their contents are
// undefined.
std::vector<Array> adjacent_like(const std::vector<Array>& arrays) {
  const Array& one = arrays.front();
  const auto n = one.numel(), count = static_cast<std::int64_t>(arrays.size());
  const Array joined = Array::empty({count * n}, one.dtype(), one.device());
  std::vector<Array> parts;
  for (std::int64_t i = 0; i < count; ++i) parts.push_back(joined.slice(0, i * n, (i + 1) * n).reshape(one.shape()));
  return parts;
}

// Runs several calls as one NCCL operation. end() returns the first error.
class GroupedCalls {
 public:
  GroupedCalls() { add(ncclGroupStart()); }
  void add(ncclResult_t result) {
    if (result_ == ncclSuccess || result_ == ncclInProgress) result_ = result;
  }
  // A group that was started must be ended, even after an error.
  ncclResult_t end() {
    add(ncclGroupEnd());
    return result_;
  }

 private:
  ncclResult_t result_ = ncclSuccess;
};

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

Array is_nan(const Array& array) { return ops::compare(functors::NotEqual{}, array, array); }

ncclResult_t issue(const Operation& operation, ncclComm_t communicator, cudaStream_t stream);

}  // namespace

Operation adjacent(Operation operation) {
  // All ranks must make the same NCCL call, so the call must not depend on the layout of this rank's arrays.
  if (operation.kind == Kind::all_gather && !are_adjacent(operation.outputs))
    operation.outputs = adjacent_like(operation.outputs);
  if (operation.kind == Kind::reduce_scatter && !are_adjacent(operation.inputs)) {
    auto parts = adjacent_like(operation.inputs);
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i].copy_from(operation.inputs[i]);
    operation.inputs = std::move(parts);
  }
  return operation;
}

std::optional<NanMarks> NanMarks::of(const Operation& contiguous, const Operation& given) {
  const bool reduces =
      given.kind == Kind::all_reduce || given.kind == Kind::reduce || given.kind == Kind::reduce_scatter;
  const bool is_extreme = given.reduce_op == ReduceOp::min || given.reduce_op == ReduceOp::max;
  if (!reduces || !is_extreme || !is_floating(given.outputs.front().dtype())) return {};
  const auto marked = [](const Array& array) {
    return ops::masked_fill(ops::zeros_like(array), is_nan(array), not_a_number);
  };
  Operation sum = contiguous;
  sum.reduce_op = ReduceOp::sum;
  for (Array& output : sum.outputs) output = sum.inputs.empty() ? marked(output) : ops::empty_like(output);
  for (Array& input : sum.inputs) input = marked(input);
  return NanMarks{adjacent(std::move(sum)), given.outputs};
}

void NanMarks::write() const {
  for (std::size_t i = 0; i < outputs.size(); ++i)
    Array(outputs[i]).copy_from(ops::masked_fill(outputs[i], is_nan(sum.outputs[i]), not_a_number));
}

ncclResult_t issue(const Operation& operation, const std::optional<NanMarks>& marks, ncclComm_t communicator,
                   cudaStream_t stream) {
  if (!marks) return issue(operation, communicator, stream);
  GroupedCalls calls;
  calls.add(issue(operation, communicator, stream));
  calls.add(issue(marks->sum, communicator, stream));
  return calls.end();
}

namespace {

ncclResult_t issue(const Operation& operation, ncclComm_t communicator, cudaStream_t stream) {
  const auto& in = operation.inputs;
  const auto& out = operation.outputs;
  const Array& one = out.empty() ? in.front() : out.front();
  const auto n = static_cast<std::size_t>(one.numel());
  const auto type = type_of(one.dtype());
  const auto reduction = reduction_of(operation.reduce_op, one.dtype());
  const int root = operation.root;
  const auto send = [&](const Array& array, int to) {
    return ncclSend(array.raw(), n, type, to, communicator, stream);
  };
  const auto receive = [&](const Array& array, int from) {
    return ncclRecv(array.raw(), n, type, from, communicator, stream);
  };
  switch (operation.kind) {
    case Kind::broadcast: return ncclBroadcast(one.raw(), one.raw(), n, type, root, communicator, stream);
    case Kind::all_reduce: return ncclAllReduce(one.raw(), one.raw(), n, type, reduction, communicator, stream);
    case Kind::reduce: return ncclReduce(one.raw(), one.raw(), n, type, reduction, root, communicator, stream);
    case Kind::all_gather: return ncclAllGather(in[0].raw(), one.raw(), n, type, communicator, stream);
    case Kind::reduce_scatter:
      return ncclReduceScatter(in[0].raw(), one.raw(), n, type, reduction, communicator, stream);
    case Kind::gather: {
      GroupedCalls calls;
      calls.add(send(in[0], root));
      for (std::size_t r = 0; r < out.size(); ++r) calls.add(receive(out[r], static_cast<int>(r)));
      return calls.end();
    }
    case Kind::scatter: {
      GroupedCalls calls;
      for (std::size_t r = 0; r < in.size(); ++r) calls.add(send(in[r], static_cast<int>(r)));
      calls.add(receive(one, root));
      return calls.end();
    }
    case Kind::all_to_all: {
      GroupedCalls calls;
      for (std::size_t r = 0; r < in.size(); ++r) {
        calls.add(send(in[r], static_cast<int>(r)));
        calls.add(receive(out[r], static_cast<int>(r)));
      }
      return calls.end();
    }
    case Kind::barrier:
    case Kind::send:
    case Kind::receive: break;
  }
  detail::fail(operation.what(), " can't run over NCCL");
}

}  // namespace
}  // namespace tandem::distributed
