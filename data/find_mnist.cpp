#include <tandem/data/find_mnist.h>

#include <tandem/core/base/check.h>
#include <tandem/core/io/file_system.h>
#include <tandem/data/cache_folder.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <system_error>

namespace tandem::data {
namespace {

namespace fs = std::filesystem;

bool holds_all(const fs::path& folder) {
  return std::ranges::all_of(mnist_files, [&](const char* name) { return !find_mnist_file(folder, name).empty(); });
}

// The folder of the bundled sample: next to the installed program if it is there, otherwise in the source tree.
fs::path bundled_sample() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path installed = program.parent_path().parent_path() / "share/tandem/sample";
  return holds_all(installed) ? installed : fs::path(TANDEM_SAMPLE_DIR);
}

// The download failed for `reason` after `seconds`.
MnistFolder sample(const std::string& reason, double seconds) {
  const std::string given = environment("TANDEM_SAMPLE");
  const fs::path folder = given.empty() ? bundled_sample() : fs::path(given);
  TANDEM_CHECK(holds_all(folder), "MNIST cannot be downloaded, and the bundled sample is not in ", folder.string(),
               " (TANDEM_SAMPLE sets another folder); give the folder of the MNIST files with TANDEM_DATA=FOLDER.\n",
               reason);
  return {
      folder, true,
      fmt::format("WARNING: MNIST could not be downloaded ({:.1f} s). Training uses the small sample that comes with "
                  "Tandem: 10,000 training and 2,000 test images.\nIts losses and accuracy are NOT those of MNIST: "
                  "expect less accuracy. For the real data, remove the cause that the next lines name, or give the "
                  "folder of MNIST's four files: TANDEM_DATA=FOLDER, or --data FOLDER of programs that have it.\n{}",
                  seconds, reason)};
}

}  // namespace

fs::path find_mnist_file(const fs::path& folder, const std::string& name) {
  // Kaggle's archive has each file twice: in a folder of the same name, and with a dot before "idx".
  std::string dotted = name;
  dotted.at(name.find("-idx")) = '.';
  for (const fs::path& path : {folder / name, folder / (name + ".gz"), folder / name / name, folder / dotted}) {
    if (is_there(path) && !fs::is_directory(path)) return path;
  }
  return {};
}

MnistFolder find_mnist(const MnistSource& source) {
  if (!source.data.empty()) return {source.data, false, ""};
  if (const std::string data = environment("TANDEM_DATA"); !data.empty()) return {data, false, ""};
  const auto start = std::chrono::steady_clock::now();
  try {
    const fs::path folder = cache_folder("mnist");
    if (holds_all(folder)) return {folder, false, ""};
    TANDEM_CHECK(!mnist_downloads.entries().empty(), "This build has no downloads.");
    mnist_downloads.entries().front()(source, folder);
    return {folder, false, "MNIST was downloaded into " + folder.string()};
  } catch (const Error& error) {  // no network, no home folder, or one that can't be written
    return sample(error.what(), std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
}

}  // namespace tandem::data
