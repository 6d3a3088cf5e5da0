// Fuzzes the pickle in a .pth archive that is otherwise valid. Random input would never match the archive's checksum.
#include <tandem/core/io/pth.h>
#include <tandem/core/io/zip_file.h>

#include <span>

#include "fuzz.h"
#include "touch_arrays.h"

using namespace tandem;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::TemporaryPath path(".pth");
  {
    AtomicFile file(path.path());
    ZipWriter zip(file);
    const std::string storage(64, '\1');
    zip.add("a/data.pkl", std::as_bytes(std::span(data, size)));
    for (const char* name : {"a/data/0", "a/data/1", "a/data/2"}) zip.add(name, std::as_bytes(std::span(storage)));
    zip.finish();
    file.commit();
  }
  fuzz::expect_at_most_an_error([&] { fuzz::touch(read_pth(path.path())); });
  return 0;
}
