#include <tandem/core/io/safetensors.h>
#include <tandem/optim/state_file.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tandem::optim {

namespace {

using Json = nlohmann::ordered_json;

// Returns the saved options that this optimizer has, with the saved values.
std::vector<NamedOption> options_of(const Json& saved, const Optimizer& optimizer, int group) {
  std::vector<NamedOption> options;
  for (auto [name, value] : optimizer.group_options(group)) {
    if (!saved.contains(name)) continue;
    std::visit([&, &name = name](auto& v) { v = saved.at(name).get<std::decay_t<decltype(v)>>(); }, value);
    options.emplace_back(name, value);
  }
  return options;
}

}  // namespace

void save_optimizer(const std::filesystem::path& path, const Optimizer& optimizer) {
  Json groups = Json::array();
  for (int g = 0; g < optimizer.group_count(); ++g) {
    Json group;
    for (const auto& [name, value] : optimizer.group_options(g))
      std::visit([&, &name = name](const auto& v) { group[name] = v; }, value);
    group["params"] = optimizer.parameter_names(g);
    groups.push_back(std::move(group));
  }
  write_safetensors(path, optimizer.state_dict(), {{"optimizer", optimizer.name()}, {"param_groups", groups.dump()}},
                    Checksums::crc32);
}

void load_optimizer(const std::filesystem::path& path, Optimizer& optimizer) {
  const auto fail = [&](const auto&... what) { detail::fail(path.string(), ": ", what...); };
  const Safetensors file = read_safetensors(path);
  const auto text = [&](const char* key) {
    const auto found = file.metadata.find(key);
    if (found == file.metadata.end()) fail("its metadata has no \"", key, "\": it is not an optimizer's file");
    return found->second;
  };
  if (text("optimizer") != optimizer.name()) fail("it belongs to ", text("optimizer"), ", not ", optimizer.name());
  std::vector<std::vector<NamedOption>> options;
  try {
    const Json groups = Json::parse(text("param_groups"));
    if (groups.size() != static_cast<std::size_t>(optimizer.group_count()))
      fail("it has ", groups.size(), " parameter groups, but this optimizer has ", optimizer.group_count());
    for (int g = 0; g < optimizer.group_count(); ++g) {
      const auto names = groups[g].at("params").get<std::vector<std::string>>();
      if (names != optimizer.parameter_names(g)) fail("its group ", g, " has other parameters, or in another order");
      options.push_back(options_of(groups[g], optimizer, g));
      // Options that only PyTorch has are ignored. The exception is `maximize`, which changes the result, so it is an
      // Error.
      const auto is_maximize = [](const NamedOption& o) { return o.first == "maximize"; };
      if (groups[g].value("maximize", false) && std::none_of(options[g].begin(), options[g].end(), is_maximize))
        fail("its group ", g, " has maximize, which ", optimizer.name(), " does not support: negate the loss");
    }
  } catch (const nlohmann::json::exception& error) {
    fail("its param_groups can't be read: ", error.what());
  }
  // The options decide which state arrays exist, so they are set before the state is loaded.
  std::vector<std::vector<NamedOption>> before;
  for (int g = 0; g < optimizer.group_count(); ++g) before.push_back(optimizer.group_options(g));
  try {
    for (int g = 0; g < optimizer.group_count(); ++g) optimizer.set_group_options(g, options[g]);
    optimizer.load_state_dict(file.arrays);
  } catch (...) {
    for (int g = 0; g < optimizer.group_count(); ++g) optimizer.set_group_options(g, before[g]);
    throw;
  }
}

}  // namespace tandem::optim
