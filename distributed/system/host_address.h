// Finds the address at which ranks on other hosts can reach this rank.
#pragma once

#include <tandem/distributed/system/annexes.h>

#include <functional>
#include <string>

namespace tandem::distributed {

// `interface` is the network interface that the user chose, or empty. `on_the_way` is the address from which this host
// reaches the store. It may be empty.
using ChooseAddress = std::function<std::string(const std::string& interface, const std::string& on_the_way)>;
// The Gloo transport uses the first entry. Without an entry, only jobs on one host are possible.
inline constinit AnnexList<ChooseAddress> addresses_for_other_hosts{add_distributed_annexes};

}  // namespace tandem::distributed
