// Computes cross-entropy over the classes of (before, classes, after). One pass computes the loss. Another computes the
// gradient, and computes the probabilities again.
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/faults.h>
#include <tandem/core/formulas/class_loss.h>
#include <tandem/core/formulas/reductions.h>
#include <tandem/core/cuda/block_tree.cuh>
#include <tandem/core/cuda/channels.cuh>
#include <tandem/core/cuda/index_check.cuh>
#include <tandem/core/cuda/rows.cuh>

#include <algorithm>
#include <limits>

namespace tandem {

namespace {

using cuda::Rows;
using cuda::Total;

// The settings that are the same for every row.
template <class C>
struct Classes {
  ClassLoss how;
  const std::int64_t* target;
  const C* weight;  // null: all 1
  TANDEM_HOST_DEVICE C weight_of(std::int64_t c) const { return weight ? weight[c] : C(1); }
};

// The sum of all weights. A thread that processes whole rows by itself calls this once for all of its rows.
template <class C, class By>
__device__ C sum_of_weights(const By& by, const Rows& all, const Classes<C>& classes) {
  if (!classes.weight) return static_cast<C>(all.n);
  if (classes.how.label_smoothing == 0) return 0;  // without smoothing the sum is not used
  Total<C> sum;
  for (std::int64_t c = by.first; c < all.n; c += by.step) sum.value += classes.weight[c];
  by.merge(sum);
  return sum.value;
}

// The totals over the rows: the sums of their losses and weights, and the first row whose target is not a class.
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
  C *loss, *total_weight;  // null if losses are not reduced
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

// `each` receives the loss of each row; it is null if losses are reduced. `sums` receives the highest logit of each
// row, and then the logarithm of the sum of exp(logit - highest) of each row, for the gradient. `sums` is null if x has
// log probabilities instead of logits.
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

// The gradient of each row's loss.
template <class C>
struct GivenGradient {
  const C* of_row;  // null if losses are reduced
  C of_all = 0;
  __device__ GivenGradient(const ClassLoss& how, const C* grad_loss, const C* total_weight)
      : of_row(how.reduction == LossReduction::none ? grad_loss : nullptr) {
    if (!of_row) of_all = *grad_loss / (how.reduction == LossReduction::mean ? *total_weight : C(1));
  }
};

// The factors that the gradients of a row's numbers share.
template <class C>
struct RowGradient {
  std::int64_t wanted;
  RowOfClasses<C> k;
  C highest, log_sum, given;
  __device__ RowGradient(const Rows& all, const Classes<C>& classes, C weights, const C* sums,
                         const GivenGradient<C>& grad_loss, std::int64_t r)
      : wanted(classes.target[r]),
        k(classes.how, all.n, wanted, classes.weight, weights),
        highest(sums ? sums[r] : C(0)),
        log_sum(sums ? sums[all.count() + r] : C(0)),
        given(grad_loss.of_row ? grad_loss.of_row[r] : grad_loss.of_all) {}

  // Returns the gradient of x, the logit (or log probability) of class c.
  __device__ C operator()(const Classes<C>& classes, std::int64_t c, C x) const {
    C g = 0;  // a gradient of NaN or infinity must not reach ignored rows
    if (k.mass != 0) g += std::exp(x - highest - log_sum) * k.mass * given;
    if (k.spread != 0) g -= k.spread * classes.weight_of(c) * given;
    if (c == wanted && k.hit != 0) g -= k.hit * given;
    return g;
  }
};

// For rows whose numbers are neighbours in memory. A thread takes `lanes` neighbours, which belong to one row or to
// two.
template <int lanes, class C, class T>
__global__ void cross_entropy_grad_packs(Rows all, Classes<C> classes, const T* x, const C* sums, const C* total_weight,
                                         const C* grad_loss, T* grad) {
  const C weights = sum_of_weights(cuda::ByWarp(all), all, classes);
  const GivenGradient<C> given(classes.how, grad_loss, total_weight);
  const std::int64_t numel = all.count() * all.n, step = static_cast<std::int64_t>(gridDim.x) * blockDim.x * lanes;
  const std::int64_t rows_of_step = step / all.n, rest_of_step = step % all.n;
  std::int64_t at = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * lanes;
  for (std::int64_t r = at / all.n, first = at % all.n; at < numel; at += step) {
    const auto logits = cuda::load<lanes>(x + at);
    const RowGradient<C> row(all, classes, weights, sums, given, r);
    const RowGradient<C> next(all, classes, weights, sums, given, first + lanes > all.n ? r + 1 : r);
    cuda::Numbers<C, lanes> grads;
    for (int j = 0; j < lanes; ++j) {
      const std::int64_t c = first + j;
      grads[j] = c < all.n ? row(classes, c, logits[j]) : next(classes, c - all.n, logits[j]);
    }
    cuda::store<lanes>(grad + at, grads);
    r += rows_of_step;
    first += rest_of_step;
    if (first >= all.n) {
      first -= all.n;
      ++r;
    }
  }
}

// For all other rows. Neighbouring threads take neighbouring rows.
template <class C, class T>
__global__ void cross_entropy_grad_rows(Rows all, Classes<C> classes, const T* x, const C* sums, const C* total_weight,
                                        const C* grad_loss, T* grad) {
  const cuda::ByThread by(all);
  const C weights = sum_of_weights(by, all, classes);
  const GivenGradient<C> given(classes.how, grad_loss, total_weight);
  for (std::int64_t r = by.row; r < all.count(); r += by.row_step) {
    const RowGradient<C> row(all, classes, weights, sums, given, r);
    for (std::int64_t c = 0; c < all.n; ++c) {
      const std::int64_t at = by.offset(all, r, c);
      grad[at] = static_cast<T>(row(classes, c, static_cast<C>(x[at])));
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

// Returns before the work is done. A target that is not a class is noted for the next synchronisation.
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
  if (x.numel() == 0) return;
  dispatch_floating(x.dtype(), "cross_entropy", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    const auto run = [&](auto kernel, const dim3& blocks) {
      cuda::launch(kernel, blocks, dim3(cuda::row_threads), all, classes_of<C>(how, target, weight),
                   static_cast<const T*>(x.raw()), pointer<const C>(sums), pointer<const C>(total_weight),
                   static_cast<const C*>(grad_loss.raw()), static_cast<T*>(grad_x.raw()));
    };
    if (all.after != 1) return run(cross_entropy_grad_rows<C, T>, all.blocks(false));
    constexpr std::int64_t fewest = 16 / sizeof(T);  // classes with which a pack has at most two rows
    cuda::with_lanes<T>(
        all.n < fewest ? 1 : x.numel(),
        [&](auto lanes) {
          run(cross_entropy_grad_packs<lanes, C, T>,
              cuda::blocks_for(x.numel() / lanes, cuda::row_threads, 8 * cuda::multiprocessors));
        },
        x, grad_x);
  });
}

}  // namespace tandem
