#include <tandem/core/base/check.h>
#include <tandem/distributed/system/keyed_hash.h>

#include <fmt/ranges.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>

namespace tandem::distributed {

std::string keyed_hash(const std::string& key, const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash;
  unsigned length = 0;
  TANDEM_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                    reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data(), &length),
               "this system's OpenSSL does not offer HMAC with SHA-256");
  return fmt::format("{:02x}", fmt::join(hash.begin(), hash.begin() + length, ""));
}

bool equal_secrets(std::string_view a, std::string_view b) {
  unsigned difference = a.size() != b.size();
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace tandem::distributed
