// Handles parameters that a backward pass does not reach.
#pragma once

#include <tandem/core/base/enum_names.h>
#include <tandem/distributed/groups/process_group.h>

#include <cstddef>
#include <string>
#include <vector>

namespace tandem::distributed {

// The treatment of a parameter that a backward pass does not reach on this rank.
enum class Unused {
  error,  // backward() throws at its end, on every rank, and names the parameters and the ranks
  zero,   // its gradient counts as zero
  skip,   // like zero if another rank reached it; if no rank did, its .grad does not change
};

// Throws the Error for Unused::error, the same on all ranks. Collective. `absent` has the names of the parameters that
// got no gradient on this rank, out of `count` parameters.
[[noreturn]] void fail_for_unused(ProcessGroup& group, const std::vector<std::string>& absent, std::size_t count);

}  // namespace tandem::distributed

template <>
struct tandem::EnumNames<tandem::distributed::Unused> {
  using U = distributed::Unused;
  static constexpr NamedValue<U> all[] = {{"error", U::error}, {"zero", U::zero}, {"skip", U::skip}};
};
