// The operations of a ProcessGroup on texts and on single numbers, built on the operations on arrays.
#include <tandem/distributed/groups/process_group.h>

#include <algorithm>
#include <cstring>

namespace tandem::distributed {
namespace {

Array bytes_of(const std::string& text, std::int64_t length) {
  auto array = Array::empty({length}, DType::u8);
  std::memset(array.raw(), 0, array.bytes());
  std::memcpy(array.raw(), text.data(), text.size());
  return array;
}

}  // namespace

std::string ProcessGroup::broadcast_string(const std::string& text, int root, const std::string& name) {
  const auto length = Array::from({static_cast<std::int64_t>(text.size())});
  broadcast(length, root, name)->wait();
  const std::int64_t bytes = *length.data<std::int64_t>();
  const auto array = rank() == root ? bytes_of(text, bytes) : Array::empty({bytes}, DType::u8);
  broadcast(array, root, name)->wait();
  return {static_cast<const char*>(array.raw()), static_cast<std::size_t>(bytes)};
}

std::vector<std::string> ProcessGroup::all_gather_strings(const std::string& mine, const std::string& name) {
  const auto gather_all = [&](const Array& input) {
    std::vector<Array> outputs;
    for (int r = 0; r < size(); ++r) outputs.push_back(Array::empty(input.shape(), input.dtype()));
    all_gather(outputs, input, name)->wait();
    return outputs;
  };
  std::vector<std::int64_t> lengths;
  const auto length = Array::from({static_cast<std::int64_t>(mine.size())});
  for (const auto& a : gather_all(length)) lengths.push_back(*a.data<std::int64_t>());
  const auto texts = gather_all(bytes_of(mine, *std::max_element(lengths.begin(), lengths.end())));

  std::vector<std::string> result;
  for (int r = 0; r < size(); ++r) {
    result.emplace_back(static_cast<const char*>(texts[r].raw()), static_cast<std::size_t>(lengths[r]));
  }
  return result;
}

double ProcessGroup::sum(double mine, const std::string& name) { return reduced(mine, ReduceOp::sum, name); }

double ProcessGroup::mean(double mine, const std::string& name) { return sum(mine, name) / size(); }

double ProcessGroup::max(double mine, const std::string& name) { return reduced(mine, ReduceOp::max, name); }

double ProcessGroup::reduced(double mine, ReduceOp op, const std::string& name) {
  const auto number = Array::from(std::vector<double>{mine}, {1});
  all_reduce(number, op, name)->wait();
  return *number.data<double>();
}

}  // namespace tandem::distributed
