// Converts text to arrays and back, for state dicts and files of arrays.
#pragma once

#include <tandem/core/array/array.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tandem {

// Returns the bytes of `text` as (size) u8.
inline Array text_array(const std::string& text) {
  return Array::from(std::vector<std::uint8_t>(text.begin(), text.end()), {static_cast<std::int64_t>(text.size())});
}

// Returns the text from which text_array() made `array`.
inline std::string text_of(const Array& array) {
  TANDEM_CHECK(array.dtype() == DType::u8 && array.ndim() == 1, "a text is a (size) u8 array, got ", array.shape(), ' ',
               array.dtype());
  const auto bytes = array.to_vector<std::uint8_t>();
  return {bytes.begin(), bytes.end()};
}

}  // namespace tandem
