#include <tandem/core/base/write_all.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace tandem {
namespace {

// `write_at(done, size)` makes one system call, which writes up to `size` bytes after the first `done`.
template <class Write>
std::size_t repeat(std::size_t bytes, const Write& write_at) {
  constexpr std::size_t largest = std::size_t{1} << 30;
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t count = write_at(done, std::min(bytes - done, largest));
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) errno = EIO;  // otherwise a call that neither writes nor fails would be repeated forever
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

}  // namespace

std::size_t write_all(int file, const void* data, std::size_t bytes) {
  const auto* first = static_cast<const char*>(data);
  return repeat(bytes, [&](std::size_t done, std::size_t size) { return ::write(file, first + done, size); });
}

std::size_t write_all(int file, const void* data, std::size_t bytes, off_t offset) {
  const auto* first = static_cast<const char*>(data);
  return repeat(bytes, [&](std::size_t done, std::size_t size) {
    return ::pwrite(file, first + done, size, offset + static_cast<off_t>(done));
  });
}

}  // namespace tandem
