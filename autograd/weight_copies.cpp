// Makes the 16-bit copies of all weights on a GPU in one kernel.
//
// On a GPU each conversion is a kernel, and in a small network most kernels would be conversions. So one kernel
// converts all parameters that an Autocast needs, as soon as the first of them is needed. The list of parameters comes
// from the last Autocast on the same thread that began with the same parameter. The copies live as long as the
// outermost Autocast. A copy is rebuilt if its parameter has changed.
#include <tandem/autograd/low_weights.h>
#include <tandem/core/backend/backend.h>
#include <tandem/core/backend/device_graph.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace tandem {
namespace autograd {
namespace {

// The number of the graph recording on this thread, or 0 outside of a recording.
std::uint64_t recording_number() { return is_recording_graph() ? Recording::current()->number() : 0; }

// A parameter, or a view of one. It keeps no memory alive.
struct Weight {
  std::weak_ptr<Storage> storage;
  const Storage* address;
  Shape shape;
  Strides strides;
  std::int64_t offset;
  DType low;  // the dtype of the copy
  bool is_needed = false;
  // The copy, or undefined. The next members record when it was made.
  Array copy{};
  std::uint64_t version = 0, recording = 0, replays = 0;

  Weight(const Array& value, DType low)
      : storage(value.storage()),
        address(value.storage().get()),
        shape(value.shape()),
        strides(value.strides()),
        offset(value.offset()),
        low(low) {}
  bool is_of(const Array& value, DType dtype) const {
    return address == value.storage().get() && !storage.expired() && offset == value.offset() && low == dtype &&
           shape == value.shape() && strides == value.strides();
  }
  // A replay changes parameters without counting that as a write. Copies made in a recording exist only in its replays.
  bool has_copy() const {
    return copy.defined() && version == address->version() && recording == recording_number() &&
           replays == replays_so_far();
  }
  void keep(Array made) {
    copy = std::move(made);
    version = address->version();
    recording = recording_number();
    replays = replays_so_far();
  }
  std::int64_t numel() const { return shape.product(); }
  // All elements, in memory order.
  Array numbers() const { return {storage.lock(), {numel()}, {1}, offset, DType::f32}; }
};

using Weights = std::vector<Weight>;

struct Scopes {
  Weights now;                   // those of the outermost scope; the first one was needed first
  std::vector<Weights> earlier;  // those of scopes that have ended
};
thread_local Scopes scopes;

Weight& find(const Array& value, DType dtype) {
  const auto is_of = [&](const Weight& weight) { return weight.is_of(value, dtype); };
  if (scopes.now.empty()) {
    const auto begins = [&](const Weights& weights) { return is_of(weights.front()); };
    const auto found = std::ranges::find_if(scopes.earlier, begins);
    if (found != scopes.earlier.end()) {
      scopes.now = std::move(*found);
      scopes.earlier.erase(found);
    }
  }
  const auto found = std::ranges::find_if(scopes.now, is_of);
  if (found != scopes.now.end()) return *found;
  std::erase_if(scopes.now, [](const Weight& weight) { return weight.storage.expired(); });
  return scopes.now.emplace_back(value, dtype);
}

// Stores the copies one after another, each at an address that is a multiple of 16 bytes.
void copy_all(const std::vector<Weight*>& weights, Device device) {
  constexpr std::int64_t together = 8;
  const DType dtype = weights.front()->low;
  std::int64_t total = 0;
  for (const Weight* weight : weights) total += (weight->numel() + together - 1) / together * together;
  const Array all = Array::empty({total}, dtype, device);
  const auto largest = std::ranges::max(weights, {}, &Weight::numel);
  std::vector<Array> parts;
  std::int64_t at = 0;
  for (Weight* weight : weights) {
    parts.push_back(weight->numbers());
    weight->keep(Array(all.storage(), weight->shape, weight->strides, at, dtype));
    at += weight->numel();
    // Arbitrary numbers fill the gaps.
    if (const std::int64_t gap = (together - at % together) % together; gap > 0) {
      parts.push_back(largest->numbers().narrow(0, 0, std::min(gap, largest->numel())));
      at += gap;
    }
  }
  const bool fills = largest->numel() >= together;
  if (fills && backend(device).cat(parts, 0, all)) return;
  for (Weight* weight : weights) all.narrow(0, weight->copy.offset(), weight->numel()).copy_from(weight->numbers());
}

void end_scope() {
  std::erase_if(scopes.now, [](const Weight& weight) { return !weight.is_needed; });
  for (Weight& weight : scopes.now) {
    weight.copy = {};
    weight.is_needed = false;
  }
  std::erase_if(scopes.earlier, [](const Weights& weights) { return weights.front().storage.expired(); });
  if (!scopes.now.empty()) scopes.earlier.push_back(std::exchange(scopes.now, {}));
}

Array copy_of(const Tensor& parameter, const Array& value, DType dtype) {
  const bool lowers = value.dtype() == DType::f32 && size_of(dtype) == 2 && value.numel() > 0;
  const bool is_dense = value.is_contiguous() || value.is_channels_last();
  if (!lowers || !is_dense || !parameter.is_leaf() || !parameter.requires_grad() || !grad_enabled())
    return value.to(dtype);
  Weight& wanted = find(value, dtype);
  wanted.is_needed = true;
  if (wanted.has_copy()) return wanted.copy;
  std::vector<Weight*> stale;
  for (Weight& weight : scopes.now)
    if (const auto there = weight.storage.lock();
        there && there->device() == value.device() && weight.low == dtype && !weight.has_copy())
      stale.push_back(&weight);
  copy_all(stale, value.device());
  return wanted.copy;
}

}  // namespace
}  // namespace autograd

void add_low_weight_copies() { autograd::low_weight_copies.add({autograd::copy_of, autograd::end_scope}); }

}  // namespace tandem
