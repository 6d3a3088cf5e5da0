#include <tandem/core/base/scope.h>

#include <mutex>
#include <set>
#include <utility>

namespace tandem {

constinit std::atomic<ScopeObserver*> ScopeObserver::current_ = nullptr;
constinit thread_local Scope* Scope::innermost_ = nullptr;

const Scope* Scope::module() const {
  const Scope* scope = this;
  while (scope && scope->kind_ != Kind::module) scope = scope->outer_;
  return scope;
}

const char* Scope::module_path() {
  for (const Scope* scope = innermost(); scope; scope = scope->outer())
    if (scope->path_) return scope->path_;
  return nullptr;
}

const char* lasting_name(const std::string& name) {
  static auto* names = new std::set<std::string>;
  static std::mutex mutex;  // guards names
  const std::lock_guard lock(mutex);
  return names->insert(name).first->c_str();
}

namespace detail {
namespace {

Scope::ModuleName innermost_module() {
  const Scope* const scope = Scope::innermost();
  const Scope* const module = scope ? scope->module() : nullptr;
  return module ? module->module_name() : Scope::ModuleName();
}

}  // namespace

std::string module_text() { return innermost_module().text(); }

std::string without_control_characters(std::string text) {
  constexpr char digits[] = "0123456789abcdef";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c < ' ' && c != '\n' && c != '\t') || c == 127)
      text.replace(i, 1, {'\\', 'x', digits[c / 16], digits[c % 16]});
  }
  return text;
}

std::string with_scope(std::string text) {
  const Scope* const scope = Scope::innermost();
  if (scope && scope->kind() == Scope::Kind::operation && text.find(scope->name()) == std::string::npos)
    text = scope->name() + (": " + std::move(text));
  const Scope::ModuleName module = innermost_module();
  if (module.path.empty()) return text;
  // The text of a layer's error begins with its class, which the module's name already contains.
  if (text.starts_with(module.type + ": ")) text.erase(0, module.type.size() + 2);
  return "in " + module.text() + ": " + text;
}

}  // namespace detail
}  // namespace tandem
