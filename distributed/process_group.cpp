#include <tandem/distributed/process_group.h>

#include <algorithm>
#include <cstring>

namespace tandem::distributed {

std::vector<std::string> ProcessGroup::all_gather_strings(const std::string& mine, const std::string& name) {
  const auto gather = [&](const Array& input) {
    std::vector<Array> outputs;
    for (int r = 0; r < size(); ++r) outputs.push_back(Array::empty(input.shape(), input.dtype()));
    all_gather(outputs, input, name)->wait();
    return outputs;
  };
  std::vector<std::int64_t> lengths;
  const auto length = Array::from(std::vector<std::int64_t>{static_cast<std::int64_t>(mine.size())}, {1});
  for (const auto& a : gather(length)) lengths.push_back(*a.data<std::int64_t>());

  const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  auto padded = Array::empty({longest}, DType::u8);
  std::memset(padded.raw(), 0, padded.bytes());
  std::memcpy(padded.raw(), mine.data(), mine.size());
  const auto texts = gather(padded);

  std::vector<std::string> result;
  for (int r = 0; r < size(); ++r) {
    result.emplace_back(static_cast<const char*>(texts[r].raw()), static_cast<std::size_t>(lengths[r]));
  }
  return result;
}

void ProcessGroup::check_root(int root) const {
  TANDEM_CHECK(root >= 0 && root < size(), "root rank ", root, " is not in this group of ", size());
}

void ProcessGroup::check_reduction(const Array& array, ReduceOp op) const {
  TANDEM_CHECK(op != ReduceOp::mean || is_floating(array.dtype()),
               "a mean over ranks needs a floating dtype, got ", array.dtype());
}

void ProcessGroup::check_gather(const std::vector<Array>& outputs, const Array& input) const {
  TANDEM_CHECK(static_cast<int>(outputs.size()) == size(), "all_gather over ", size(), " ranks was given ",
               outputs.size(), " outputs");
  for (const auto& output : outputs) {
    TANDEM_CHECK(output.shape() == input.shape() && output.dtype() == input.dtype(), "all_gather of ",
                 input.dtype(), " ", input.shape(), " was given an output of ", output.dtype(), " ",
                 output.shape());
  }
}

}  // namespace tandem::distributed
