#include <tandem/core/base/scope.h>
#include <tandem/optim/graphed_step.h>

#include <utility>

namespace tandem {

namespace {

// The number of calls with equal inputs that run normally before a call is recorded. The first step creates gradients
// and momentum, and only the second one finds them in place. Between the two, DistributedDataParallel rebuilds its
// buckets.
constexpr std::int64_t warm_up_calls = 3;

}  // namespace

GraphedStep::GraphedStep(Device device, Function function, std::function<void(const std::string&)> report)
    : device_(device), function_(std::move(function)), report_(std::move(report)), may_record_(!device.is_cpu()) {}

Array GraphedStep::operator()(const std::vector<Array>& inputs) {
  if (!may_record_) return function_(inputs);
  Signature now;
  for (const Array& input : inputs) {
    now.shapes.push_back(input.shape());
    now.dtypes.push_back(input.dtype());
  }
  if (graph_ && now == recorded_) {
    const Scope scope(Scope::Kind::phase, "replay step");
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool is_there = inputs[i].raw() == inputs_[i].raw() && inputs[i].strides() == inputs_[i].strides();
      if (!is_there) inputs_[i].copy_from(inputs[i]);
    }
    graph_->replay();
    return result_;
  }
  repeated_ = now == last_ ? repeated_ : 0;
  if (repeated_ >= warm_up_calls && record(inputs)) {
    recorded_ = std::move(now);
    graph_->replay();
    return result_;
  }
  ++repeated_;
  last_ = std::move(now);
  return function_(inputs);
}

bool GraphedStep::record(const std::vector<Array>& inputs) {
  const Scope scope(Scope::Kind::phase, "record step");
  graph_ = nullptr;
  result_ = {};
  inputs_.clear();
  for (const Array& input : inputs) inputs_.push_back(input.to(device_).clone());
  try {
    graph_ = record_graph(device_, [this] { result_ = function_(inputs_); });
  } catch (const std::exception& error) {
    may_record_ = false;
    result_ = {};
    inputs_.clear();
    if (report_) report_(std::string("each step runs normally, not as one recorded graph: ") + error.what());
  }
  return graph_ != nullptr;
}

}  // namespace tandem
