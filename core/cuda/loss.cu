// Cross-entropy with the classes of (before, classes, after). There is one pass for the loss and one for the gradient,
// which computes the probabilities again.
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/faults.h>
#include <tandem/core/formulas/class_loss.h>
#include <tandem/core/formulas/reductions.h>
#include <tandem/core/cuda/block_tree.cuh>
#include <tandem/core/cuda/index_check.cuh>
#include <tandem/core/cuda/rows.cuh>

#include <algorithm>
#include <limits>

namespace tandem {

namespace {

using cuda::Rows;
using cuda::Total;

// What is the same for every row.
template <class C>
struct Classes {
  ClassLoss how;
  const std::int64_t* target;
  const C* weight;  // null: all 1
  TANDEM_HOST_DEVICE C weight_of(std::int64_t c) const { return weight ? weight[c] : C(1); }
};

// The sum of all weights. A thread that goes over rows alone calls this once for all of its rows.
template <class C, class By>
__device__ C sum_of_weights(const By& by, const Rows& all, const Classes<C>& classes) {
  if (!classes.weight) return static_cast<C>(all.n);
  if (classes.how.label_smoothing == 0) return 0;  // without smoothing the sum is not used
  Total<C> sum;
  for (std::int64_t c = by.first; c < all.n; c += by.step) sum.value += classes.weight[c];
  by.merge(sum);
  return sum.value;
}

// What the rows add up to: the sums of their losses and weights, and the first row whose target is no class.
struct Losses {
  Sum<double> sum, weight;
  cuda::FirstPosition bad;
  TANDEM_HOST_DEVICE void merge(const Losses& other) {
    sum.merge(other.sum);
    weight.merge(other.weight);
    bad.merge(other.bad);
  }
};

// Writes the result that the Losses of all rows give. One thread calls it.
template <class C>
struct WriteLoss {
  C *loss, *total_weight;  // null when losses are not reduced
  bool is_mean;
  const char* operation;  // the host's, as fault->operation
  const std::int64_t* target;
  std::int64_t classes;
  IndexFault* fault;
  __device__ void operator()(const Losses& losses) const {
    cuda::note(fault, operation, IndexFault::Kind::target_class, losses.bad, target, classes);
    if (!loss) return;
    const double value = is_mean ? losses.sum.total / losses.weight.total : losses.sum.total;
    *loss = losses.bad.position < 0 ? static_cast<C>(value) : std::numeric_limits<C>::quiet_NaN();
    *total_weight = static_cast<C>(losses.weight.total);
  }
};

// `each` receives the loss of each row; it is null where losses are reduced.
template <class By, class C, class T>
__global__ void __launch_bounds__(1024)
    cross_entropy_rows(Rows all, Classes<C> classes, const T* x, C* sums, C* each,
                       cuda::TreeStates<Losses, Losses> states, WriteLoss<C> write) {
  const By by(all);
  const C weights = sum_of_weights(by, all, classes);
  Losses losses;
  for (std::int64_t r = by.row; r < all.count(); r += by.row_step) {
    const std::int64_t wanted = classes.target[r];
    C highest = 0, log_sum = 0;
    if (sums) {
      highest = cuda::highest_of_row<C>(by, all, r, x);
      log_sum = std::log(cuda::sum_of_exponentials(by, all, r, x, highest));
    }
    const RowOfClasses<C> k(classes.how, all.n, wanted, classes.weight, weights);
    Total<C> smooth;  // the sum of weight * x
    if (k.spread != 0) {
      for (std::int64_t c = by.first; c < all.n; c += by.step)
        smooth.value += classes.weight_of(c) * static_cast<C>(x[by.offset(all, r, c)]);
      by.merge(smooth);
    }
    if (by.first != 0) continue;
    if (sums) {
      sums[r] = highest;
      sums[all.count() + r] = log_sum;
    }
    C loss = 0;
    if (wanted >= 0 && wanted < all.n) {
      if (wanted != classes.how.ignore_index) {
        loss = k.hit * (log_sum - (static_cast<C>(x[by.offset(all, r, wanted)]) - highest));
        if (k.spread != 0) loss += k.spread * (weights * (highest + log_sum) - smooth.value);
        losses.sum.add(loss, r);
        losses.weight.add(classes.weight_of(wanted), r);
      }
    } else if (wanted != classes.how.ignore_index) {
      losses.bad.add(r);
      loss = std::numeric_limits<C>::quiet_NaN();
    }
    if (each) each[r] = loss;
  }
  cuda::merge_block(losses);
  cuda::merge_blocks(blockIdx.x, gridDim.x, losses, states, write);
}

template <class By, class C, class T>
__global__ void cross_entropy_grad_rows(Rows all, Classes<C> classes, const T* x, const C* sums, const C* total_weight,
                                        const C* grad_loss, T* grad) {
  const By by(all);
  const C weights = sum_of_weights(by, all, classes);
  const bool is_reduced = classes.how.reduction != LossReduction::none;
  const C divisor = classes.how.reduction == LossReduction::mean ? *total_weight : C(1);
  for (std::int64_t r = by.row; r < all.count(); r += by.row_step) {
    const std::int64_t wanted = classes.target[r];
    const RowOfClasses<C> k(classes.how, all.n, wanted, classes.weight, weights);
    const C given = is_reduced ? *grad_loss / divisor : grad_loss[r];
    for (std::int64_t c = by.first; c < all.n; c += by.step) {
      const std::int64_t at = by.offset(all, r, c);
      C g = 0;  // a gradient of NaN or infinity must not reach ignored rows
      if (k.mass != 0) g += std::exp(static_cast<C>(x[at]) - sums[r] - sums[all.count() + r]) * k.mass * given;
      if (k.spread != 0) g -= k.spread * classes.weight_of(c) * given;
      if (c == wanted && k.hit != 0) g -= k.hit * given;
      grad[at] = static_cast<T>(g);
    }
  }
}

template <class C>
Classes<C> classes_of(const ClassLoss& how, const Array& target, const Array* weight) {
  return {how, static_cast<const std::int64_t*>(target.raw()), weight ? static_cast<const C*>(weight->raw()) : nullptr};
}

template <class C>
C* pointer(const Array& array) {
  return array.defined() ? static_cast<C*>(array.raw()) : nullptr;
}

}  // namespace

// Returns before the work is done. A target that is no class is noted for the next synchronisation.
std::int64_t CudaBackend::cross_entropy(const ClassLoss& how, const Array& x, const Array& target, const Array* weight,
                                        const Array& loss, const Array& sums, const Array& total_weight) {
  const Rows all(x);
  // A small batch with few classes is enough work for one block only, which then need not merge with others.
  const bool is_small = all.is_for_warps() && all.count() * ((all.n + 31) / 32) <= 256;
  const dim3 blocks = is_small ? dim3(1) : all.blocks();
  const dim3 block(is_small ? static_cast<unsigned>(std::clamp<std::int64_t>(all.count(), 1, 32)) * 32
                            : cuda::row_threads);
  const cuda::TreeMemory<Losses, Losses> memory(blocks.x, 1, x.device());
  const bool is_reduced = how.reduction != LossReduction::none;
  dispatch_floating(x.dtype(), "cross_entropy", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    const Classes<C> classes = classes_of<C>(how, target, weight);
    const WriteLoss<C> write{is_reduced ? pointer<C>(loss) : nullptr,
                             is_reduced ? pointer<C>(total_weight) : nullptr,
                             how.reduction == LossReduction::mean,
                             how.is_log_probability ? "nll_loss" : "cross_entropy",
                             classes.target,
                             all.n,
                             cuda::fault_of(index_)};
    cuda::launch(all.is_for_warps() ? cross_entropy_rows<cuda::ByWarp, C, T> : cross_entropy_rows<cuda::ByThread, C, T>,
                 blocks, block, all, classes, static_cast<const T*>(x.raw()), pointer<C>(sums),
                 is_reduced ? nullptr : pointer<C>(loss), memory.states(), write);
  });
  return -1;
}

void CudaBackend::cross_entropy_grad(const ClassLoss& how, const Array& x, const Array& target, const Array* weight,
                                     const Array& sums, const Array& total_weight, const Array& grad_loss,
                                     const Array& grad_x) {
  const Rows all(x);
  const bool by_warps = all.after == 1;  // also where rows are short: threads that each write a row take longer
  dispatch_floating(x.dtype(), "cross_entropy", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    cuda::launch(by_warps ? cross_entropy_grad_rows<cuda::ByWarp, C, T> : cross_entropy_grad_rows<cuda::ByThread, C, T>,
                 all.blocks(by_warps), dim3(cuda::row_threads), all, classes_of<C>(how, target, weight),
                 static_cast<const T*>(x.raw()), pointer<const C>(sums), pointer<const C>(total_weight),
                 static_cast<const C*>(grad_loss.raw()), static_cast<T*>(grad_x.raw()));
  });
}

}  // namespace tandem
