// Lists of modules. A list has no forward() of its own: the module that holds the list calls its elements.
#pragma once

#include <tandem/nn/module.h>

#include <concepts>
#include <string>
#include <utility>

namespace tandem::nn {

// A module that holds others by number or name. Base class of Sequential, ModuleList and ModuleDict.
class Container : public Module {
 public:
  std::int64_t size() const { return static_cast<std::int64_t>(children().size()); }
  bool empty() const { return children().empty(); }

  // Iterates in order: for (Module& module : list).
  class Iterator {
   public:
    explicit Iterator(std::vector<std::pair<std::string, std::shared_ptr<Module>>>::const_iterator at) : at_(at) {}
    Module& operator*() const { return *at_->second; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    std::vector<std::pair<std::string, std::shared_ptr<Module>>>::const_iterator at_;
  };
  Iterator begin() const { return Iterator(children().begin()); }
  Iterator end() const { return Iterator(children().end()); }

  // Returns the module at `index`. A negative index counts from the end. Throws an Error if there is no such module or
  // it is not an M.
  Module& operator[](std::int64_t index) const;
  template <class M>
  M& at(std::int64_t index) const {
    return as<M>((*this)[index], std::to_string(index));
  }

 protected:
  void push_child(std::shared_ptr<Module> module) { add_child(std::to_string(size()), std::move(module)); }
  template <class M>
  M& as(Module& module, const std::string& name) const {
    auto* const found = dynamic_cast<M*>(&module);
    TANDEM_CHECK(found, class_name(), ": '", name, "' is a ", module.describe());
    return *found;
  }
};

// Modules named "0", "1", ...:
//
//   nn::ModuleList& blocks = add("blocks", nn::ModuleList());
//   for (int i = 0; i < depth; ++i) blocks.push_back(Block(width));
//   for (nn::Module& block : blocks) x = block(x);
//
// nn::ModuleList{Block(8), Block(16)} creates a list of modules. With braces, C++ constructs them from left to right.
// at<Block>(i) returns module i as a Block, with the members and functions of Block.
class ModuleList : public Container {
 public:
  ModuleList() = default;
  template <std::derived_from<Module>... M>
  explicit ModuleList(M... modules) {
    (push_back(std::move(modules)), ...);
  }
  template <std::derived_from<Module> M>
  M& push_back(M module) {
    return push_back(std::make_shared<M>(std::move(module)));
  }
  template <std::derived_from<Module> M>
  M& push_back(std::shared_ptr<M> module) {
    push_child(module);
    return *module;
  }
};

// Modules by name, in insertion order.
class ModuleDict : public Container {
 public:
  template <std::derived_from<Module> M>
  M& insert(std::string name, M module) {
    return insert(std::move(name), std::make_shared<M>(std::move(module)));
  }
  template <std::derived_from<Module> M>
  M& insert(std::string name, std::shared_ptr<M> module) {
    add_child(std::move(name), module);
    return *module;
  }
  bool contains(const std::string& name) const;
  Module& operator[](const std::string& name) const { return at(name); }
  Module& at(const std::string& name) const;  // throws an Error that lists the names if `name` is unknown
  template <class M>
  M& at(const std::string& name) const {
    return as<M>(at(name), name);
  }
};

}  // namespace tandem::nn
