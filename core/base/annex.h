// How annexes (third_party/annexes.txt) reach the ground floor, which includes none of them: they add entries to lists
// that the ground floor keeps, such as that of file formats.
#pragma once

#include <utility>
#include <vector>

namespace tandem {

// Lets every annex of this layer that this build has add its entries, once in this process and in the order of
// third_party/annexes.txt. CMake writes the source file of this function. Any thread may call it. The other layers have
// such a function each.
void add_core_annexes();

// A list that the annexes of one layer add entries to. Only what `add_annexes` calls uses add(). entries() is complete
// for any caller, and any thread may call it.
template <class Entry>
class AnnexList {
 public:
  explicit constexpr AnnexList(void (*add_annexes)()) : add_annexes_(add_annexes) {}
  void add(Entry entry) { entries_.push_back(std::move(entry)); }
  const std::vector<Entry>& entries() const {
    add_annexes_();
    return entries_;
  }

 private:
  void (*const add_annexes_)();
  std::vector<Entry> entries_;
};

}  // namespace tandem
