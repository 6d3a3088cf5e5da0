#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/cpu/reduce_walk.h>
#include <tandem/core/formulas/scans.h>

#include <algorithm>

namespace tandem {

void CpuBackend::scan(Scan op, const Array& x, int dim, bool reversed, const Array& y) {
  // The dimensions other than `dim`, as if `dim` were reduced.
  cpu::ReduceWalk::List lines = cpu::ReduceWalk(x, y.narrow(dim, 0, 1)).kept;
  const std::int64_t n = x.shape()[dim];
  const std::int64_t x_step = reversed ? -x.strides()[dim] : x.strides()[dim];
  const std::int64_t y_step = reversed ? -y.strides()[dim] : y.strides()[dim];
  const std::int64_t x_first = reversed ? -(n - 1) * x_step : 0, y_first = reversed ? -(n - 1) * y_step : 0;
  // Lines that are neighbours in both arrays, if there are any, become the last dimension.
  const auto end = lines.dims.begin() + lines.ndim;
  const auto neighbours =
      std::find_if(lines.dims.begin(), end, [](const auto& d) { return d.stride == 1 && d.out_stride == 1; });
  const bool columns = neighbours != end;
  if (columns) std::rotate(neighbours, neighbours + 1, end);
  const auto run = [&](auto in_type, auto out_type, auto scan) {
    using T = decltype(in_type);
    using Out = decltype(out_type);
    const T* in = static_cast<const T*>(x.raw()) + x_first;
    Out* out = static_cast<Out*>(y.raw()) + y_first;
    using Total = wide_t<T>;
    if (columns) {
      constexpr std::int64_t block = 256;  // neighbouring lines that a thread takes at a time
      const std::int64_t all = lines.dims[lines.ndim - 1].size, blocks = (all + block - 1) / block;
      cpu::parallel_for(x.numel() / n / all * blocks, x.numel(), [&](std::int64_t item) {
        const std::int64_t first = item % blocks * block, width = std::min(block, all - first);
        const T* a = in + lines.offset(item / blocks, 1) + first;
        Out* b = out + lines.out_offset(item / blocks, 1) + first;
        Total totals[block];
        std::fill_n(totals, width, scan.template first<Total>());
        for (std::int64_t i = 0; i < n; ++i, a += x_step, b += y_step) {
          for (std::int64_t j = 0; j < width; ++j) {
            totals[j] = scan(totals[j], static_cast<Total>(static_cast<compute_t<T>>(a[j])));
            b[j] = static_cast<Out>(static_cast<compute_t<Out>>(totals[j]));
          }
        }
      });
      return;
    }
    // Lines that are scanned together: their additions need not wait for each other.
    constexpr std::int64_t together = 4;
    const std::int64_t count = x.numel() / n;
    cpu::parallel_for((count + together - 1) / together, x.numel(), [&](std::int64_t item) {
      const std::int64_t first = item * together, some = std::min(together, count - first);
      const T* a[together];
      Out* b[together];
      Total totals[together];
      std::fill_n(totals, together, scan.template first<Total>());
      for (std::int64_t k = 0; k < some; ++k) {
        a[k] = in + lines.offset(first + k);
        b[k] = out + lines.out_offset(first + k);
      }
      const auto take = [&](std::int64_t k, std::int64_t i) {
        totals[k] = scan(totals[k], static_cast<Total>(static_cast<compute_t<T>>(a[k][i * x_step])));
        b[k][i * y_step] = static_cast<Out>(static_cast<compute_t<Out>>(totals[k]));
      };
      if (some == together) {
        for (std::int64_t i = 0; i < n; ++i)
          for (std::int64_t k = 0; k < together; ++k) take(k, i);
      } else {
        for (std::int64_t k = 0; k < some; ++k)
          for (std::int64_t i = 0; i < n; ++i) take(k, i);
      }
    });
  };
  dispatch(x.dtype(), [&](auto type) {
    using T = decltype(type);
    using Out = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;
    if (op == Scan::sum) run(type, Out{}, scans::Sum{});
    else run(type, Out{}, scans::Product{});
  });
}

}  // namespace tandem
