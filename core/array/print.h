// The numbers of an Array as text for people.
#pragma once

#include <tandem/core/array/array.h>

#include <string>

namespace tandem {

// Nested brackets with aligned columns: "[1., 2.]", a scalar without them, a line break in front where ndim is 2 or
// more. Four decimals where a value needs some, powers of ten where values are very large or small. Of more than 1,000
// elements the first and the last three of every dimension.
std::string values_to_string(const Array& array);

}  // namespace tandem
