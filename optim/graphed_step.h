// GraphedStep: a training step that is recorded as a graph of its device and then repeated in one call.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/backend/device_graph.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tandem {

// A training step makes hundreds of small calls. When a GPU does the work faster than the host can make the calls,
// recording the step once pays.
//
//   GraphedStep step(options.device(), [&](const std::vector<Array>& batch) {
//     optimizer.zero_grad();
//     const Tensor loss = criterion(model(batch[0]), batch[1]);
//     loss.backward();
//     optimizer.step();
//     return loss.value();
//   });
//   for (auto& [images, labels] : loader) total += step({images, labels});
//
// The first calls run the function as it is: they set up what a step needs only once (gradients, momentum, libraries).
// The next call records the step. From then on a call copies its inputs to where the recorded step reads them, and
// replays the step. A call whose inputs have other shapes or dtypes (the last, smaller batch) runs the function as it
// is. When such inputs keep coming, their step is recorded and replaces the old recording.
//
// `function` must do the same in every call, except for the values of its inputs:
//   - Numbers of the host that it uses are recorded with it. A number that changes from call to call must be an input:
//     an Array of shape (). The factor of a loss is an example. The options of tandem::optim's optimizers are an
//     exception: set_lr() and schedules, called between the steps, reach the recorded step.
//   - What the function does on the host, beside the device's work, happens when the function runs or is recorded. It
//     does not happen when the step is replayed.
//   - The function must start afresh (zero_grad first), because a recording that failed halfway is followed by a call
//     that runs it as it is.
//   - The arrays that it keeps from call to call (parameters, gradients, running statistics) must stay where they are.
// When the step can't be recorded, because the function reads a value on the way for instance, every later call runs
// the function as it is, and `report` is told the reason, once. An Error of the function itself shows in such a call.
// For one thread.
class GraphedStep {
 public:
  using Function = std::function<Array(const std::vector<Array>& inputs)>;

  // `device` is where the step's work is done. On the CPU nothing is recorded, and nothing is reported.
  GraphedStep(Device device, Function function, std::function<void(const std::string&)> report = {});

  // Returns what the function returns. From a recorded step this is an array that the next call overwrites.
  Array operator()(const std::vector<Array>& inputs);

  bool is_recorded() const { return graph_ != nullptr; }
  // The arrays from which the recorded step reads its inputs; empty when no step is recorded. A caller that writes a
  // batch into these arrays and passes them to the call saves the copy.
  const std::vector<Array>& recorded_inputs() const { return inputs_; }

 private:
  struct Signature {
    std::vector<Shape> shapes;
    std::vector<DType> dtypes;
    bool operator==(const Signature&) const = default;
  };

  bool record(const std::vector<Array>& inputs);

  const Device device_;
  const Function function_;
  const std::function<void(const std::string&)> report_;
  bool may_record_;
  Signature last_;             // of the latest calls that ran the function as it is
  std::int64_t repeated_ = 0;  // how many such calls in a row had this signature
  Signature recorded_;
  std::vector<Array> inputs_;  // where the recorded step reads them
  Array result_;
  std::unique_ptr<DeviceGraph> graph_;  // declared last: it must be destroyed before the arrays that it uses
};

}  // namespace tandem
