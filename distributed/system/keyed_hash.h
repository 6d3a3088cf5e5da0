// Proofs that a process knows a secret. They do not reveal the secret.
#pragma once

#include <string>
#include <string_view>

namespace tandem::distributed {

// HMAC-SHA-256 of the text (RFC 2104), as 64 hexadecimal digits.
std::string keyed_hash(const std::string& key, const std::string& text);

// Takes the same time wherever the two texts differ, so that an attacker can't guess a secret byte by byte.
bool equal_secrets(std::string_view a, std::string_view b);

}  // namespace tandem::distributed
