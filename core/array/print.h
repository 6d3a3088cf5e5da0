// Formats the numbers of an Array as text for people.
#pragma once

#include <tandem/core/array/array.h>

#include <string>

namespace tandem {

// Returns nested brackets with aligned columns, as in "[1., 2.]". A scalar has no brackets. With 2 dimensions or more,
// the text begins with a line break. Values have four decimals if one of them has a fraction, and scientific notation
// if some are very large or very small. For an array with more than 1,000 elements, the text contains the first and
// last three of every dimension.
std::string values_to_string(const Array& array);

}  // namespace tandem
