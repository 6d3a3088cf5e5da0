// StepRounds: agrees with the other ranks on each step before all ranks take it together. It is the interface for
// uneven inputs (join.h).
#pragma once

namespace tandem::distributed {

// DistributedDataParallel and its Reducer call it. Without StepRounds, every rank must have data for every step. The
// calls are collective, except lead(). Only the training thread makes them.
class StepRounds {
 public:
  virtual ~StepRounds() = default;

  virtual void begin_forward() = 0;  // called before a forward pass in training
  // Called before the ranks share their buffers. Returns the rank whose buffers count.
  virtual int share_buffers() = 0;
  virtual void begin_backward() = 0;  // does not wait for the other ranks
  // Called when all gradients are averaged. Returns a factor by which the means must still be multiplied.
  virtual double end_backward() = 0;
  // Returns the rank whose model counts. Its order of the gradients also counts.
  virtual int lead() const = 0;
};

}  // namespace tandem::distributed
