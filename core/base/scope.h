// Scope: records what a thread is doing, for errors and traces.
//
//   Tensor conv2d(...) {
//     const Scope scope("conv2d");  // from here to the end of the block
//
// Each thread has a stack of scopes. The text of an Error (core/base/check.h) names the operation and the module in
// which it was thrown. A ScopeObserver, such as the trace of core/profile, is notified when scopes begin and end.
#pragma once

#include <tandem/core/base/temporarily.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem {

class Scope;

// An observer is notified when scopes of any thread begin and end, on the thread of the scope. The scopes of a thread
// end in the reverse order of their beginnings.
class ScopeObserver {
 public:
  // Returns whether the observer wants notes about this scope.
  virtual bool began(const Scope& scope) = 0;
  virtual void ended(const Scope& scope) = 0;
  // Receives a note about a scope that has not ended.
  virtual void noted(const Scope& scope, const char* key, std::string_view value) = 0;
  virtual void noted(const Scope& scope, const char* key, std::int64_t value) = 0;

  // Sets the observer of all scopes that begin from now on; null removes it. The observer must live as long as the
  // program, because it is also notified of the end of each scope whose beginning it saw. Any thread may call this
  // function.
  static void set(ScopeObserver* observer) { current_.store(observer); }
  static ScopeObserver* current() { return current_.load(std::memory_order_acquire); }

 protected:
  ~ScopeObserver() = default;

 private:
  static constinit std::atomic<ScopeObserver*> current_;
};

// A scope costs a nanosecond or two if there is no observer. Only the thread that creates a scope may use it.
class Scope : NoCopy {
 public:
  enum class Kind {
    operation,  // "conv2d": an Error thrown inside names it
    phase,      // "load batch": a part of the program, which errors don't name
    module,     // a call to a module of a network (nn/module.h): errors name its path
  };
  // The path of a module, relative to the module that was called first ("blocks.2.mlp"), and the name of its class.
  struct ModuleName {
    std::string path, type;
    // Returns "blocks.2.mlp (Linear)", or an empty string if there is no path.
    std::string text() const { return path.empty() ? "" : path + " (" + type + ')'; }
  };

  // Begins an operation. Observers see the concatenation of `name` and `suffix`. Both are literals or results of
  // lasting_name().
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
  // Returns the path and class of the module that this scope calls. The path is empty if the kind is not `module`, or
  // if no other module called this one.
  virtual ModuleName module_name() const { return {}; }
  // Returns the innermost scope of kind `module`, starting from this scope and going outwards, or null.
  const Scope* module() const;
  // Returns the innermost scope of this thread, or null.
  static Scope* innermost() { return innermost_; }

  // Returns whether an observer wants notes. Callers check it before work that only collects notes.
  bool takes_notes() const { return takes_notes_; }
  bool has_notes() const { return has_notes_; }
  // Passes the observer a detail of this scope, such as "kernel", "one_channel". Does nothing if no observer wants
  // notes.
  template <class Value>
  void note(const char* key, const Value& value) {
    if (!takes_notes_) return;
    observer_->noted(*this, key, value);
    has_notes_ = true;
  }
  // Marks this scope as a call to a module. Observers show `path`, the module's path in the network ("layer1.0.conv1").
  // The text must live as long as the program.
  void show_as(const char* path) { path_ = path; }
  const char* path() const { return path_; }
  // Returns the path that show_as() set for the innermost module call on this thread, or null.
  static const char* module_path();

 private:
  static constinit thread_local Scope* innermost_;

  Scope* const outer_;
  const char* const name_;
  const char* const suffix_;
  const char* path_ = nullptr;
  const Kind kind_;
  bool takes_notes_ = false, has_notes_ = false;
  ScopeObserver* const observer_;  // the observer that was notified of the beginning
};

// Returns a copy of `name` that lives as long as the program. Scopes whose names are not literals use it. Any thread
// may call this function.
const char* lasting_name(const std::string& name);

namespace detail {

// Returns the name of the module that this thread is calling: "blocks.2.mlp (Linear)", or an empty
// string.
std::string module_text();

// Prepends this thread's current module and operation to `text`, unless the text already contains these names. Code
// that many operations share therefore need not know which of them called it.
std::string with_scope(std::string text);

std::string without_control_characters(std::string text);  // see Error

}  // namespace detail
}  // namespace tandem
