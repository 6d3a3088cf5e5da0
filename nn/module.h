// Module: a part of a network. Owns parameters, buffers and child modules, each under a name.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/named_array.h>
#include <tandem/core/profile.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tandem::nn {

// Derive, add children and parameters where the members are declared, and define forward:
//
//   struct Net : nn::Module {
//     nn::Linear& hidden = add("hidden", nn::Linear(784, 100));
//     nn::Linear& output = add("output", nn::Linear(100, 10));
//     Tensor forward(const Tensor& x) override { return output(relu(hidden(x))); }
//   };
//
// Names and their order equal PyTorch's, so state dicts interchange. A module can be moved, not copied.
class Module {
 public:
  Module() = default;
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;
  virtual ~Module() = default;

  virtual Tensor forward(const Tensor& input) = 0;
  // forward(), as a range of the profile under the name that this module has in its parent.
  Tensor operator()(const Tensor& input) {
    const ProfileRange range(range_name_);
    return forward(input);
  }

  // Depth first, own parameters before children's, in order of registration. A shared parameter appears once.
  std::vector<NamedTensor> parameters() const;
  std::vector<NamedTensor> buffers() const;
  // Parameters and buffers, in the order PyTorch's state_dict() gives. The arrays are the live ones, not copies.
  std::vector<NamedArray> state_dict() const;
  // Copies `state` in. Strict: an Error lists every name that is missing, unexpected or of another shape, and nothing is
  // changed.
  void load_state_dict(const std::vector<NamedArray>& state);

  // Training mode (the default) or evaluation mode, for this module and all below.
  void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const { return training_; }
  void zero_grad();

  // Brings parameters, buffers and gradients to `device`. Every handle stays what it was and sees them there. To be called
  // before an optimizer or DistributedDataParallel is made: they lay memory out on the device.
  void to(Device device);

  const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& children() const { return children_; }

 protected:
  // Registers `child` and returns it. The reference stays valid while this module (or what it was moved to) lives.
  template <class M>
  M& add(std::string name, M child) {
    auto owned = std::make_shared<M>(std::move(child));
    M& reference = *owned;
    add_child(std::move(name), std::move(owned));
    return reference;
  }
  void add_child(std::string name, std::shared_ptr<Module> child);
  Tensor add_parameter(std::string name, Array value);
  // A tensor of the state dict that is not trained: a running mean. Kept as a Tensor handle, without gradient.
  Tensor add_buffer(std::string name, Array value);

 private:
  std::vector<std::pair<std::string, Tensor>> parameters_;
  std::vector<std::pair<std::string, Tensor>> buffers_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
  bool training_ = true;
  const char* range_name_ = "forward";

  void check_free(const std::string& name) const;
};

}  // namespace tandem::nn
