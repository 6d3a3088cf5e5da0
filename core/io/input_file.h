// InputFile: a file with random access, for readers that do not trust its contents.
#pragma once

#include <tandem/core/base/check.h>
#include <tandem/core/base/temporarily.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace tandem {

// The system does not let this process read the file. The file itself may be intact.
struct UnreadableFile : Error {
  using Error::Error;
};

// Every error begins with the kind and the path of the file. Several threads may read at the same time.
class InputFile : NoCopy {
 public:
  // `kind` says what the file should be: "safetensors file". Throws UnreadableFile if the file can't be opened. Throws
  // an Error if it is not a regular file, because a pipe could block the program forever.
  InputFile(const std::filesystem::path& path, const std::string& kind);
  ~InputFile();

  std::uint64_t size() const { return size_; }
  // The beginning of every error: "safetensors file x.safetensors: ".
  const std::string& label() const { return label_; }
  // Reads exactly `bytes` bytes, starting at `offset`. Throws UnreadableFile if the system can't read them.
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
