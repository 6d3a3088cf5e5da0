#include "libraries.h"

#include <tandem/core/backend/device_graph.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "device_memory.h"
#include "streams.h"
#include "work_log.h"

namespace emulation {

using tandem::Array;

Libraries& libraries() {
  static Libraries instance;
  return instance;
}

void check_context(const char* call) {
  if (!has_context()) die("%s in a thread that has called no cudaSetDevice: there may be no context", call);
}

void check_not_recorded(const char* call) {
  if (tandem::is_recording_graph()) die("%s while a graph is recorded: use the library once before", call);
}

void check_plans(const char* call) {
  if (!libraries().plan_while_recording) check_not_recorded(call);
}

void check_memory(const char* call, const char* name, const void* memory, std::size_t alignment) {
  if (place_of(memory) != Place::gpu) die("%s: %s, at %p, is not in a GPU's memory", call, name, memory);
  if (reinterpret_cast<std::uintptr_t>(memory) % alignment != 0)
    die("%s: %s, at %p, is not aligned to %zu bytes", call, name, memory, alignment);
}

Array numbers_at(const void* memory, tandem::DType dtype, const tandem::Shape& shape, const tandem::Strides& strides) {
  std::int64_t last = 0;
  for (int i = 0; i < shape.ndim(); ++i) last += (shape[i] - 1) * strides[i];
  const std::size_t bytes = static_cast<std::size_t>(last + 1) * tandem::size_of(dtype);
  const auto storage = std::make_shared<tandem::Storage>(const_cast<void*>(memory), bytes, tandem::Device{}, [] {});
  return Array(storage, shape, strides, 0, dtype);
}

Array as_tf32(const Array& a) {
  const auto values = a.to_vector<float>();
  std::vector<float> rounded;
  for (const float value : values) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    rounded.push_back(std::isfinite(value) ? std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu) : value);
  }
  return Array::from(rounded, a.shape());
}

Array as_a_library(const Array& exact) {
  static const char* const given = std::getenv("TANDEM_EMULATED_NOISE");
  if (!given || exact.dtype() == tandem::DType::f64) return exact;
  static const std::uint64_t seed = std::strtoull(given, nullptr, 10);
  const double most = std::ldexp(1, exact.dtype() == tandem::DType::f32   ? -22
                                    : exact.dtype() == tandem::DType::f16 ? -12
                                                                          : -9);
  auto values = exact.to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    // The finalizer of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
    std::uint64_t bits = std::bit_cast<std::uint64_t>(values[i]) + (seed * 1000003 + i) * 0x9e3779b97f4a7c15u;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
    values[i] *= 1 + most * (std::ldexp(static_cast<double>((bits ^ bits >> 31) >> 11), -52) - 1);
  }
  return Array::from(values, exact.shape()).to(exact.dtype());
}

void submit_library_work(cudaStream_t stream, const char* library, void* workspace, std::size_t bytes,
                         std::function<void()> work) {
  note_work(stream, library);
  submit_work(stream, [workspace, bytes, work = std::move(work)] {
    if (bytes > 0) std::memset(workspace, 0xff, bytes);
    work();
  });
}

}  // namespace emulation
