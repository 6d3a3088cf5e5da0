#include <tandem/nn/summary.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <sstream>

namespace tandem::nn {

namespace {

struct Call {
  Shape output;
  int first = std::numeric_limits<int>::max();  // the sequence number of the first call among the calls of all modules
  int count = 0;
};

// While a Watch lives, it records the calls of all modules in `model` and keeps the model in evaluation mode.
class Watch {
 public:
  explicit Watch(Module& model) : evaluation_(model) {
    for (const auto& [name, module] : model.modules()) {
      hooks_.push_back(module.on_forward([this](Module& called, const Tensor& output) {
        Call& call = calls[&called];
        if (call.count++ > 0) return;
        call.first = next_++;
        call.output = output.shape();
      }));
    }
  }
  ~Watch() {
    for (auto& hook : hooks_) hook.remove();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  std::map<const Module*, Call> calls;

 private:
  EvaluationMode evaluation_;
  std::vector<HookHandle> hooks_;
  int next_ = 0;
};

// The sequence number of the first call of `module` or of a module below it.
int first_call(const Module& module, const std::map<const Module*, Call>& calls) {
  const auto found = calls.find(&module);
  int first = found == calls.end() ? std::numeric_limits<int>::max() : found->second.first;
  for (const auto& [name, child] : module.children()) first = std::min(first, first_call(*child, calls));
  return first;
}

struct Builder {
  const std::map<const Module*, Call>& calls;
  std::vector<Summary::Row>& rows;
  std::set<const Module*> seen = {};

  void add(const std::string& name, const Module& module, int depth) {
    if (!seen.insert(&module).second) return;
    Summary::Row row{name, module.describe(), depth, 0, {}, module.parameter_count()};
    std::vector<std::pair<int, const std::pair<std::string, std::shared_ptr<Module>>*>> below;
    std::set<const void*> of_children;
    for (const auto& child : module.children()) {
      for (const auto& [path, tensor] : child.second->parameters())
        if (of_children.insert(tensor.state().get()).second) row.parameters -= tensor.numel();
      below.emplace_back(first_call(*child.second, calls), &child);
    }
    if (const auto found = calls.find(&module); found != calls.end()) {
      row.calls = found->second.count;
      row.output = found->second.output;
    }
    rows.push_back(std::move(row));
    std::stable_sort(below.begin(), below.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [first, child] : below) add(child->first, *child->second, depth + 1);
  }
};

std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<std::int64_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), 1, ',');
  return text;
}

std::string bytes_text(std::size_t bytes) {
  std::ostringstream out;
  out.precision(3);
  if (bytes < 1024) out << bytes << " bytes";
  else if (bytes < 1024 * 1024) out << static_cast<double>(bytes) / 1024 << " KiB";
  else out << static_cast<double>(bytes) / (1024 * 1024) << " MiB";
  return out.str();
}

}  // namespace

Summary summary(Module& model, const std::function<void()>& run) {
  Summary result;
  {
    const NoGrad no_grad;
    Watch watch(model);
    run();
    Builder{watch.calls, result.rows}.add("", model, 0);
  }
  for (const auto& [name, tensor] : model.parameters()) {
    result.parameters += tensor.numel();
    if (tensor.requires_grad()) result.trainable_parameters += tensor.numel();
    result.parameter_bytes += tensor.value().bytes();
  }
  for (const auto& [name, tensor] : model.buffers()) result.buffer_bytes += tensor.value().bytes();
  return result;
}

Summary summary(Module& model, const Tensor& input) {
  return summary(model, [&] { model(input); });
}

std::ostream& operator<<(std::ostream& out, const Summary& summary) {
  std::vector<std::array<std::string, 3>> lines{{"module", "output", "parameters"}};
  for (const auto& row : summary.rows) {
    std::ostringstream output;
    if (row.calls > 0) output << row.output;
    if (row.calls > 1) output << " x" << row.calls;
    lines.push_back({std::string(2 * static_cast<std::size_t>(row.depth), ' ') +
                         (row.name.empty() ? "" : row.name + ": ") + row.description,
                     output.str(), row.parameters ? with_commas(row.parameters) : ""});
  }
  std::array<std::size_t, 3> widths{};
  for (const auto& line : lines)
    for (std::size_t i = 0; i < 3; ++i) widths[i] = std::max(widths[i], line[i].size());
  for (const auto& line : lines) {
    std::string text = line[0] + std::string(widths[0] - line[0].size() + 2, ' ') + line[1];
    if (!line[2].empty())
      text += std::string(widths[1] - line[1].size() + 2 + widths[2] - line[2].size(), ' ') + line[2];
    out << text.substr(0, text.find_last_not_of(' ') + 1) << '\n';
  }
  out << with_commas(summary.parameters) << " parameters (" << bytes_text(summary.parameter_bytes) << "), "
      << with_commas(summary.trainable_parameters) << " of them trained; buffers " << bytes_text(summary.buffer_bytes)
      << '\n';
  return out;
}

}  // namespace tandem::nn
