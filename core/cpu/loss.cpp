// Cross-entropy over the classes of (before, classes, after). One pass computes the loss and one the gradient, which
// recomputes the probabilities.
#include <tandem/core/backend/index_fault.h>
#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/cpu/softmax_rows.h>
#include <tandem/core/formulas/class_loss.h>

#include <vector>

namespace tandem {

namespace {

using cpu::for_each_lanes;
using cpu::RowMath;

// The values that are the same for every row.
template <class C>
struct Classes {
  const ClassLoss& how;
  std::int64_t count;
  const C* weight = nullptr;
  C weights;  // the sum of the weights

  Classes(const ClassLoss& how, std::int64_t count, const Array* given)
      : how(how), count(count), weights(static_cast<C>(count)) {
    if (!given) return;
    weight = given->data<C>();
    double sum = 0;
    for (std::int64_t c = 0; c < count; ++c) sum += weight[c];
    weights = static_cast<C>(sum);
  }
  RowOfClasses<C> row(std::int64_t target) const { return {how, count, target, weight, weights}; }
  C weight_of(std::int64_t c) const { return weight ? weight[c] : C(1); }
  // Returns the sum of weight[c] * x[c] over a row whose classes are `step` apart.
  template <class T>
  C weighted_sum(const T* x, std::int64_t step) const {
    C sum = 0;
    for (std::int64_t c = 0; c < count; ++c) sum += weight_of(c) * static_cast<C>(x[c * step]);
    return sum;
  }
  // Returns the loss of the row `x`, whose classes are `step` apart.
  template <class T>
  C loss(const RowOfClasses<C>& row, const T* x, std::int64_t step, std::int64_t target, C highest, C log_sum) const {
    if (row.hit == 0 && row.spread == 0) return 0;
    C loss = row.hit * (log_sum - (static_cast<C>(x[target * step]) - highest));
    if (row.spread != 0) loss += row.spread * (weights * (highest + log_sum) - weighted_sum(x, step));
    return loss;
  }
};

std::int64_t first_invalid(const ClassLoss& how, const std::int64_t* target, std::int64_t rows, std::int64_t classes) {
  for (std::int64_t r = 0; r < rows; ++r)
    if ((target[r] < 0 || target[r] >= classes) && target[r] != how.ignore_index) return r;
  return -1;
}

}  // namespace

std::int64_t CpuBackend::cross_entropy(const ClassLoss& how, const Array& x, const Array& target, const Array* weight,
                                       const Array& loss, const Array& sums, const Array& total_weight) {
  const cpu::Rows all(x);
  const std::int64_t* wanted = target.data<std::int64_t>();
  if (const auto bad_row = first_invalid(how, wanted, all.count(), all.n); bad_row >= 0) return bad_row;
  dispatch_floating(x.dtype(), "cross_entropy", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    using M = RowMath<C>;
    const T* in = static_cast<const T*>(x.raw());
    C* highest = how.is_log_probability ? nullptr : sums.data<C>();
    C* log_sum = highest + (highest ? all.count() : 0);
    const Classes<C> classes(how, all.n, weight);
    const bool is_reduced = how.reduction != LossReduction::none;
    // One loss for each row. They are summed at the end, in double and in the order of the rows.
    const Array each = is_reduced ? Array::empty({all.count()}, dtype_of<C>()) : loss;
    C* losses = each.data<C>();
    const auto cost = [&](std::int64_t r, std::int64_t at) {
      losses[r] = classes.loss(classes.row(wanted[r]), in + at, all.after, wanted[r], highest ? highest[r] : C(0),
                               highest ? log_sum[r] : C(0));
    };
    cpu::for_each_rows<C>(
        all,
        [&](std::int64_t r, std::int64_t at) {
          if (highest) {
            highest[r] = cpu::highest_of_row<C>(in + at, all.n);
            log_sum[r] = std::log(cpu::sum_of_exponentials<C>(in + at, all.n, highest[r]));
          }
          cost(r, at);
        },
        [&](std::int64_t r, std::int64_t at, std::int64_t some) {
          if (highest) {
            const auto most = cpu::highest_of_columns<C>(in + at, all.n, all.after, some);
            M::store_some(highest + r, most, some);
            M::store_some(log_sum + r,
                          M::log(cpu::sum_of_exponentials_of_columns<C>(in + at, all.n, all.after, some, most)), some);
          }
          for (std::int64_t i = 0; i < some; ++i) cost(r + i, at + i);
        });
    if (!is_reduced) return;
    double sum = 0, total = 0;
    for (std::int64_t r = 0; r < all.count(); ++r) {
      sum += losses[r];
      if (wanted[r] != how.ignore_index) total += classes.weight_of(wanted[r]);
    }
    *total_weight.data<C>() = static_cast<C>(total);
    *loss.data<C>() = static_cast<C>(how.reduction == LossReduction::mean ? sum / total : sum);
  });
  return -1;
}

void CpuBackend::cross_entropy_grad(const ClassLoss& how, const Array& x, const Array& target, const Array* weight,
                                    const Array& sums, const Array& total_weight, const Array& grad_loss,
                                    const Array& grad_x) {
  const cpu::Rows all(x);
  const std::int64_t* wanted = target.data<std::int64_t>();
  dispatch_floating(x.dtype(), "cross_entropy", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    using M = RowMath<C>;
    using V = typename M::V;
    constexpr int L = cpu::math_lanes<C>;
    const T* in = static_cast<const T*>(x.raw());
    T* out = static_cast<T*>(grad_x.raw());
    const C* highest = how.is_log_probability ? nullptr : sums.data<C>();
    const C* log_sum = highest + (highest ? all.count() : 0);
    const Classes<C> classes(how, all.n, weight);
    const C* given = grad_loss.data<C>();
    const bool is_reduced = how.reduction != LossReduction::none;
    const C divisor = how.reduction == LossReduction::mean ? *total_weight.data<C>() : C(1);
    const auto grad_of = [&](std::int64_t r) { return is_reduced ? *given / divisor : given[r]; };
    const auto row = [&](std::int64_t r, std::int64_t at) {
      const RowOfClasses<C> k = classes.row(wanted[r]);
      const C grad = grad_of(r), mass = k.mass * grad, spread = k.spread * grad;
      if (k.mass == 0 && k.spread == 0) {
        for (std::int64_t c = 0; c < all.n; ++c) out[at + c] = T(C(0));
        if (k.hit != 0) out[at + wanted[r]] = static_cast<T>(-k.hit * grad);
        return;
      }
      for_each_lanes<L>(all.n, [&](std::int64_t c, std::int64_t some) {
        V v{};
        if (highest) v = M::exp(M::load_some(in + at + c, some) - highest[r] - log_sum[r]) * mass;
        if (spread != 0) v -= classes.weight ? M::load_some(classes.weight + c, some) * spread : V{} + spread;
        M::store_some(out + at + c, v, some);
      });
      // The probability is computed from its logit, not from a probability that was rounded to 16 bits.
      const std::int64_t t = at + wanted[r];
      const C probability = highest ? std::exp(static_cast<C>(in[t]) - highest[r] - log_sum[r]) : C(0);
      out[t] = static_cast<T>(probability * mass - spread * classes.weight_of(wanted[r]) - k.hit * grad);
    };
    const auto columns = [&](std::int64_t r, std::int64_t at, std::int64_t some) {
      C hit[L] = {}, spread[L] = {}, mass[L] = {};
      cpu::mask_t<C> place[L] = {};
      for (std::int64_t i = 0; i < some; ++i) {
        const RowOfClasses<C> k = classes.row(wanted[r + i]);
        const C grad = grad_of(r + i);
        hit[i] = k.hit == 0 ? 0 : k.hit * grad;  // a gradient of NaN or infinity must not reach ignored rows
        spread[i] = k.spread == 0 ? 0 : k.spread * grad;
        mass[i] = k.mass == 0 ? 0 : k.mass * grad;
        place[i] = static_cast<cpu::mask_t<C>>(wanted[r + i]);
      }
      const V hits = M::load(hit), spreads = M::load(spread), masses = M::load(mass);
      const V most = highest ? M::load_some(highest + r, some) : V{};
      const V logs = highest ? M::load_some(log_sum + r, some) : V{};
      for (std::int64_t c = 0; c < all.n; ++c) {
        V v = -spreads * classes.weight_of(c);
        if (highest) {
          const V p = M::exp(M::load_some(in + at + c * all.after, some) - most - logs);
          v += masses == 0 ? V{} : p * masses;
        }
        if constexpr (L == 1) v -= place[0] == c ? hits : V{};
        else v -= cpu::load_raw<cpu::mask_t<C>, L>(place) == static_cast<cpu::mask_t<C>>(c) ? hits : V{};
        M::store_some(out + at + c * all.after, v, some);
      }
    };
    cpu::for_each_rows<C>(all, row, columns);
  });
}

}  // namespace tandem
