#include <tandem/data/sampler.h>

#include <tandem/core/base/check.h>
#include <tandem/core/random/random.h>

#include <algorithm>
#include <numeric>

namespace tandem::data {
namespace {

void check_size(const char* sampler, std::int64_t dataset_size) {
  TANDEM_CHECK(dataset_size >= 0, sampler, ": the dataset's size must not be negative, got ", dataset_size);
}

void check_rank(const char* sampler, int rank, int world) {
  TANDEM_CHECK(world >= 1, sampler, ": world must be at least 1, got ", world);
  TANDEM_CHECK(rank >= 0 && rank < world, sampler, ": invalid rank ", rank, ", expected 0 to ", world - 1);
}

std::vector<std::int64_t> in_order(std::int64_t n) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(n));
  std::iota(indices.begin(), indices.end(), std::int64_t{0});
  return indices;
}

}  // namespace

RandomSampler::RandomSampler(std::int64_t dataset_size) : dataset_size_(dataset_size) {
  check_size("RandomSampler", dataset_size);
}

std::vector<std::int64_t> RandomSampler::indices() {
  // The seed is the number that PyTorch's Tensor.random_() draws as an int64. MT19937 ignores its upper bits.
  return Generator(default_generator().next_u64()).permutation(dataset_size_);
}

DistributedSampler::DistributedSampler(std::int64_t dataset_size, const DistributedSamplerOptions& options)
    : dataset_size_(dataset_size), options_(options) {
  check_size("DistributedSampler", dataset_size);
  check_rank("DistributedSampler", options.rank, options.world);
}

bool DistributedSampler::leave_out(std::int64_t samples) {
  TANDEM_CHECK(samples >= 0, "DistributedSampler: can't leave out ", samples, " samples");
  left_out_ = std::min(samples, dataset_size_);
  return true;
}

std::int64_t DistributedSampler::size() const {
  const std::int64_t left = dataset_size_ - left_out_;
  // For R ranks, PyTorch's drop_last gives ceil((N - R) / R) if R does not divide N. That is N / R rounded down.
  return options_.drop_last ? left / options_.world : (left + options_.world - 1) / options_.world;
}

std::vector<std::int64_t> DistributedSampler::indices() {
  auto order = options_.shuffle
                   ? Generator(options_.seed + static_cast<std::uint64_t>(epoch_)).permutation(dataset_size_)
                   : in_order(dataset_size_);
  order.erase(order.begin(), order.begin() + left_out_);
  std::vector<std::int64_t> mine(static_cast<std::size_t>(size()));
  auto position = static_cast<std::size_t>(options_.rank);
  for (auto& index : mine) {
    index = order[position % order.size()];  // padding wraps around to the beginning as often as needed
    position += static_cast<std::size_t>(options_.world);
  }
  return mine;
}

ExactSampler::ExactSampler(std::int64_t dataset_size, int rank, int world)
    : dataset_size_(dataset_size), rank_(rank), world_(world) {
  check_size("ExactSampler", dataset_size);
  check_rank("ExactSampler", rank, world);
}

std::int64_t ExactSampler::size() const {
  return std::max<std::int64_t>(0, (dataset_size_ - rank_ + world_ - 1) / world_);
}

std::vector<std::int64_t> ExactSampler::indices() {
  std::vector<std::int64_t> mine(static_cast<std::size_t>(size()));
  for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = rank_ + static_cast<std::int64_t>(i) * world_;
  return mine;
}

}  // namespace tandem::data
