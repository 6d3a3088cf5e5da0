// The named choices of a training program: the device, the compression of gradients, and the strategy.
#pragma once

#include <tandem/core/base/enum_names.h>

#include <cstdint>

namespace tandem::distributed {

enum class DeviceChoice { automatic, cpu, cuda };      // automatic: a GPU if this build and host have one
enum class Compression { none, bf16, f16, powersgd };  // of gradients that are sent
enum class StrategyChoice { ddp, dp, ps, ring, hierarchical, localsgd, diloco, zero1, zero2 };  // docs/strategies.md

constexpr std::int64_t least_sweep_steps = 10;  // of the learning-rate finder (lr_finder.h)

}  // namespace tandem::distributed

template <>
struct tandem::EnumNames<tandem::distributed::DeviceChoice> {
  using D = distributed::DeviceChoice;
  static constexpr NamedValue<D> all[] = {{"auto", D::automatic}, {"cpu", D::cpu}, {"cuda", D::cuda}};
};

template <>
struct tandem::EnumNames<tandem::distributed::Compression> {
  using C = distributed::Compression;
  static constexpr NamedValue<C> all[] = {
      {"none", C::none}, {"bf16", C::bf16}, {"f16", C::f16}, {"fp16", C::f16}, {"powersgd", C::powersgd}};
};

template <>
struct tandem::EnumNames<tandem::distributed::StrategyChoice> {
  using S = distributed::StrategyChoice;
  static constexpr NamedValue<S> all[] = {{"ddp", S::ddp},
                                          {"dp", S::dp},
                                          {"ps", S::ps},
                                          {"ring", S::ring},
                                          {"hierarchical", S::hierarchical},
                                          {"localsgd", S::localsgd},
                                          {"diloco", S::diloco},
                                          {"zero1", S::zero1},
                                          {"zero2", S::zero2}};
};
