// StepRounds: agrees with the other ranks on each step before all take it together. The seam for uneven inputs
// (join.h).
#pragma once

namespace tandem::distributed {

// DistributedDataParallel and its Reducer call it. Without one, every rank has data for every step. The calls are
// collective, except lead(). Only the thread that trains makes them.
class StepRounds {
 public:
  virtual ~StepRounds() = default;

  virtual void begin_forward() = 0;  // of a pass in training
  // The ranks are about to share their buffers. Returns the rank whose buffers count.
  virtual int share_buffers() = 0;
  virtual void begin_backward() = 0;  // does not wait for the other ranks
  // All gradients are averaged. Returns the factor that the means still need.
  virtual double end_backward() = 0;
  // Returns the rank whose model counts, and so whose order of the gradients.
  virtual int lead() const = 0;
};

}  // namespace tandem::distributed
