// InputFile: a file that is read at any place, by a reader that trusts nothing in it.
#pragma once

#include <tandem/core/base/check.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace tandem {

// Every error begins with the file's kind and path. Several threads may read.
class InputFile {
 public:
  // `kind` is what it should be: "safetensors file". Error when it cannot be opened or is no regular file: a pipe could
  // keep the program waiting for ever.
  InputFile(const std::filesystem::path& path, const std::string& kind);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::uint64_t size() const { return size_; }
  // "safetensors file x.safetensors: "
  const std::string& label() const { return label_; }
  // Exactly `bytes` bytes from `offset` on.
  void read(void* destination, std::uint64_t bytes, std::uint64_t offset) const;
  std::string read(std::uint64_t bytes, std::uint64_t offset) const;

  template <class... Parts>
  void check(bool condition, const Parts&... parts) const {
    TANDEM_CHECK(condition, label_, parts...);
  }

 private:
  std::string label_;
  int file_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace tandem
