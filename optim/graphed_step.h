// GraphedStep: a training step that is recorded as a graph on its device and then replayed in one call.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/backend/device_graph.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tandem {

// A training step makes hundreds of small calls. If the GPU finishes the work faster than the host can issue the calls,
// recording the step once saves time.
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
// The first calls run the function normally and set up everything that a step needs only once (gradients, momentum,
// libraries). The next call records the step. Each later call copies its inputs to the memory that the recorded step
// reads, and replays the step. A call whose inputs have other shapes or dtypes (the last, smaller batch) runs the
// function normally. If such inputs keep coming, their step is recorded and replaces the old recording.
//
// `function` must do the same work in every call, except for the values of its inputs:
//   - Numbers that the function uses on the host are recorded with it. A number that changes between calls must be an
//     input: an Array of shape (). The factor of a loss is an example. The options of tandem::optim's optimizers are an
//     exception: set_lr() and schedules, called between steps, affect the recorded step.
//   - The function's host code runs only when the function runs or is recorded. It does not run in a replay.
//   - The function must not depend on a previous call's unfinished work (call zero_grad first), because after a
//     recording that failed halfway, the next call runs the function normally.
//   - Arrays that persist between calls (parameters, gradients, running statistics) must stay at the same address.
// If the step can't be recorded, for example because the function reads a value on the host, every later call runs the
// function normally, and `report` gets the reason once. An Error from the function itself is thrown in such a call. Not
// thread-safe.
class GraphedStep {
 public:
  using Function = std::function<Array(const std::vector<Array>& inputs)>;

  // `device` is the device that does the step's work. On the CPU nothing is recorded, and nothing is reported.
  GraphedStep(Device device, Function function, std::function<void(const std::string&)> report = {});

  // Returns the result of the function. After a replay, this is an array that the next call overwrites.
  Array operator()(const std::vector<Array>& inputs);

  bool is_recorded() const { return graph_ != nullptr; }
  // The arrays from which the recorded step reads its inputs; empty if no step is recorded. A caller that writes a
  // batch into these arrays and passes them to the call avoids the copy.
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
  Signature last_;             // of the latest calls that ran the function normally
  std::int64_t repeated_ = 0;  // the number of consecutive calls of that kind with this signature
  Signature recorded_;
  std::vector<Array> inputs_;  // the arrays from which the recorded step reads its inputs
  Array result_;
  std::unique_ptr<DeviceGraph> graph_;  // declared last, because it must be destroyed before the arrays that it uses
};

}  // namespace tandem
