// Fuzzes a job that resumes from a checkpoint: the metadata and additional arrays, in a safetensors file that is
// otherwise valid. Each line of the input is an entry of the metadata, "KEY=TEXT", or an array, "NAME:LETTER:NUMBER
// NUMBER ...". The letter is the dtype: u, i, f or d.
#include <tandem/core/array/text_array.h>
#include <tandem/core/io/safetensors.h>
#include <tandem/core/random/random.h>
#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/distributed/ddp/powersgd.h>
#include <tandem/distributed/groups/local_group.h>
#include <tandem/distributed/training/checkpoints/checkpoint.h>
#include <tandem/nn/linear.h>
#include <tandem/optim/adam.h>
#include <tandem/optim/grad_scaler.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <sstream>
#include <vector>

#include "fuzz.h"

using namespace tandem;
using namespace tandem::distributed;

namespace {

// The text of a generator's state has 625 numbers, so "mt19937 *" stands for a valid state.
std::string expanded(const std::string& text) { return text == "mt19937 *" ? Generator(1).state() : text; }

template <class T>
Array array_of(const std::vector<double>& numbers) {
  std::vector<T> values;
  for (const double n : numbers) {
    constexpr double limit = std::is_integral_v<T> ? static_cast<double>(std::numeric_limits<T>::max() / 2) : HUGE_VAL;
    values.push_back(static_cast<T>(std::isnan(n) && std::is_integral_v<T> ? 0 : std::clamp(n, -limit, limit)));
  }
  const auto size = static_cast<std::int64_t>(values.size());
  return Array::from(std::move(values), {size});
}

Array parse_array(char letter, const std::string& text) {
  if (letter == 'u') return text_array(expanded(text));
  std::vector<double> numbers;
  std::istringstream words(text);
  for (std::string word; words >> word;) numbers.push_back(std::strtod(word.c_str(), nullptr));
  return letter == 'i'   ? array_of<std::int64_t>(numbers)
         : letter == 'f' ? array_of<float>(numbers)
                         : array_of<double>(numbers);
}

void write_input(const std::filesystem::path& path, std::string_view input) {
  std::map<std::string, std::string> metadata;
  std::vector<NamedArray> arrays;
  std::istringstream lines{std::string(input)};
  for (std::string line; std::getline(lines, line);) {
    const auto equals = line.find('='), colon = line.find(':');
    if (equals < colon) metadata[line.substr(0, equals)] = expanded(line.substr(equals + 1));
    else if (colon != line.npos && colon + 2 < line.size())
      arrays.push_back({line.substr(0, colon), parse_array(line[colon + 1], line.substr(colon + 3))});
  }
  write_safetensors(path, arrays, metadata, Checksums::crc32);
}

// Returns the arrays whose names begin with `prefix`, without the prefix.
std::vector<NamedArray> taken(const std::vector<NamedArray>& arrays, const std::string& prefix) {
  std::vector<NamedArray> result;
  for (const auto& [name, array] : arrays)
    if (name.starts_with(prefix)) result.push_back({name.substr(prefix.size()), array});
  return result;
}

void resume(const TrainingState& saved) {
  Generator generator;
  fuzz::expect_at_most_an_error([&] { generator.set_state(saved.generator); });
  fuzz::expect_at_most_an_error([&] { generator.set_state(saved.generator_now); });
  for (const auto& entry : saved.of_rank)
    fuzz::expect_at_most_an_error([&] { generator.set_state(text_of(entry.array)); });
  generator.normal();

  nn::Linear model(2, 1, {.bias = false});
  optim::AdamW optimizer(model.parameters(), {});
  optim::GradScaler scaler;
  DistributedDataParallel ddp(model, local_group());
  const auto hook = powersgd_hook();
  fuzz::expect_at_most_an_error([&] { model.load_state_dict(saved.model); });
  fuzz::expect_at_most_an_error([&] { optimizer.load_state_dict(saved.optimizer); });
  fuzz::expect_at_most_an_error([&] { scaler.load_state_dict(taken(saved.optimizer, "grad_scaler/")); });
  fuzz::expect_at_most_an_error([&] { ddp.load_state_dict(saved.ddp); });
  fuzz::expect_at_most_an_error([&] { hook.stateful()->load_state_dict(taken(saved.of_rank, "hook/")); });
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::TemporaryPath folder;
  std::filesystem::create_directory(folder.path());
  const auto path = folder.path() / "checkpoint-0001-00000002.safetensors";
  // Names that are not UTF-8 or occur twice can't be written.
  if (!fuzz::expect_at_most_an_error([&] { write_input(path, fuzz::text_of(data, size)); })) return 0;
  for (const auto of_others : {Unwanted::left, Unwanted::checked})
    fuzz::expect_at_most_an_error([&] { resume(read_checkpoint(path, 0, of_others)); });
  fuzz::expect_at_most_an_error([&] { find_checkpoint(folder.path(), "fuzz", [](const std::string&) {}); });
  return 0;
}
