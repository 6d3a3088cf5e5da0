// SHA-256 of bytes, to compare long results with golden ones.
#pragma once

#include <openssl/evp.h>

#include <array>
#include <cstdio>
#include <span>
#include <string>

namespace tandem::testing {

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) { EVP_DigestInit_ex(context_, EVP_sha256(), nullptr); }
  ~Sha256() { EVP_MD_CTX_free(context_); }
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  template <class T>
  Sha256& add(std::span<const T> values) {
    EVP_DigestUpdate(context_, values.data(), values.size_bytes());
    return *this;
  }
  std::string hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
    unsigned length = 0;
    EVP_DigestFinal_ex(context_, digest.data(), &length);
    std::string text;
    for (unsigned i = 0; i < length; ++i) {
      char byte[3];
      std::snprintf(byte, sizeof byte, "%02x", digest[i]);
      text += byte;
    }
    return text;
  }

 private:
  EVP_MD_CTX* context_;
};

template <class T>
std::string sha256_of(std::span<const T> values) {
  return Sha256().add(values).hex();
}

}  // namespace tandem::testing
