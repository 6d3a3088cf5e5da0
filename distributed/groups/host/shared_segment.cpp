#include <tandem/core/base/check.h>
#include <tandem/distributed/groups/host/shared_segment.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tandem::distributed {
namespace {

constexpr std::size_t alignment = 64;
// Freed blocks of this size or larger return their memory to the system.
constexpr std::size_t returned_bytes = std::size_t{1} << 20;
// The size of a segment never changes.
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

SharedSegment::SharedSegment(std::size_t bytes)
    : owner_("this process"), file_(memfd_create("tandem", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  // The system would kill the process for exceeding this limit.
  rlimit largest{};
  if (getrlimit(RLIMIT_FSIZE, &largest) == 0 && largest.rlim_cur != RLIM_INFINITY)
    bytes = std::min<std::size_t>(bytes, largest.rlim_cur);
  bytes_ = bytes / 4096 * 4096;
  TANDEM_CHECK(file_.is_open(), "shared memory: memfd_create failed: ", errno_text());
  TANDEM_CHECK(ftruncate(file_.get(), static_cast<off_t>(bytes_)) == 0, "shared memory: a segment of ", bytes_,
               " bytes was refused: ", std::strerror(errno));
  TANDEM_CHECK(fcntl(file_.get(), F_ADD_SEALS, seals) == 0,
               "shared memory: the size of a segment could not be sealed: ", std::strerror(errno));
  map();
  free_.emplace(0, bytes_);
}

SharedSegment::SharedSegment(FileDescriptor file, std::size_t least, std::string owner)
    : owner_(std::move(owner)), file_(std::move(file)) {
  const int sealed = fcntl(file_.get(), F_GET_SEALS);
  TANDEM_CHECK(sealed >= 0, "shared memory: the file that ", owner_, " sent is not a segment: ", std::strerror(errno));
  TANDEM_CHECK((sealed & seals) == seals, "shared memory: the size of the segment that ", owner_,
               " sent is not sealed: it could shrink while this process uses it");
  struct stat status {};
  TANDEM_CHECK(fstat(file_.get(), &status) == 0, "shared memory: could not get the size of the segment that ", owner_,
               " sent: ", std::strerror(errno));
  bytes_ = static_cast<std::size_t>(status.st_size);
  TANDEM_CHECK(bytes_ >= least, "shared memory: the segment that ", owner_, " sent has ", bytes_, " bytes, at least ",
               least, " are needed");
  map();
}

SharedSegment::~SharedSegment() { munmap(base_, bytes_); }

void SharedSegment::map() {
  void* address = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_.get(), 0);
  TANDEM_CHECK(address != MAP_FAILED, "shared memory: could not map ", bytes_, " bytes: ", std::strerror(errno),
               ". The limit on address space (ulimit -v) may be too low; --backend gloo needs less");
  base_ = static_cast<char*>(address);
}

void SharedSegment::fail_outside(std::uint64_t offset, std::size_t bytes) const {
  detail::fail("shared memory: ", owner_, " says that ", bytes, " bytes lie at ", offset, " of its segment of ", bytes_,
               " bytes, where they do not fit. The memory of that rank is corrupted");
}

std::size_t SharedSegment::allocate(std::size_t bytes) {
  bytes = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  const std::lock_guard lock(mutex_);
  for (auto block = free_.begin(); block != free_.end(); ++block) {
    if (block->second < bytes) continue;
    const auto [offset, size] = *block;
    free_.erase(block);
    if (size > bytes) free_.emplace(offset + bytes, size - bytes);
    used_.emplace(offset, bytes);
    return offset;
  }
  detail::fail("shared memory: no room for ", bytes, " bytes in a segment of ", bytes_,
               ": raise the limit on the size of a file (ulimit -f), or use --backend gloo");
}

void SharedSegment::free(std::size_t offset) {
  const std::lock_guard lock(mutex_);
  const auto used = used_.find(offset);
  std::size_t bytes = used->second;
  used_.erase(used);
  if (bytes >= returned_bytes) {
    const std::size_t first = (offset + 4095) / 4096 * 4096, last = (offset + bytes) / 4096 * 4096;
    [[maybe_unused]] const int given = fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                                 static_cast<off_t>(first), static_cast<off_t>(last - first));
  }
  const auto after = free_.lower_bound(offset);
  if (after != free_.end() && after->first == offset + bytes) {
    bytes += after->second;
    free_.erase(after);
  }
  const auto next = free_.lower_bound(offset);
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_.emplace(offset, bytes);
}

bool SharedSegment::contains(const void* data, std::size_t bytes) const {
  const auto* first = static_cast<const char*>(data);
  return first >= base_ && first + bytes <= base_ + bytes_;
}

}  // namespace tandem::distributed
