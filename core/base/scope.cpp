#include <tandem/core/base/scope.h>

#include <utility>

namespace tandem::detail {

constinit thread_local Scope* Scope::innermost_ = nullptr;

const Scope* Scope::module() const {
  const Scope* scope = this;
  while (scope && scope->kind_ != Kind::module) scope = scope->outer_;
  return scope;
}

namespace {

Scope::ModuleName innermost_module() {
  const Scope* const scope = Scope::innermost();
  const Scope* const module = scope ? scope->module() : nullptr;
  return module ? module->module_name() : Scope::ModuleName();
}

}  // namespace

std::string module_text() { return innermost_module().text(); }

std::string with_scope(std::string text) {
  const Scope* const scope = Scope::innermost();
  if (scope && scope->kind() == Scope::Kind::operation && text.find(scope->name()) == std::string::npos)
    text = scope->name() + (": " + std::move(text));
  const Scope::ModuleName module = innermost_module();
  if (module.path.empty()) return text;
  // The text of a layer begins with its class, which the module's name has already.
  if (text.starts_with(module.type + ": ")) text.erase(0, module.type.size() + 2);
  return "in " + module.text() + ": " + text;
}

}  // namespace tandem::detail
