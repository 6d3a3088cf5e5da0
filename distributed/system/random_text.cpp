#include <tandem/distributed/system/random_text.h>

#include <cstdio>
#include <random>

namespace tandem::distributed {

std::string random_text(int words) {
  std::random_device random;
  std::string text;
  char digits[9];
  for (int i = 0; i < words; ++i) {
    std::snprintf(digits, sizeof digits, "%08x", random());
    text += digits;
  }
  return text;
}

}  // namespace tandem::distributed
