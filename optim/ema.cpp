#include <tandem/core/array/memory_order.h>
#include <tandem/core/backend/backend.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/ops.h>
#include <tandem/optim/arena.h>
#include <tandem/optim/ema.h>

#include <algorithm>

namespace tandem::optim {

namespace {
const std::string prefix = "module.";
}

ExponentialMovingAverage::ExponentialMovingAverage(std::vector<NamedTensor> parameters,
                                                   std::vector<NamedTensor> buffers,
                                                   const ExponentialMovingAverageOptions& options)
    : options_(options) {
  TANDEM_CHECK(options.decay >= 0 && options.decay <= 1, "ExponentialMovingAverage: decay must be from 0 to 1, got ",
               options.decay);
  TANDEM_CHECK(!parameters.empty(), "ExponentialMovingAverage: expected at least one parameter, got none");
  for (auto& parameter : parameters) entries_.push_back({std::move(parameter), {}, true});
  for (auto& buffer : buffers) entries_.push_back({std::move(buffer), {}, options.use_buffers});
  std::vector<Array> values;
  for (const Entry& e : entries_) values.push_back(e.followed.tensor.value());
  const auto averages = arena_like(values);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    entries_[i].average = averages[i];
    entries_[i].average.copy_from(values[i]);
  }
}

void ExponentialMovingAverage::update() {
  const Scope scope("ExponentialMovingAverage::update");
  TANDEM_CHECK(!is_swapped_, "ExponentialMovingAverage::update: the model holds the averages; swap() back first");
  std::vector<UpdateSegment> segments;
  std::vector<Array> values;  // keeps alive the dense copies that other layouts need
  const auto weight = static_cast<float>(1 - options_.decay);
  for (Entry& e : entries_) {
    const Array& value = e.followed.tensor.value();
    if (updates_ == 0 || !e.is_averaged) {
      e.average.copy_from(value);
    } else if (value.dtype() == DType::f32) {
      values.push_back(MemoryOrder(e.average).arranged(value));
      segments.push_back({static_cast<float*>(e.average.raw()),
                          static_cast<const float*>(values.back().raw()),
                          {},
                          nullptr,
                          value.numel(),
                          false});
      e.average.storage()->written_by("ExponentialMovingAverage::update");
    } else {
      // Integers, such as counters, are averaged in f32. The fraction of the average is then truncated.
      Array average = e.average.to(DType::f32).clone();
      const Array now = value.to(DType::f32).contiguous();
      backend(value.device())
          .update(std::vector<UpdateSegment>{{static_cast<float*>(average.raw()),
                                              static_cast<const float*>(now.raw()),
                                              {},
                                              nullptr,
                                              value.numel(),
                                              false}},
                  rules::Average{weight});
      e.average.copy_from(average);
    }
  }
  if (!segments.empty()) backend(values[0].device()).update(segments, rules::Average{weight});
  ++updates_;
}

void ExponentialMovingAverage::swap() {
  for (Entry& e : entries_) {
    Array value = e.followed.tensor.value();
    const Array before = value.clone();
    value.copy_from(e.average);
    e.average.copy_from(before);
  }
  is_swapped_ = !is_swapped_;
}

std::vector<NamedArray> ExponentialMovingAverage::averages() const {
  TANDEM_CHECK(!is_swapped_, "ExponentialMovingAverage: the model holds the averages; swap() back first");
  std::vector<NamedArray> averages;
  for (const Entry& e : entries_) averages.push_back({e.followed.name, e.average});
  return averages;
}

std::vector<NamedArray> ExponentialMovingAverage::state_dict() const {
  std::vector<NamedArray> state = averages();
  for (NamedArray& entry : state) entry.name = prefix + entry.name;
  state.push_back({"n_averaged", ops::scalar(static_cast<double>(updates_), DType::i64)});
  return state;
}

void ExponentialMovingAverage::load_state_dict(const std::vector<NamedArray>& state) {
  const auto find = [&](const std::string& name) -> const Array& {
    const auto found = std::find_if(state.begin(), state.end(), [&](const NamedArray& e) { return e.name == name; });
    TANDEM_CHECK(found != state.end(), "ExponentialMovingAverage: the saved state has no ", name);
    return found->array;
  };
  TANDEM_CHECK(!is_swapped_, "ExponentialMovingAverage: the model holds the averages; swap() back first");
  const auto updates = static_cast<std::int64_t>(find("n_averaged").item());
  for (const Entry& e : entries_) {
    const Array& saved = find(prefix + e.followed.name);
    TANDEM_CHECK(saved.shape() == e.average.shape(), "ExponentialMovingAverage: ", prefix, e.followed.name,
                 " has shape ", saved.shape(), ", expected ", e.average.shape());
  }
  TANDEM_CHECK(state.size() == entries_.size() + 1, "ExponentialMovingAverage: the saved state has ", state.size(),
               " entries, expected ", entries_.size() + 1);
  for (Entry& e : entries_) e.average.copy_from(find(prefix + e.followed.name));
  updates_ = updates;
}

}  // namespace tandem::optim
