// The numbers of an Array as text for people.
#pragma once

#include <tandem/core/array/array.h>

#include <string>

namespace tandem {

// Nested brackets with aligned columns, as in "[1., 2.]". A scalar has no brackets. With 2 dimensions or more, the text
// begins with a line break. Values have four decimals where one of them needs decimals, and powers of ten where some
// are very large or very small. Of an array with more than 1,000 elements, the first and last three of every dimension
// are shown.
std::string values_to_string(const Array& array);

}  // namespace tandem
