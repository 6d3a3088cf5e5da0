// Fuzzes the lock file of a folder of checkpoints, read by a job that wants the folder.
#include <tandem/distributed/training/checkpoints/checkpoint_lock.h>

#include <fstream>

#include "fuzz.h"

using namespace tandem;
using namespace tandem::distributed;

namespace {

std::optional<LockOwner> owner_of(const std::string& text) {
  auto owner = LockOwner::parse(text);
  if (!owner) return owner;
  const auto again = LockOwner::parse(owner->text());
  if (!again || again->text() != owner->text()) std::abort();
  for (const unsigned char letter : owner->name()) {
    if (letter < ' ' || letter == 127) std::abort();  // the name goes to terminals
  }
  return owner;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  const auto owner = owner_of(text.substr(0, 4096));  // a job reads only this many bytes
  const LockOwner mine{"here", 1, 1700000000, 2, "run", 3, "0a1b2c3d"};
  const fuzz::TemporaryPath folder;
  std::filesystem::create_directory(folder.path());
  const auto path = folder.path() / "checkpoint.lock";
  for (const bool uses_flock : {true, false}) {
    std::ofstream(path, std::ios::binary) << text;
    const bool is_taken = fuzz::expect_at_most_an_error([&] {
      const CheckpointLock lock(folder.path(), mine,
                                {.uses_flock = uses_flock, .renewal = std::chrono::milliseconds(1)});
      lock.check();
    });
    // No process has locked the file. Without flock, the contents of a new file count.
    const bool may_take = uses_flock || text.empty() || (owner && mine.restarts_run_of(*owner));
    if (is_taken != may_take || (is_taken && std::filesystem::exists(path))) std::abort();
  }
  return 0;
}
