#include <tandem/core/cpu/matmul_method.h>
#include <tandem/core/cpu/onednn.h>
#include <tandem/core/cpu/onednn_plan.h>
#include <tandem/core/device/plan_cache.h>

#include <omp.h>

namespace tandem::onednn {

bool has_avx512() {
  static const bool has = dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core;
  return has;
}

bool has_fast_bf16() {
  static const bool has = has_avx512() && (__builtin_cpu_supports("amx-bf16") || !__builtin_cpu_is("intel"));
  return has;
}

bool matmul(const Array& a, const Array& b, const std::optional<Array>& bias, const Array& y) {
  if (a.dtype() == DType::bf16 && !has_fast_bf16()) return false;
  if (!supported(a.dtype()) || a.dtype() != b.dtype() || (bias && bias->dtype() != DType::f32)) return false;
  const int ndim = a.ndim();
  // A primitive divides its work among threads when it is made.
  CallKey key(omp_get_max_threads(), a.dtype(), y.dtype(), bias.has_value());
  for (const Array* m : {&a, &b, &y}) {
    const MatrixLayout layout = *matrix_layout(*m);
    key.add(m->shape());
    if (ndim == 3) key.add(m->strides()[0]);
    key.add(layout.transposed ? -layout.leading : layout.leading);
  }
  thread_local PlanCache<std::optional<Plan>, 1024> plans;  // each has machine code of its own
  const auto build = [&](Plan& p) {
    const auto matrices = [](const Array& m) {
      const MatrixLayout layout = *matrix_layout(m);
      memory::dims sizes = dims_of(m.shape()), strides;
      if (m.ndim() == 3) {
        // A batch stride of 0 means one matrix for the whole batch.
        if (m.strides()[0] == 0) sizes[0] = 1;
        strides.push_back(sizes[0] == 1 ? sizes[1] * sizes[2] : m.strides()[0]);
      }
      strides.push_back(layout.transposed ? 1 : layout.leading);
      strides.push_back(layout.transposed ? layout.leading : 1);
      return memory::desc(sizes, type_of(m.dtype()), strides);
    };
    memory::dims row_sizes(static_cast<std::size_t>(ndim), 1);
    row_sizes.back() = b.dim(-1);
    const auto row =
        bias ? memory::desc(row_sizes, memory::data_type::f32, memory::dims(static_cast<std::size_t>(ndim), 1))
             : memory::desc();
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc desc(engine(), matrices(a), matrices(b), row, matrices(y));
#else
    const dnnl::matmul::primitive_desc desc({matrices(a), matrices(b), row, matrices(y)}, engine());
#endif
    refuse(desc, "ref");
    p.set_primitive(dnnl::matmul(desc));
    p.add_input(DNNL_ARG_SRC, matrices(a), desc.src_desc());
    p.add_input(DNNL_ARG_WEIGHTS, matrices(b), desc.weights_desc());
    p.add_output(DNNL_ARG_DST, matrices(y), desc.dst_desc());
    if (bias) p.add_input(DNNL_ARG_BIAS, row, desc.bias_desc());
  };
  auto& plan = plans.get(key, [&] { return std::make_unique<std::optional<Plan>>(make_plan(build)); });
  if (!plan) return false;
  plan->execute({a.raw(), b.raw(), y.raw(), bias ? bias->contiguous().raw() : nullptr});
  return true;
}

namespace {

void gemm(const cpu::Gemm& g) {
  const auto status =
      dnnl_sgemm(g.a_layout.transposed ? 'T' : 'N', g.b_layout.transposed ? 'T' : 'N', g.rows, g.columns, g.inner,
                 g.alpha, g.a, g.a_layout.leading, g.b, g.b_layout.leading, g.beta, g.y, g.y_leading);
  if (status != dnnl_success) detail::fail("oneDNN: sgemm failed with status ", static_cast<int>(status));
}

}  // namespace
}  // namespace tandem::onednn

namespace tandem {

void add_onednn() { cpu::matmul_methods.add({onednn::gemm, onednn::matmul}); }

}  // namespace tandem
