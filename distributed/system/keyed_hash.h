// Proves that a process knows a secret without revealing it.
#pragma once

#include <string>
#include <string_view>

namespace tandem::distributed {

// Returns the HMAC-SHA-256 of the text (RFC 2104), as 64 hexadecimal digits.
std::string keyed_hash(const std::string& key, const std::string& text);

// Takes the same time wherever the two texts differ, so an attacker can't guess a secret byte by byte.
bool equal_secrets(std::string_view a, std::string_view b);

}  // namespace tandem::distributed
