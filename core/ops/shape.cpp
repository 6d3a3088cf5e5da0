#include <tandem/core/array/array.h>
#include <tandem/core/backend/backend.h>
#include <tandem/core/ops/create.h>
#include <tandem/core/ops/elementwise.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/core/ops/shape.h>

#include <algorithm>

namespace tandem::ops {

namespace {

// Writes to a part of a new Array. The storage's version need not change, because autograd has not saved the Array yet.
void write(const Array& from, const Array& part) {
  if (part.numel() > 0) backend(part.device()).copy(from.expand(part.shape()), part);
}

bool is_skipped(const Array& x) { return x.ndim() == 1 && x.shape()[0] == 0; }

std::int64_t sum_of_sizes(std::int64_t a, std::int64_t b, const char* operation) {
  std::int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) detail::fail(operation, ": a size does not fit in 64 bits");
  return sum;
}

}  // namespace

Array cat(std::span<const Array> inputs, std::int64_t dim) {
  TANDEM_CHECK(!inputs.empty(), "cat: needs at least one array");
  DType dtype = inputs[0].dtype();
  const Array* first = nullptr;
  std::size_t number = 0;
  for (const Array& x : inputs) {
    dtype = promote(dtype, x.dtype());
    TANDEM_CHECK(x.device() == inputs[0].device(), "cat: arrays are on ", inputs[0].device(), " and ", x.device());
    TANDEM_CHECK(x.ndim() > 0, "cat: array ", number, " is a scalar; use stack to join scalars");
    if (!first && !is_skipped(x)) first = &x;
    ++number;
  }
  if (!first) {
    normalize_dim(dim, 1);
    return Array::empty({0}, dtype, inputs[0].device());
  }
  Shape shape = first->shape();
  const int d = normalize_dim(dim, shape.ndim());
  shape[d] = 0;
  number = 0;
  for (const Array& x : inputs) {
    if (!is_skipped(x)) {
      Shape expected = first->shape();
      if (x.ndim() == expected.ndim()) expected[d] = x.shape()[d];
      TANDEM_CHECK(x.shape() == expected, "cat: array ", number, " is ", x.shape(), ", the first ", first->shape(),
                   "; all sizes except that of dimension ", d, " must be equal");
      shape[d] = sum_of_sizes(shape[d], x.shape()[d], "cat");
    }
    ++number;
  }
  std::vector<Array> parts;
  parts.reserve(inputs.size());
  for (const Array& x : inputs)
    if (!is_skipped(x)) parts.push_back(x);
  if (std::ranges::all_of(parts, [](const Array& x) { return x.is_channels_last() && !x.is_contiguous(); })) {
    // Images are concatenated in their memory order.
    for (Array& part : parts) part = part.permute({0, 2, 3, 1});
    const int place[] = {0, 3, 1, 2};
    return cat(parts, place[d]).permute({0, 3, 1, 2});
  }
  const Array y = Array::empty(shape, dtype, first->device());
  if (backend(y.device()).cat(parts, d, y)) return y;
  std::int64_t at = 0;
  for (const Array& part : parts) {
    y.narrow(d, at, part.shape()[d]).copy_from(part);
    at += part.shape()[d];
  }
  return y;
}

Array stack(std::span<const Array> inputs, std::int64_t dim) {
  TANDEM_CHECK(!inputs.empty(), "stack: needs at least one array");
  std::vector<Array> rows;
  rows.reserve(inputs.size());
  for (const Array& x : inputs) {
    TANDEM_CHECK(x.shape() == inputs[0].shape(), "stack: array ", rows.size(), " is ", x.shape(), ", the first ",
                 inputs[0].shape(), "; all shapes must be equal");
    rows.push_back(x.unsqueeze(dim));
  }
  return cat(rows, dim);
}

namespace {

struct Sides {
  std::int64_t before = 0, after = 0;
};

// Returns the padding of each dimension of `shape`. Throws an Error unless there are enough elements to mirror or to
// copy from the opposite side.
std::array<Sides, Dims::max_ndim> sides_of(const Shape& shape, const Padding& padding, PadMode mode) {
  const auto pairs = static_cast<int>(padding.size() / 2);
  TANDEM_CHECK(padding.size() % 2 == 0 && padding.size() / 2 <= static_cast<std::size_t>(shape.ndim()), "pad: needs ",
               "two numbers per dimension, starting with the last dimension, got ", padding.size(), " for ", shape);
  std::array<Sides, Dims::max_ndim> sides;
  for (int i = 0; i < pairs; ++i) {
    const int d = shape.ndim() - 1 - i;
    const std::int64_t size = shape[d];
    const Sides s{padding[static_cast<std::size_t>(2 * i)], padding[static_cast<std::size_t>(2 * i) + 1]};
    sides[static_cast<std::size_t>(d)] = s;
    if (mode == PadMode::constant) {
      const std::int64_t padded = sum_of_sizes(sum_of_sizes(size, s.before, "pad"), s.after, "pad");
      TANDEM_CHECK(padded >= 0 && s.before >= -size && s.after >= -size, "pad: ", s.before, " before and ", s.after,
                   " after leave nothing of dimension ", d, " of ", shape);
      continue;
    }
    const std::int64_t most = mode == PadMode::reflect    ? std::max<std::int64_t>(size - 1, 0)
                              : mode == PadMode::circular ? size
                                                          : Array::to_end;
    const char* rule = mode == PadMode::reflect ? "; reflection must be less than the size"
                                                : "; circular padding must be no more than the size";
    TANDEM_CHECK(s.before >= 0 && s.after >= 0, "pad: only constant padding may be negative, got ", s.before, " and ",
                 s.after, " for dimension ", d, " of ", shape);
    TANDEM_CHECK(s.before <= most && s.after <= most, "pad: ", s.before, " before and ", s.after,
                 " after are too many for dimension ", d, " of ", shape, rule);
    TANDEM_CHECK(size > 0 || (s.before == 0 && s.after == 0), "pad: dimension ", d, " of ", shape, " has no edge");
    sum_of_sizes(sum_of_sizes(size, s.before, "pad"), s.after, "pad");
  }
  return sides;
}

// Calls f(outside, inside) for both sides of dimension d of `y`. `outside` is the part of `y` beyond the middle `size`
// elements. `inside` contains the elements of the middle that `outside` repeats, in the same order.
template <class F>
void for_both_sides(const Array& y, int d, std::int64_t size, const Sides& s, PadMode mode, F f) {
  const Array low = y.narrow(d, 0, s.before), high = y.narrow(d, s.before + size, s.after);
  switch (mode) {
    case PadMode::reflect:
      f(low, y.narrow(d, s.before + 1, s.before).reversed(d));
      f(high, y.narrow(d, s.before + size - 1 - s.after, s.after).reversed(d));
      break;
    case PadMode::circular:
      f(low, y.narrow(d, size, s.before));
      f(high, y.narrow(d, s.before, s.after));
      break;
    default: f(low, y.narrow(d, s.before, 1)); f(high, y.narrow(d, s.before + size - 1, 1));
  }
}

Shape padded_shape(const Shape& shape, const std::array<Sides, Dims::max_ndim>& sides) {
  Shape result = shape;
  for (int d = 0; d < shape.ndim(); ++d)
    result[d] += sides[static_cast<std::size_t>(d)].before + sides[static_cast<std::size_t>(d)].after;
  return result;
}

// Returns the part of x that is not cut off, and the part of y that corresponds to it.
std::pair<Array, Array> overlap(const Array& x, const Array& y, const std::array<Sides, Dims::max_ndim>& sides) {
  Array in_x = x, in_y = y;
  for (int d = 0; d < x.ndim(); ++d) {
    const Sides& s = sides[static_cast<std::size_t>(d)];
    const std::int64_t cut_before = std::max<std::int64_t>(-s.before, 0),
                       cut_after = std::max<std::int64_t>(-s.after, 0);
    const std::int64_t left = std::max<std::int64_t>(x.shape()[d] - cut_before - cut_after, 0);
    // If y consists only of padding, no element of x is left.
    in_x = in_x.narrow(d, left > 0 ? cut_before : 0, left);
    in_y = in_y.narrow(d, left > 0 ? std::max<std::int64_t>(s.before, 0) : 0, left);
  }
  return {in_x, in_y};
}

}  // namespace

Array pad(const Array& x, const Padding& padding, PadMode mode, Number number) {
  const double value = number.value;
  TANDEM_CHECK(can_hold(x.dtype(), value), "pad: ", value, " can't be represented as ", x.dtype());
  const auto sides = sides_of(x.shape(), padding, mode);
  const Shape shape = padded_shape(x.shape(), sides);
  const bool is_image = x.is_channels_last() && !x.is_contiguous();
  const Array y =
      is_image ? Array::empty_channels_last(shape, x.dtype(), x.device()) : Array::empty(shape, x.dtype(), x.device());
  if (y.numel() == 0) return y;
  const auto [source, middle] = overlap(x, y, sides);
  write(source, middle);
  // Fills dimension by dimension, starting with the first. The sides repeat everything that has been written so far.
  Array done = y;
  for (int d = 0; d < x.ndim(); ++d) {
    const Sides& s = sides[static_cast<std::size_t>(d)];
    done = done.narrow(d, std::max<std::int64_t>(s.before, 0), middle.shape()[d]);
  }
  for (int d = 0; d < x.ndim(); ++d) {
    const Sides& s = sides[static_cast<std::size_t>(d)];
    if (done.shape()[d] == shape[d]) continue;
    Array wider = y;
    for (int e = d + 1; e < x.ndim(); ++e)
      wider = wider.narrow(e, std::max<std::int64_t>(sides[static_cast<std::size_t>(e)].before, 0), middle.shape()[e]);
    if (mode == PadMode::constant) {
      const std::int64_t before = std::max<std::int64_t>(s.before, 0), end = before + middle.shape()[d];
      for (const Array& side : {wider.narrow(d, 0, before), wider.narrow(d, end, shape[d] - end)})
        if (side.numel() > 0) backend(y.device()).fill(side, value);
    } else {
      for_both_sides(wider, d, x.shape()[d], s, mode,
                     [](const Array& outside, const Array& inside) { write(inside, outside); });
    }
    done = wider;
  }
  return y;
}

Array pad_grad(const Array& grad, const Shape& shape, const Padding& padding, PadMode mode) {
  const auto sides = sides_of(shape, padding, mode);
  if (mode == PadMode::constant) {
    Array result = zeros(shape, grad.dtype(), grad.device());
    const auto [in_x, in_y] = overlap(result, grad, sides);
    write(in_y, in_x);
    return result;
  }
  Array rest = grad.clone();
  for (int d = shape.ndim() - 1; d >= 0; --d) {
    const Sides& s = sides[static_cast<std::size_t>(d)];
    if (s.before == 0 && s.after == 0) continue;
    for_both_sides(rest, d, shape[d], s, mode, [&](const Array& outside, Array inside) {
      if (outside.numel() > 0) add_(inside, mode == PadMode::replicate ? sum_to(outside, inside.shape()) : outside);
    });
    rest = rest.narrow(d, s.before, shape[d]);
  }
  return rest;
}

Array roll(const Array& x, const Dims& shifts, const Dims& dims) {
  if (dims.ndim() == 0) {
    TANDEM_CHECK(shifts.ndim() == 1, "roll: without dimensions, expected one shift, got ", shifts);
    return roll(x.reshape({-1}), shifts, {0}).reshape(x.shape());
  }
  TANDEM_CHECK(shifts.ndim() == dims.ndim(), "roll: shifts ", shifts, " and dimensions ", dims,
               " must have the same length");
  Dims by = Dims::filled(x.ndim(), 0);
  for (int i = 0; i < dims.ndim(); ++i) {
    const int d = normalize_dim(dims[i], x.ndim());
    if (x.shape()[d] > 0) by[d] = (by[d] + shifts[i] % x.shape()[d] + x.shape()[d]) % x.shape()[d];
  }
  const Array y = empty_like(x);
  if (y.numel() == 0) return y;
  // Each shifted dimension consists of two runs, each of which moves as a whole.
  unsigned shifted = 0;
  for (int d = 0; d < x.ndim(); ++d) shifted |= (by[d] > 0 ? 1u : 0u) << d;
  for (unsigned part = 0;; part = (part - shifted) & shifted) {
    Array from = x, to = y;
    for (int d = 0; d < x.ndim(); ++d) {
      if (by[d] == 0) continue;
      const std::int64_t stays = x.shape()[d] - by[d];
      const bool second = part >> d & 1u;
      from = second ? from.narrow(d, stays, by[d]) : from.narrow(d, 0, stays);
      to = second ? to.narrow(d, 0, by[d]) : to.narrow(d, by[d], stays);
    }
    write(from, to);
    if (part == shifted) return y;
  }
}

Array flip(const Array& x, const Dims& dims) {
  Array backwards = x;
  const unsigned reversed = mask_of(dims, x.ndim(), "flip");
  for (int d = 0; d < x.ndim(); ++d)
    if (reversed >> d & 1u) backwards = backwards.reversed(d);
  const Array y = empty_like(x);
  write(backwards, y);
  return y;
}

Array repeat(const Array& x, const Dims& repeats) {
  TANDEM_CHECK(repeats.ndim() >= x.ndim(), "repeat: ", repeats, " must have a number for each dimension of ",
               x.shape());
  const int lead = repeats.ndim() - x.ndim();
  Shape shape, first = Dims::filled(lead, 1);
  for (const auto size : x.shape()) first.push_back(size);
  for (int d = 0; d < repeats.ndim(); ++d) {
    TANDEM_CHECK(repeats[d] >= 0, "repeat: ", repeats, " has a negative number");
    shape.push_back(Dims{first[d], repeats[d]}.product());
  }
  const Array y = Array::empty(shape, x.dtype(), x.device());
  if (y.numel() == 0) return y;
  Array done = y;
  for (int d = 0; d < shape.ndim(); ++d) done = done.narrow(d, 0, first[d]);
  write(x, done);
  // Starts with the last dimension and fills each dimension by doubling. This needs few copies, and each copies long
  // runs.
  for (int d = shape.ndim() - 1; d >= 0; --d) {
    Array row = y;
    for (int e = 0; e < d; ++e) row = row.narrow(e, 0, first[e]);
    for (std::int64_t n = first[d]; n < shape[d];) {
      const std::int64_t more = std::min(n, shape[d] - n);
      write(row.narrow(d, 0, more), row.narrow(d, n, more));
      n += more;
    }
  }
  return y;
}

namespace {

// Returns the product of the sizes before dimension d, and the product of those after it.
std::pair<std::int64_t, std::int64_t> around(const Shape& shape, int d) {
  Shape before, after;
  for (int i = 0; i < shape.ndim(); ++i)
    if (i != d) (i < d ? before : after).push_back(shape[i]);
  return {before.product(), after.product()};
}

}  // namespace

Array repeat_grad(const Array& grad, const Shape& shape, const Dims& repeats) {
  const int lead = repeats.ndim() - shape.ndim();
  Array rest = grad;
  Shape now = grad.shape();
  for (int d = 0; d < repeats.ndim(); ++d) {
    now[d] = d < lead ? 1 : shape[d - lead];
    if (repeats[d] == 1) continue;
    const auto [before, after] = around(now, d);
    // `before` is the number of rows that remain from earlier iterations.
    const std::int64_t run = Dims{now[d], after}.product();
    rest = sum_to(rest.reshape({before, repeats[d], run}), {before, 1, run}).reshape(now);
  }
  return rest.reshape(shape);
}

Array repeat_interleave(const Array& x, std::int64_t repeats, std::int64_t dim) {
  TANDEM_CHECK(repeats >= 0, "repeat_interleave: the number of repeats must not be negative, got ", repeats);
  const int d = normalize_dim(dim, x.ndim());
  Shape shape = x.shape();
  shape[d] = Dims{shape[d], repeats}.product();
  const Array y = Array::empty(shape, x.dtype(), x.device());
  if (y.numel() == 0) return y;
  const auto [before, after] = around(x.shape(), d);
  const std::int64_t rows = Dims{before, x.shape()[d]}.product();
  write(x.reshape({rows, 1, after}), y.reshape({rows, repeats, after}));
  return y;
}

Array repeat_interleave_grad(const Array& grad, const Shape& shape, std::int64_t repeats, std::int64_t dim) {
  const auto [before, after] = around(shape, normalize_dim(dim, shape.ndim()));
  const std::int64_t rows = Dims{before, shape[normalize_dim(dim, shape.ndim())]}.product();
  return sum_to(grad.reshape({rows, repeats, after}), {rows, 1, after}).reshape(shape);
}

namespace {

Array triangle(const Array& x, std::int64_t diagonal, bool keep_upper, const char* operation) {
  TANDEM_CHECK(x.ndim() >= 2, operation, ": needs (..., M, N), got ", x.shape());
  Array y = Array::empty(x.shape(), x.dtype(), x.device());
  if (y.numel() == 0) return y;
  const std::int64_t rows = x.dim(-2), columns = x.dim(-1);
  const Shape matrices{x.numel() / (rows * columns), rows, columns};
  backend(x.device())
      .triangle(x.contiguous().reshape(matrices), std::clamp(diagonal, -rows, columns), keep_upper,
                y.reshape(matrices));
  return y;
}

}  // namespace

Array tril(const Array& x, std::int64_t diagonal) { return triangle(x, diagonal, false, "tril"); }
Array triu(const Array& x, std::int64_t diagonal) { return triangle(x, diagonal, true, "triu"); }

}  // namespace tandem::ops
