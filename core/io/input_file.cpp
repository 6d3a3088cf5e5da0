#include <tandem/core/io/file_system.h>
#include <tandem/core/io/input_file.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace tandem {

InputFile::InputFile(const std::filesystem::path& path, const std::string& kind)
    : label_(kind + " " + path.string() + ": ") {
  // O_NONBLOCK: opening a pipe must not wait for its other end.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    throw UnreadableFile(label_ + "cannot be opened: " + reason_for(errno) + "; correct the path or its permissions");
  struct stat status {};
  const bool is_known = ::fstat(file, &status) == 0;
  if (is_known && S_ISREG(status.st_mode)) {
    file_ = file;
    size_ = static_cast<std::uint64_t>(status.st_size);
    return;
  }
  const int error_number = errno;
  ::close(file);
  check(is_known, "cannot be examined: ", reason_for(error_number));
  check(false, "is not a regular file");
}

InputFile::~InputFile() {
  if (file_ >= 0) ::close(file_);
}

void InputFile::read(void* destination, std::uint64_t bytes, std::uint64_t offset) const {
  auto* at = static_cast<char*>(destination);
  while (bytes > 0) {
    const auto count = ::pread(file_, at, std::min<std::uint64_t>(bytes, 1u << 30), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw UnreadableFile(label_ + "cannot be read at byte " + std::to_string(offset) + ": " + reason_for(errno));
    check(count > 0, "was truncated while it was read: ", bytes, " bytes are missing at byte ", offset);
    at += count;
    offset += static_cast<std::uint64_t>(count);
    bytes -= static_cast<std::uint64_t>(count);
  }
}

std::string InputFile::read(std::uint64_t bytes, std::uint64_t offset) const {
  std::string text(bytes, '\0');
  read(text.data(), bytes, offset);
  return text;
}

}  // namespace tandem
