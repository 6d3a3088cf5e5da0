#include <tandem/core/cpu/onednn.h>
#include <tandem/core/cpu/onednn_faults.h>

#include <dnnl.hpp>

namespace tandem::onednn {
namespace {

constexpr int version(int major, int minor) { return 1000 * major + minor; }
constexpr int untried = version(999, 0);

// For each fault, the first version in which tests/long/onednn_faults finds no wrong layer, with AVX2 and with AVX-512.
// Only AVX-512 has kernels for bf16. All faults were seen in 2.6 with AVX-512. The tested versions are 2.6.3 with both,
// and 3.7.2 with AVX2.
struct Row {
  Fault fault;
  int right_with_avx2, right_with_avx512;
};
constexpr Row table[] = {
    {Fault::wide_forward, version(2, 6), untried},
    {Fault::odd_outputs_bf16, untried, untried},
    {Fault::odd_inputs_bf16, untried, untried},
    {Fault::weight_sums_bf16, untried, untried},
};

bool are_forgotten = false;

}  // namespace

bool has(Fault fault) {
  static const int loaded = version(dnnl::version()->major, dnnl::version()->minor);
  if (are_forgotten) return false;
  for (const Row& row : table)
    if (row.fault == fault) return loaded < (has_avx512() ? row.right_with_avx512 : row.right_with_avx2);
  return true;
}

std::string loaded_version() {
  const auto* const v = dnnl::version();
  return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

void forget_faults() { are_forgotten = true; }

}  // namespace tandem::onednn
