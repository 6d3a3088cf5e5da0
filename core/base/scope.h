// Scope: what a thread is doing, so that errors and traces can say it.
//
//   Tensor conv2d(...) {
//     const Scope scope("conv2d");  // from here to the end of the block
//
// Each thread has a stack of scopes. An Error (core/base/check.h) names the operation and the module that it is thrown
// in. A ScopeObserver, such as the trace of core/profile, sees scopes begin and end.
#pragma once

#include <tandem/core/base/temporarily.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem {

class Scope;

// An observer sees the scopes of all threads begin and end, each in its own thread. The scopes of a thread end in the
// reverse order of their beginnings.
class ScopeObserver {
 public:
  // Returns whether notes of this scope are wanted.
  virtual bool began(const Scope& scope) = 0;
  virtual void ended(const Scope& scope) = 0;
  // A note of a scope that has not ended.
  virtual void noted(const Scope& scope, const char* key, std::string_view value) = 0;
  virtual void noted(const Scope& scope, const char* key, std::int64_t value) = 0;

  // Sets the observer of all scopes that begin from now on; null removes it. It lives as long as the program, because
  // it also sees the end of each scope that it saw begin. Any thread may call it.
  static void set(ScopeObserver* observer) { current_.store(observer); }
  static ScopeObserver* current() { return current_.load(std::memory_order_acquire); }

 protected:
  ~ScopeObserver() = default;

 private:
  static constinit std::atomic<ScopeObserver*> current_;
};

// A scope costs a nanosecond or two while there is no observer. Only the thread that creates it may use it.
class Scope : NoCopy {
 public:
  enum class Kind {
    operation,  // "conv2d": errors that are thrown inside name it
    phase,      // "load batch": a part of the program, which errors do not name
    module,     // the call of a module of a network (nn/module.h): errors name its path
  };
  // The path of a module from the module that was called first, "blocks.2.mlp", and the name of its class.
  struct ModuleName {
    std::string path, type;
    // "blocks.2.mlp (Linear)". Empty when there is no path.
    std::string text() const { return path.empty() ? "" : path + " (" + type + ')'; }
  };

  // An operation. Observers see `name` and `suffix` together. Both are literals or come from lasting_name().
  explicit Scope(const char* name, const char* suffix = "") : Scope(Kind::operation, name, suffix) {}
  Scope(Kind kind, const char* name, const char* suffix = "")
      : outer_(innermost_), name_(name), suffix_(suffix), kind_(kind), observer_(ScopeObserver::current()) {
    innermost_ = this;
    if (observer_) takes_notes_ = observer_->began(*this);
  }
  ~Scope() {
    if (observer_) observer_->ended(*this);
    innermost_ = outer_;
  }

  Kind kind() const { return kind_; }
  const char* name() const { return name_; }
  const char* suffix() const { return suffix_; }
  const Scope* outer() const { return outer_; }
  // The path is empty for other kinds, and for a module that was called by itself.
  virtual ModuleName module_name() const { return {}; }
  // This scope, or else the next one outwards, that is the call of a module; null outside of all calls.
  const Scope* module() const;
  // The innermost scope of this thread; null outside of all scopes.
  static Scope* innermost() { return innermost_; }

  // Returns whether an observer wants notes. Only then does collecting them cost time.
  bool takes_notes() const { return takes_notes_; }
  bool has_notes() const { return has_notes_; }
  // Tells the observer more of this scope: "kernel", "one_channel". Does nothing where none wants notes.
  template <class Value>
  void note(const char* key, const Value& value) {
    if (!takes_notes_) return;
    observer_->noted(*this, key, value);
    has_notes_ = true;
  }
  // The scope is the call of a module, which observers show by its path in the network, "layer1.0.conv1". The text
  // lives as long as the program.
  void show_as(const char* path) { path_ = path; }
  const char* path() const { return path_; }
  // The path that show_as() gave the innermost call of a module on this thread; null outside of all.
  static const char* module_path();

 private:
  static constinit thread_local Scope* innermost_;

  Scope* const outer_;
  const char* const name_;
  const char* const suffix_;
  const char* path_ = nullptr;
  const Kind kind_;
  bool takes_notes_ = false, has_notes_ = false;
  ScopeObserver* const observer_;  // who saw the beginning
};

// Returns a copy of `name` that lives as long as the program, for names of scopes that are no literals. Any thread may
// call it.
const char* lasting_name(const std::string& name);

namespace detail {

// The name of the module that this thread is calling, "blocks.2.mlp (Linear)". Empty when there is none.
std::string module_text();

// Puts the module and the operation that this thread is in before `text`, unless the text has these names already. Code
// that many operations share therefore need not know which of them called it.
std::string with_scope(std::string text);

}  // namespace detail
}  // namespace tandem
