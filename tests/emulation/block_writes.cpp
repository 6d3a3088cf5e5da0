#include "block_writes.h"

#include <cuda_runtime.h>

#include <atomic>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device_memory.h"
#include "streams.h"

namespace emulation {
namespace {

struct Change {
  char* at;
  std::string bytes;
};
using Changes = std::vector<Change>;

// A page that the running block has written to, and its previous contents.
struct Page {
  char* at;
  char before[page_bytes];
};
constexpr std::size_t most_pages = std::size_t{1} << 16;

// Only the GPU thread uses this state, for the kernel that it runs.
bool is_hiding = false;
Page* const first_page = new Page[most_pages];  // allocated here, because a signal handler must not allocate
std::span<Page> pages(first_page, 0);
Changes of_all;             // by all blocks that have ended, and by all atomic functions, in order
Changes fenced, published;  // fenced by the running block; fenced by others before an atomic function
Changes released;           // fenced by the running block before an atomic function
bool has_called_atomic = false;

void keep(char* page) {
  if (pages.size() == most_pages) die("a block writes to more than %zu pages", most_pages);
  pages = {first_page, pages.size() + 1};
  pages.back().at = page;
  std::memcpy(pages.back().before, page, page_bytes);
}

// Returns what the running block has changed so far.
Changes changes_of_block() {
  Changes found;
  for (const auto& [at, before] : pages) {
    for (std::size_t i = 0; i < page_bytes; ++i) {
      const std::size_t begin = i;
      while (i < page_bytes && at[i] != before[i]) ++i;
      if (i > begin) found.push_back({at + begin, std::string(at + begin, i - begin)});
    }
  }
  return found;
}

void append(Changes& to, Changes&& more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  more.clear();
}

// Writes to memory permanently, and not as a write of the running block.
void write_for_all(const Change& change) {
  for (std::size_t i = 0; i < change.bytes.size(); ++i) change.at[i] = change.bytes[i];
  // A write to a new page runs keep() in a signal handler. Without this fence, the compiler may use the old `pages`.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  for (auto& [at, before] : pages)
    for (std::size_t i = 0; i < change.bytes.size(); ++i)
      if (change.at + i >= at && change.at + i < at + page_bytes) before[change.at + i - at] = change.bytes[i];
}

}  // namespace

void begin_hiding_writes() {
  is_hiding = true;
  on_first_write(keep);
}

void hide_writes_of_block() {
  append(of_all, changes_of_block());
  append(published, std::move(released));
  fenced.clear();
  has_called_atomic = false;
  for (const auto& [at, before] : pages) {
    std::memcpy(at, before, page_bytes);
    expect_first_write(at);
  }
  pages = pages.first(0);
}

void show_all_writes() {
  is_hiding = false;
  on_first_write(nullptr);
  for (const auto& [at, bytes] : of_all) std::memcpy(at, bytes.data(), bytes.size());
  of_all.clear();
  published.clear();
}

void fence() {
  if (!is_hiding) return;
  fenced = changes_of_block();
  if (!has_called_atomic) return;
  for (const auto& change : published) write_for_all(change);
  published.clear();
}

// All blocks see the effect of an atomic function at once. A counter in a variable of the file (__device__) is an error
// if kernels of two streams use it, because both could use it at the same time.
void note_atomic(void* where, std::size_t bytes) {
  const Place place = place_of(where);
  if (place == Place::pageable) {
    static std::map<std::pair<void*, int>, cudaStream_t> users;
    const cudaStream_t stream = running_stream();
    if (users.try_emplace({where, device_of(stream)}, stream).first->second != stream)
      die("kernels of two streams use the variable at %p with atomic functions", where);
  }
  if (!is_hiding) return;
  append(released, std::move(fenced));
  has_called_atomic = true;
  if (place != Place::gpu) return;
  const Change change{static_cast<char*>(where), std::string(static_cast<char*>(where), bytes)};
  write_for_all(change);
  of_all.push_back(change);
}

}  // namespace emulation
