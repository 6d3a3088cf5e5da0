// The names of an enum's values, defined once: command lines parse them and messages print them.
//
//   enum class Unused { error, zero, skip };
//   template <>
//   struct EnumNames<Unused> {
//     static constexpr NamedValue<Unused> all[] = {{"error", Unused::error}, {"zero", Unused::zero}, ...};
//   };
#pragma once

#include <tandem/core/base/check.h>

#include <string>
#include <string_view>

namespace tandem {

template <class E>
struct NamedValue {
  const char* name;
  E value;
};

// Specialised next to an enum. If a value has two names, messages print the first.
template <class E>
struct EnumNames;

template <class E>
concept NamedEnum = requires {
  EnumNames<E>::all[0].value;
};

template <NamedEnum E>
constexpr const char* name_of(E value) {
  for (const auto& named : EnumNames<E>::all)
    if (named.value == value) return named.name;
  return "?";
}

// Returns the value with this name. Throws an Error that lists all names if there is no such value.
template <NamedEnum E>
E value_named(std::string_view name) {
  std::string names;
  for (const auto& named : EnumNames<E>::all) {
    if (named.name == name) return named.value;
    names += (names.empty() ? "" : ", ") + std::string(named.name);
  }
  detail::fail("'", name, "' is not one of ", names);
}

}  // namespace tandem
