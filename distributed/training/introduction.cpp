#include <tandem/distributed/training/introduction.h>
#include <tandem/distributed/training/metrics/console.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>

#include <algorithm>
#include <sstream>

namespace tandem::distributed {
namespace {

std::string shown(Device device) {
  std::ostringstream text;
  text << device;
  return text.str();
}

std::int64_t parameters_of(const nn::Module& model) {
  std::int64_t numbers = 0;
  for (const auto& parameter : model.parameters()) numbers += parameter.tensor.numel();
  return numbers;
}

}  // namespace

std::vector<std::string> introduction(const TrainingOptions& options, ProcessGroup& group, const nn::Module& model,
                                      const data::Loader& loader, std::int64_t steps_per_epoch,
                                      const std::vector<double>& lrs) {
  const auto threads = group.all_gather_strings(std::to_string(omp_get_max_threads()), "threads");
  const bool are_equal = std::ranges::count(threads, threads[0]) == std::ssize(threads);
  const std::string threads_text =
      are_equal ? counted(omp_get_max_threads(), "thread") : fmt::format("{} threads", fmt::join(threads, ", "));
  const auto global_batch = std::min(loader.batch_size() * options.accumulate * group.size(), loader.dataset().size());
  return {fmt::format("{}: {} ({}), {}, {}, {} and {} each, batch {}, {} an epoch", options.program(),
                      counted(group.size(), "process", "es"), group.backend(), shown(options.device()),
                      name_of(options.dtype), threads_text, counted(options.workers, "loader worker"),
                      loader.batch_size(), counted(steps_per_epoch, "step")),
          fmt::format("{}: {} parameters, {} {}, global batch {}, lr {:g}", model.class_name(), parameters_of(model),
                      loader.dataset().size(), options.samples_name, global_batch, fmt::join(lrs, " and "))};
}

}  // namespace tandem::distributed
