#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/reduce.cuh>

namespace tandem {

namespace {

template <class T>
struct FinishSearch {
  T* values;
  std::int64_t* indices;
  template <class State>
  TANDEM_HOST_DEVICE void add(State& state, T value, std::int64_t index) const {
    state.add(value, index);
  }
  template <class State>
  TANDEM_HOST_DEVICE void operator()(std::int64_t output, const State& found) const {
    values[output] = static_cast<T>(found.value);
    indices[output] = found.index;
  }
};

}  // namespace

void CudaBackend::search(bool largest, const Array& x, int, const Array& values, const Array& indices) {
  dispatch(x.dtype(), [&](auto type) {
    using T = std::conditional_t<std::is_same_v<decltype(type), bool>, std::uint8_t, decltype(type)>;
    const FinishSearch<T> finish{static_cast<T*>(values.raw()), static_cast<std::int64_t*>(indices.raw())};
    if (largest) cuda::reduce_states<Extreme<T, true>, T>(x, values, finish);
    else cuda::reduce_states<Extreme<T, false>, T>(x, values, finish);
  });
}

}  // namespace tandem
