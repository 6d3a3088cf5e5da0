#include <tandem/core/backend/backend.h>
#include <tandem/core/device/recording.h>
#include <tandem/core/ops/dropout.h>
#include <tandem/core/random/random.h>

#include <memory>
#include <optional>
#include <unordered_map>

namespace tandem::ops {

DropoutKey draw_dropout_key(Device device) {
  const std::uint64_t number = default_generator().next_u64();
  Recording* const recording = Recording::current();
  if (device.is_cpu() || !recording) return {number};
  // The keys of this recording, by their drawn numbers. The graph owns their arrays.
  struct Recorded {
    std::uint64_t recording = 0;
    std::unordered_map<std::uint64_t, std::weak_ptr<Array>> keys;
  };
  thread_local Recorded recorded;
  if (recorded.recording != recording->number()) recorded = {recording->number(), {}};
  auto& known = recorded.keys[number];
  if (const auto stored = known.lock()) return {number, *stored};
  constexpr std::size_t bytes = sizeof(std::uint64_t);
  const auto memory = std::make_shared<Storage>(recording->allocate(bytes), bytes, device, [] {});  // the graph owns it
  const auto stored = std::make_shared<Array>(memory, Shape{2}, Strides{1}, 0, DType::i32);
  known = stored;
  recording->before_replay([stored, next = std::optional(number)]() mutable {
    backend(stored->device()).write_dropout_key(next ? *next : default_generator().next_u64(), *stored);
    next.reset();
  });
  return {number, *stored};
}

Array dropout(const Array& x, const DropoutKey& key, double p, bool channels_last) {
  TANDEM_CHECK(is_floating(x.dtype()), "dropout: needs a floating array, got ", x.shape(), ' ', x.dtype());
  const Array in = channels_last ? x.channels_last() : x.contiguous();
  const Array y = channels_last ? Array::empty_channels_last(x.shape(), x.dtype(), x.device())
                                : Array::empty(x.shape(), x.dtype(), x.device());
  if (x.numel() > 0) backend(x.device()).dropout(in, key, p, y);
  return y;
}

}  // namespace tandem::ops
