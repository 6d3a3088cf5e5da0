// oneDNN's primitives with their arguments. For the sources that call oneDNN: onednn.cpp and conv/onednn_conv.cpp.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/cpu/onednn.h>

#include <dnnl.hpp>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tandem::onednn {

using dnnl::memory;

inline const dnnl::engine& engine() {
  static auto* instance = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *instance;
}

inline dnnl::stream& stream() {
  thread_local dnnl::stream instance(engine());
  return instance;
}

// A oneDNN primitive. For each argument, it stores the caller's layout and, if the primitive requires another layout, a
// packed copy.
class Plan {
 public:
  void set_primitive(dnnl::primitive primitive) { primitive_ = std::move(primitive); }

  void add_input(int id, const memory::desc& theirs, const memory::desc& wanted) { add(id, theirs, wanted, false); }
  void add_output(int id, const memory::desc& theirs, const memory::desc& made) { add(id, theirs, made, true); }

  // `data` begins with the addresses of the caller's arrays, in the order in which the arguments were added.
  void execute(std::initializer_list<void*> data) {
    auto pointer = data.begin();
    std::unordered_map<int, memory> bound;
    std::vector<Array> scratch;  // memory from the allocator's cache, which the next operations reuse
    for (auto& a : arguments_) {
      a.caller.set_data_handle(*pointer++);
      if (a.packed) {
        a.packed.set_data_handle(scratch.emplace_back(Array::empty({a.packed_bytes}, DType::u8)).raw());
        if (!a.is_output) a.move.execute(stream(), a.caller, a.packed);
      }
      bound.emplace(a.id, a.packed ? a.packed : a.caller);
    }
    primitive_.execute(stream(), bound);
    for (auto& a : arguments_)
      if (a.packed && a.is_output) a.move.execute(stream(), a.packed, a.caller);
    stream().wait();
  }

 private:
  struct Argument {
    int id;
    memory caller, packed;
    std::int64_t packed_bytes;
    dnnl::reorder move;
    bool is_output;
  };
  static memory unbound(const memory::desc& desc) { return memory(desc, engine(), nullptr); }

  // `packed` is the layout that the primitive uses for the argument.
  void add(int id, const memory::desc& theirs, const memory::desc& packed, bool is_output) {
    Argument argument{id, unbound(theirs), {}, 0, {}, is_output};
    if (theirs != packed) {
      argument.packed_bytes = static_cast<std::int64_t>(packed.get_size());
      argument.packed = unbound(packed);
      argument.move =
          is_output ? dnnl::reorder(argument.packed, argument.caller) : dnnl::reorder(argument.caller, argument.packed);
    }
    arguments_.push_back(std::move(argument));
  }

  dnnl::primitive primitive_;
  std::vector<Argument> arguments_;
};

// Returns the plan that build(plan) makes, or nullopt if oneDNN has no implementation.
template <class Build>
std::optional<Plan> make_plan(Build build) {
  std::optional<Plan> plan(std::in_place);
  try {
    build(*plan);
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented && error.status != dnnl_invalid_arguments)
      detail::fail("oneDNN: ", error.what());
    plan.reset();
  }
  return plan;
}

// Rejects an implementation of oneDNN that is wrong, or so slow that other code of this folder is faster. "ref" denotes
// oneDNN's plain loops for layers for which it has no kernel. They take up to 150 times as long.
template <class Desc>
void refuse(const Desc& desc, std::string_view implementation) {
  if (std::string_view(desc.impl_info_str()).starts_with(implementation))
    throw dnnl::error(dnnl_unimplemented, "oneDNN offers only an implementation that is slow or wrong");
}

inline bool supported(DType dtype) { return dtype == DType::f32 || (dtype == DType::bf16 && has_avx512()); }

inline memory::data_type type_of(DType dtype) {
  return dtype == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

inline memory::dims dims_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

}  // namespace tandem::onednn
