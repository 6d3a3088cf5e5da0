#include <tandem/data/epoch.h>

namespace tandem::data {
namespace {

thread_local std::optional<Epoch> epoch_now;
thread_local Epoch sharded_epoch{.number = -1};

std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }

}  // namespace

std::optional<Epoch> current_epoch() { return epoch_now; }

EpochScope::EpochScope(const Epoch& epoch) : epoch_(epoch_now, epoch) {}

SampleGenerator::SampleGenerator(std::int64_t sample) {
  if (!epoch_now) return;
  const auto number = static_cast<std::uint64_t>(epoch_now->number), index = static_cast<std::uint64_t>(sample);
  const auto words =
      philox({low(index), high(index), low(number), high(number)}, {low(epoch_now->seed), high(epoch_now->seed)});
  generator_.emplace(default_generator(), Generator(words[0]));
}

Epoch& last_sharded_epoch() { return sharded_epoch; }

}  // namespace tandem::data
