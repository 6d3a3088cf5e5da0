#include <tandem/distributed/ddp/share_optimizer.h>

#include <sstream>
#include <string>
#include <vector>

namespace tandem::distributed {

void share_optimizer(optim::Optimizer& optimizer, Device device, ProcessGroup& group, int root) {
  std::vector<NamedArray> state = optimizer.state_dict();
  std::ostringstream said;
  for (const auto& [name, array] : state) {
    said << name << '\n' << array.ndim();
    for (const auto size : array.shape()) said << ' ' << size;
    said << '\n';
  }
  std::istringstream heard(group.broadcast_string(said.str(), root, "names of the optimizer's state"));
  if (group.rank() != root) {
    state.clear();
    for (std::string name; std::getline(heard, name); heard.ignore()) {
      int ndim = 0;
      heard >> ndim;
      Shape shape = Shape::filled(ndim, 0);
      for (int d = 0; d < ndim; ++d) heard >> shape[d];
      state.push_back({name, Array::empty(shape, DType::f32, device)});
    }
  }
  for (const auto& [name, array] : state) group.broadcast(array, root, name)->wait();
  if (group.rank() != root) optimizer.load_state_dict(state);
}

}  // namespace tandem::distributed
