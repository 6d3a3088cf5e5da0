#include <tandem/core/base/check.h>

#include <sstream>

namespace tandem::detail {

void TextPart::write_text(std::ostream& to, const void* text) { to << static_cast<const char*>(text); }

void fail_with(std::initializer_list<TextPart> parts) {
  std::ostringstream text;
  for (const TextPart& part : parts) part.write(text);
  throw Error(with_scope(std::move(text).str()));
}

}  // namespace tandem::detail
