// Numbers in text: of options, environment variables, files.
#pragma once

#include <charconv>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

namespace tandem {

// Parses the whole `text` as a number from `least` to `most`. Returns nullopt for any other text.
template <class T>
std::optional<T> number_in(std::string_view text, T least = std::numeric_limits<T>::lowest(),
                           T most = std::numeric_limits<T>::max()) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || !(value >= least && value <= most)) return std::nullopt;
  return value;
}

}  // namespace tandem
