#include <tandem/core/array/element_dispatch.h>
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/loops.cuh>
#include <tandem/core/cuda/segments.cuh>

#include <algorithm>

namespace tandem {

namespace {

using cuda::FloatBits;
using cuda::numbers_per_thread;

// A part of y. y and the part have equally many rows.
struct PartEntry {
  const float* from;
  float* to;
  std::int64_t width;  // numbers in a row of the part
  std::int64_t numel;
  FloatBits bits;  // how the part's numbers are stored
  bool in_packs;   // a thread's numbers are neighbours, and are moved at once
  unsigned first_block;
};
using Parts = cuda::Segments<PartEntry, sizeof(std::int64_t) + sizeof(FloatBits)>;

// Copies the parts to their places in y, whose rows have `y_width` numbers.
__global__ void join(const __grid_constant__ Parts parts, std::int64_t y_width, FloatBits y_bits) {
  const PartEntry& part = parts.of_block(blockIdx.x);
  const std::int64_t first = (blockIdx.x - part.first_block) * cuda::numbers_per_block;
  const auto place = [&](std::int64_t i) { return i / part.width * y_width + i % part.width; };
  if (part.in_packs) {
    const std::int64_t i = first + threadIdx.x * numbers_per_thread;
    if (i >= part.numel) return;
    const auto numbers = cuda::load_pack<numbers_per_thread>(part.bits, part.from, i);
    cuda::store_pack(y_bits, part.to, place(i), numbers);
    return;
  }
  for (int k = 0; k < numbers_per_thread; ++k) {
    const std::int64_t i = first + k * cuda::block_threads + threadIdx.x;
    if (i < part.numel) cuda::store_one(y_bits, part.to, place(i), cuda::load_one(part.bits, part.from, i));
  }
}

bool is_dense_floats(const Array& a) { return is_floating(a.dtype()) && a.dtype() != DType::f64 && a.is_contiguous(); }

bool starts_a_pack(const Array& a) { return reinterpret_cast<std::uintptr_t>(a.raw()) % 16 == 0; }

}  // namespace

void CudaBackend::copy(const Array& from, const Array& to) {
  if (from.dtype() != to.dtype()) return elementwise::convert<cuda::Loops>(from, to);
  dispatch_bits(to.dtype(),
                [&](auto bits) { cuda::Loops::transform<decltype(bits), decltype(bits)>(from, to, Keep{}); });
}

// If all arrays are dense floats of 16 or 32 bits, joins many parts with one kernel, and converts them to y's dtype.
// Otherwise returns false. If the parts are small, as the parameters of a network are, the number of kernels limits the
// speed of a step.
bool CudaBackend::cat(std::span<const Array> parts, int dim, const Array& y) {
  const auto all = [&](auto is_so) { return is_so(y) && std::ranges::all_of(parts, is_so); };
  if (parts.size() < 2 || y.numel() == 0 || !all(is_dense_floats)) return false;
  std::int64_t rows = 1, at = 0;
  for (int d = 0; d < dim; ++d) rows *= y.shape()[d];
  const std::int64_t y_width = y.numel() / rows;
  Parts some{};
  const auto run = [&] {
    if (some.blocks > 0)
      cuda::launch(join, dim3(some.blocks), dim3(cuda::block_threads), some, y_width, cuda::float_bits(y.dtype()));
    some = {};
  };
  for (const Array& part : parts) {
    if (part.numel() == 0) continue;
    const Array to = y.narrow(dim, at, part.shape()[dim]);
    at += part.shape()[dim];
    const std::int64_t width = part.numel() / rows;
    const bool in_packs = width % numbers_per_thread == 0 && (rows == 1 || y_width % numbers_per_thread == 0) &&
                          starts_a_pack(part) && starts_a_pack(to);
    const PartEntry entry{static_cast<const float*>(part.raw()),
                          static_cast<float*>(to.raw()),
                          width,
                          part.numel(),
                          cuda::float_bits(part.dtype()),
                          in_packs,
                          0};
    if (!some.add(entry, part.numel())) run();
  }
  run();
  return true;
}

void CudaBackend::fill(const Array& to, double value) { elementwise::fill<cuda::Loops>(to, value); }
void CudaBackend::where(const Array& condition, const Array& a, const Array& b, const Array& y) {
  elementwise::where<cuda::Loops>(condition, a, b, y);
}

}  // namespace tandem
