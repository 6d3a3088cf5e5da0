// Saves and loads an optimizer's state arrays and counters under the names of the parameters.
#include <tandem/optim/optimizer.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace tandem::optim {

std::vector<NamedArray> Optimizer::state_dict() const {
  std::vector<NamedArray> state;
  for (const Group& group : groups_) {
    for (std::size_t i = 0; i < group.entries.size(); ++i) {
      const Entry& e = group.entries[i];
      if (!e.is_started) continue;
      for (const StateArrays& part : group.states)
        state.push_back({e.parameter.name + '/' + part.name, part.arrays[i]});
      if (e.count.defined()) state.push_back({e.parameter.name + "/step", e.count});
    }
  }
  return state;
}

void Optimizer::load_state_dict(const std::vector<NamedArray>& state) {
  struct Home {
    Array array;
    Entry* entry;
    bool is_given = false;
  };
  std::map<std::string, Home> homes;
  // For each parameter in the given state: the name of a state array that was given for it.
  std::map<const Entry*, std::string> given;
  for (int g = 0; g < group_count(); ++g) {
    Group& group = groups_[g];
    const KeptState kept = kept_state(g);
    prepare(g, kept);
    for (Entry& e : group.entries) {
      for (std::size_t s = 0; s < kept.names.size(); ++s)
        homes[e.parameter.name + '/' + kept.names[s]] = {e.state[s], &e};
      if (kept.counts) homes[e.parameter.name + "/step"] = {e.count, &e};
    }
  }
  for (const auto& [name, array] : state) {
    const auto found = homes.find(name);
    if (found == homes.end()) {
      const std::string parameter = name.substr(0, name.rfind('/'));
      for (const Group& group : groups_)
        for (const Entry& e : group.entries)
          TANDEM_CHECK(e.parameter.name != parameter || name == parameter, this->name(), ": the saved state has ", name,
                       ", which the current options don't use: set the options with which the state was saved");
      detail::fail(this->name(), ": the saved state has ", name, ", but no such parameter is being optimised");
    }
    Home& home = found->second;
    TANDEM_CHECK(home.array.shape() == array.shape(), this->name(), ": ", name, " has shape ", array.shape(),
                 ", expected ", home.array.shape());
    home.is_given = true;
    given[home.entry] = name;
  }
  for (const auto& [name, home] : homes) {
    const auto other = given.find(home.entry);
    TANDEM_CHECK(home.is_given || other == given.end(), this->name(), ": the saved state has ", other->second,
                 ", but no ", name);
  }
  // The given arrays may be the optimizer's own, as state_dict() returns them.
  std::vector<Array> values;
  for (const auto& [name, array] : state) {
    const bool is_own =
        std::ranges::any_of(homes, [&](const auto& home) { return home.second.array.storage() == array.storage(); });
    values.push_back(is_own ? array.clone() : array);
  }
  for (int g = 0; g < group_count(); ++g) reset(g);
  for (std::size_t i = 0; i < state.size(); ++i) {
    Home& home = homes.at(state[i].name);
    home.array.copy_from(values[i]);
    home.entry->is_started = true;
  }
}

}  // namespace tandem::optim
