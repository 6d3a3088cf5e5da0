// GraphedStep: a training step that is recorded as a graph of its device and then repeated in one call.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/device/device_graph.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tandem {

// A step is hundreds of small calls; on a GPU that is faster than the host can make them, recording them once pays.
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
// The first calls run the function as it is: they set up what a step needs once (gradients, momentum, libraries). The
// next one records it, and from then on a call copies its inputs to where the recorded step reads them, and replays.
// Inputs of other shapes or dtypes (the last, smaller batch) run the function as it is; when they stay, they are
// recorded in place of what was.
//
// `function` must do the same in every call, except for the values of its inputs:
//   - numbers of the host that it uses are recorded: one that changes (the factor of a loss) must be an input, an Array
//   of shape ().
//     The options of tandem::optim's optimizers are none of them: set_lr() and schedules, called between the steps,
//     reach the recorded one;
//   - what it does on the host beside the device's work happens when it is run or recorded, not when it is replayed;
//   - it must start afresh (zero_grad first): a recording that failed halfway is followed by a call as it is;
//   - the arrays that it keeps from call to call (parameters, gradients, running statistics) must stay where they are.
// Where the step can't be recorded (a function that reads a value on the way), it is called as it is for ever, and
// `report` is told why, once. Errors of the function itself arise then. One thread.
class GraphedStep {
 public:
  using Function = std::function<Array(const std::vector<Array>& inputs)>;

  // device: where the step's work is done; the CPU: nothing is recorded, and nothing reported.
  GraphedStep(Device device, Function function, std::function<void(const std::string&)> report = {});

  // What the function returns; of a recorded step the array that the next call overwrites.
  Array operator()(const std::vector<Array>& inputs);

  bool is_recorded() const { return graph_ != nullptr; }

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
  Signature last_;             // of the latest calls as they are
  std::int64_t repeated_ = 0;  // and how many of them in a row
  Signature recorded_;
  std::vector<Array> inputs_;  // where the recorded step reads them
  Array result_;
  std::unique_ptr<DeviceGraph> graph_;  // destroyed before the arrays that it uses
};

}  // namespace tandem
