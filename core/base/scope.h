// Scope: what a thread is doing, so that errors and profiles can say it.
#pragma once

#include <string>

namespace tandem::detail {

// Each thread has a stack of scopes. Only ProfileRange (core/profile/profile.h) derives from Scope, so that what errors
// name is what profiles show.
class Scope {
 public:
  enum class Kind {
    operation,  // "conv2d": errors that are thrown inside name it
    phase,      // "load batch": a part of the program, which only profiles show
    module,     // the call of a module of a network (nn/module.h): errors name its path
  };
  // The path of a module from the module that was called first, "blocks.2.mlp", and the name of its class.
  struct ModuleName {
    std::string path, type;
    // "blocks.2.mlp (Linear)". Empty when there is no path.
    std::string text() const { return path.empty() ? "" : path + " (" + type + ')'; }
  };

  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  Kind kind() const { return kind_; }
  const char* name() const { return name_; }
  const Scope* outer() const { return outer_; }
  // The path is empty for other kinds, and for a module that was called by itself.
  virtual ModuleName module_name() const { return {}; }
  // This scope, or else the next one outwards, that is the call of a module; null outside of all calls.
  const Scope* module() const;
  // The innermost scope of this thread; null outside of all scopes.
  static Scope* innermost() { return innermost_; }

 protected:
  Scope(Kind kind, const char* name) : outer_(innermost_), name_(name), kind_(kind) { innermost_ = this; }
  ~Scope() { innermost_ = outer_; }

 private:
  static constinit thread_local Scope* innermost_;

  Scope* const outer_;
  const char* const name_;
  const Kind kind_;
};

// The name of the module that this thread is calling, "blocks.2.mlp (Linear)". Empty when there is none.
std::string module_text();

// Puts the module and the operation that this thread is in before `text`, unless the text has these names already. Code
// that many operations share therefore need not know which of them called it.
std::string with_scope(std::string text);

}  // namespace tandem::detail
