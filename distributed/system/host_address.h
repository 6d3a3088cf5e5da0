// How a rank finds the address at which ranks on other hosts reach it.
#pragma once

#include <tandem/distributed/system/annexes.h>

#include <functional>
#include <string>

namespace tandem::distributed {

// `interface`: the network interface that the user chose; empty: none. `on_the_way`: the address from which this host
// reaches the store; may be empty.
using ChooseAddress = std::function<std::string(const std::string& interface, const std::string& on_the_way)>;
// The first is used. Without an entry, jobs of one host are all that there are.
AnnexList<ChooseAddress>& addresses_for_other_hosts();

}  // namespace tandem::distributed
