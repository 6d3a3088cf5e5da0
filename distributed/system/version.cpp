#include <tandem/distributed/system/version.h>

#include <fmt/format.h>

#include <fstream>
#include <sstream>
#include <string_view>

namespace tandem::distributed {
namespace {

// Returns the processor's model and vector extensions, from lines such as "model name : AMD EPYC".
std::string processor() {
  std::ifstream list("/proc/cpuinfo");
  std::string model = "unknown", flags;
  for (std::string line; std::getline(list, line) && flags.empty();) {
    const auto colon = line.find(": ");
    if (colon == std::string::npos) continue;
    if (line.starts_with("model name")) model = line.substr(colon + 2);
    if (line.starts_with("flags")) flags = line.substr(colon + 2);
  }
  std::string extensions;
  std::istringstream words(flags);
  for (std::string word; words >> word;) {
    for (const std::string_view known : {"avx2", "avx512f", "avx512_bf16", "amx_bf16"})
      if (word == known) extensions += (extensions.empty() ? "" : " ") + word;
  }
  return extensions.empty() ? model : model + " (" + extensions + ")";
}

// The compiler defines these macros. They apply to the kernels too, because this file is compiled for the same
// processor.
constexpr const char* built_for =
#if defined(__AVX512BF16__)
    "avx512_bf16";
#elif defined(__AVX512F__)
    "avx512f";
#elif defined(__AVX2__)
    "avx2";
#else
    "any x86-64";
#endif

}  // namespace

std::string version_text(const std::string& program) {
  std::string devices = "cpu", transports = "shm, gloo";
#ifdef TANDEM_HAS_MPI
  transports += ", mpi";
#endif
#ifdef TANDEM_HAS_CUDA
  devices += ", cuda";
  transports += ", nccl";
#endif
  return fmt::format("{} {} (Tandem, commit {})\ndevices: {}\ntransports: {}\nprocessor: {}\nbuilt for: {}\n", program,
                     TANDEM_VERSION, TANDEM_COMMIT, devices, transports, processor(), built_for);
}

}  // namespace tandem::distributed
