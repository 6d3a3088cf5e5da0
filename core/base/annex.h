// Lets annexes (third_party/annexes.txt) extend the ground floor, which includes none of them. Each annex adds entries
// to lists that the ground floor keeps, such as the list of file formats.
#pragma once

#include <span>
#include <utility>
#include <vector>

namespace tandem {

// Makes every annex of this layer that is part of this build add its entries, once per process and in the order of
// third_party/annexes.txt. CMake generates the source file of this function. Any thread may call it. Each of the other
// layers has a function like this.
void add_core_annexes();

// A list to which the annexes of one layer add entries. Only functions that `add_annexes` calls may call add(). Any
// thread may call entries(), which always returns the complete list. Its constructor runs at compile time and it is
// never destroyed, so objects with static storage may use it before and after main().
template <class Entry>
class AnnexList {
 public:
  explicit constexpr AnnexList(void (*add_annexes)()) : add_annexes_(add_annexes) {}
  void add(Entry entry) {
    if (!entries_) entries_ = new std::vector<Entry>;
    entries_->push_back(std::move(entry));
  }
  std::span<const Entry> entries() const {
    add_annexes_();
    return entries_ ? std::span<const Entry>(*entries_) : std::span<const Entry>();
  }

 private:
  void (*add_annexes_)();
  std::vector<Entry>* entries_ = nullptr;
};

}  // namespace tandem
