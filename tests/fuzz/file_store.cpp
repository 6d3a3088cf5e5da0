// Fuzzes the log of a FileStore. "\xff\xff" in the input cuts it. Each later part is written to the file while the
// store has it open, as another process would do.
#include <tandem/distributed/store/file_store.h>

#include <fstream>
#include <memory>

#include "fuzz.h"

using namespace tandem;
using distributed::FileStore;

namespace {

FileStore::Options options_of(const std::filesystem::path& path) { return {path, std::chrono::milliseconds(5)}; }

void append_to(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::app) << bytes;
}

// Whatever the log contained before, a value that was set is there, even for processes that read the log from its
// beginning.
void use(FileStore& store, const std::filesystem::path& path) {
  const std::string key = "count", value = "value";
  fuzz::expect_at_most_an_error([&] { store.add(key, 1); });
  fuzz::expect_at_most_an_error([&] { store.get(key); });
  fuzz::expect_at_most_an_error([&] { store.append("key", value); });
  fuzz::expect_at_most_an_error([&] { store.compare_set("key", value, ""); });
  fuzz::expect_at_most_an_error([&] { store.delete_key(key); });
  const bool is_set = fuzz::expect_at_most_an_error([&] { store.set("key", value); });
  if (!is_set) return;
  FileStore again(options_of(path));
  if (store.get("key") != value || again.get("key") != value || again.check({key})) std::abort();
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::text_of(data, size);
  const auto cut = bytes.find("\xff\xff");
  const fuzz::TemporaryPath file;
  append_to(file.path(), bytes.substr(0, cut));
  std::unique_ptr<FileStore> store;
  if (!fuzz::expect_at_most_an_error([&] { store = std::make_unique<FileStore>(options_of(file.path())); })) return 0;
  if (cut != bytes.npos) append_to(file.path(), bytes.substr(cut + 2));
  use(*store, file.path());
  return 0;
}
