// Prints a module: its class name, and a tree of the modules below it.
#include <tandem/nn/module.h>

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <ostream>
#include <string>
#include <typeinfo>

namespace tandem::nn {

std::string Module::class_name() const {
  const auto& type = typeid(*this);
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(type.name(), nullptr, nullptr, nullptr),
                                                    std::free);
  std::string name = text ? text.get() : type.name();
  // Template arguments are omitted: they would make the name long without helping the reader.
  name = name.substr(0, name.find('<'));
  const auto colon = name.rfind("::");
  return colon == std::string::npos ? name : name.substr(colon + 2);
}

namespace {

void print(std::ostream& out, const Module& module, const std::string& indent) {
  out << module.describe();
  if (module.children().empty()) return;
  out << " {\n";
  for (const auto& [name, child] : module.children()) {
    out << indent << "  " << name << ": ";
    print(out, *child, indent + "  ");
    out << '\n';
  }
  out << indent << '}';
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Module& module) {
  print(out, module, "");
  return out;
}

}  // namespace tandem::nn
