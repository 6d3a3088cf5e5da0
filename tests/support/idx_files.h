// IDX files for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::testing {

std::string idx_bytes(const std::vector<std::uint32_t>& dims, const std::string& data, char type = 8);

std::string gzip(const std::string& bytes);

}  // namespace tandem::testing
