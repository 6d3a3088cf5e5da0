// Tests every element-wise operation, in every dtype and layout.
#include <tandem/core/ops.h>

#ifdef TANDEM_EMULATED_CUDA
#include <tandem/core/cuda/loops.cuh>
#endif

#include <gtest/gtest.h>

#include <limits>
#include <string_view>
#include <typeinfo>

#include "conformance/compare.h"

namespace tandem {
namespace {

using testing::all_dtypes;
using testing::expect_same;
using testing::floating_dtypes;
using testing::gpu;
using testing::machine_epsilon;
using testing::numbers;

// A view of an array of shape (4, 5, 6, 7). Both devices create the same view.
struct Layout {
  const char* name;
  Array (*view)(const Array& base);
};
const Layout layouts[] = {
    {"dense", [](const Array& a) { return a; }},
    {"transposed",
     [](const Array& a) {
       return a.permute({3, 1, 0, 2});
     }},
    {"channels last",
     [](const Array& a) {
       return a.permute({0, 3, 1, 2});
     }},
    {"sliced", [](const Array& a) { return a.slice(0, 1, 3).slice(2, 1, 5).slice(3, 2, 7); }},
    {"dense but not aligned", [](const Array& a) { return a.reshape({-1}).slice(0, 1, 840); }},
    {"repeated",
     [](const Array& a) {
       return a.slice(1, 2, 3).slice(3, 0, 1).expand({4, 5, 6, 7});
     }},
    {"empty", [](const Array& a) { return a.slice(1, 0, 0); }},
    {"one element", [](const Array& a) { return a.slice(0, 0, 1).slice(1, 1, 2).slice(2, 2, 3).slice(3, 3, 4); }},
    {"a scalar", [](const Array& a) { return a.select(0, 1).select(0, 1).select(0, 1).select(0, 1); }},
};

// Floating arrays begin with numbers that are easy to get wrong.
Array base(DType dtype, unsigned seed) {
  Array a = numbers({4, 5, 6, 7}, seed, dtype);
  if (!is_floating(dtype)) return a;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double special[] = {0, -0.0, infinity, -infinity, std::numeric_limits<double>::quiet_NaN()};
  Array flat = a.reshape({-1});
  // `seed` shifts the special numbers, so that they meet different numbers in the other operand
  for (std::int64_t i = 0; i < 5; ++i) flat.slice(0, 3 * i + seed, 3 * i + seed + 1).fill(special[i]);
  return a;
}

// Calls f(op) for each alternative of a variant, so new operations are tested too.
template <class Variant, class F, std::size_t... I>
void for_each_op(F f, std::index_sequence<I...>) {
  (f(std::variant_alternative_t<I, Variant>{}), ...);
}
template <class Variant, class F>
void for_each_op(F f) {
  for_each_op<Variant>(f, std::make_index_sequence<std::variant_size_v<Variant>>{});
}

// Allows one rounding of 16-bit results, which are computed in f32. In f32 and f64, exp and similar functions may
// differ in the last bits on either device, and a product may or may not be rounded before an addition.
void expect_near(const Array& expected, const Array& found) {
  const DType dtype = expected.dtype();
  const bool is_16_bit = size_of(dtype) == 2;
  expect_same(expected, found, (is_16_bit ? 1 : 4) * machine_epsilon(dtype), is_16_bit ? 0x1p-8 : 1);
}

TEST(CudaElementwise, MapsAsTheCpu) {
  for_each_op<UnaryOp>([](auto op) {
    if constexpr (std::is_same_v<decltype(op), functors::Affine>) op = {3, 2};
    for (const DType dtype : all_dtypes) {
      if (dtype == DType::boolean) continue;
      const Array here = base(dtype, 1), there = here.to(gpu);
      for (const auto& [name, view] : layouts) {
        SCOPED_TRACE(::testing::Message() << typeid(op).name() << ' ' << dtype << ", " << name);
        expect_near(ops::map(op, view(here)), ops::map(op, view(there)));
      }
    }
  });
}

TEST(CudaElementwise, MapGradientsAreTheCpus) {
  for_each_op<UnaryOp>([](auto op) {
    for (const DType dtype : floating_dtypes) {
      const Array saved = base(dtype, 1), saved_there = saved.to(gpu);
      const Array grad = base(dtype, 2), grad_there = grad.to(gpu);
      for (const auto& [name, view] : layouts) {
        SCOPED_TRACE(::testing::Message() << typeid(op).name() << ' ' << dtype << ", " << name);
        expect_near(ops::map_grad(op, view(saved), view(grad)), ops::map_grad(op, view(saved_there), view(grad_there)));
      }
      // the saved value and its gradient have different layouts
      const Array turned = saved.permute({2, 1, 0, 3}), turned_there = saved_there.permute({2, 1, 0, 3});
      expect_near(ops::map_grad(op, turned, grad.reshape(turned.shape())),
                  ops::map_grad(op, turned_there, grad_there.reshape(turned.shape())));
    }
  });
}

// Pairs of shapes that broadcast, as views of (4, 5, 6, 7).
struct Pair {
  const char* name;
  Array (*a)(const Array& base);
  Array (*b)(const Array& base);
};
const Pair broadcasts[] = {
    {"a row", [](const Array& x) { return x; },
     [](const Array& x) { return x.select(0, 0).select(0, 0).select(0, 1); }},
    {"a column", [](const Array& x) { return x.slice(3, 2, 3); }, [](const Array& x) { return x; }},
    {"a scalar",
     [](const Array& x) {
       return x.permute({3, 2, 1, 0});
     },
     [](const Array& x) { return x.select(0, 2).select(0, 1).select(0, 0).select(0, 3); }},
    {"a row and a column", [](const Array& x) { return x.slice(1, 0, 1).slice(3, 0, 1); },
     [](const Array& x) { return x.slice(0, 0, 1).slice(2, 0, 1); }},
    {"to nothing", [](const Array& x) { return x.slice(2, 3, 3); }, [](const Array& x) { return x.slice(2, 0, 1); }},
    {"two layouts",
     [](const Array& x) {
       return x.permute({0, 3, 1, 2});
     },
     [](const Array& x) {
       return x.reshape({4, 7, 5, 6});
     }},
};

// Calls f(view a, view b, name) for all layouts and broadcasts, with a and b on each device.
template <class F>
void for_each_pair(F f) {
  for (const auto& [name, view] : layouts) f(view, view, name);
  for (const auto& [name, a, b] : broadcasts) f(a, b, name);
}

TEST(CudaElementwise, ZipsAsTheCpu) {
  for_each_op<BinaryOp>([](auto op) {
    for (const DType dtype : all_dtypes) {
      if (dtype == DType::boolean) continue;
      const Array a = base(dtype, 1), a_there = a.to(gpu), b = base(dtype, 2), b_there = b.to(gpu);
      for_each_pair([&](auto view_a, auto view_b, const char* name) {
        SCOPED_TRACE(::testing::Message() << typeid(op).name() << ' ' << dtype << ", " << name);
        expect_near(ops::zip(op, view_a(a), view_b(b)), ops::zip(op, view_a(a_there), view_b(b_there)));
      });
    }
  });
}

TEST(CudaElementwise, ZipGradientsAreTheCpus) {
  for_each_op<BinaryOp>([](auto op) {
    for (const DType dtype : floating_dtypes) {
      // There are no infinities, because they would hide everything else in a gradient that is summed over a broadcast.
      const Array a = numbers({4, 5, 6, 7}, 1, dtype), a_there = a.to(gpu);
      const Array b = ops::map(functors::Exp{}, numbers({4, 5, 6, 7}, 2, dtype)), b_there = b.to(gpu);
      for_each_pair([&](auto view_a, auto view_b, const char* name) {
        const Array y = ops::zip(op, view_a(a), view_b(b));
        const Array grad = numbers(y.shape(), 3, dtype), grad_there = grad.to(gpu);
        // each summand may be off by one rounding, and the vector functions in a power by four
        const double summands =
            static_cast<double>(y.numel() / std::max<std::int64_t>(1, std::min(view_a(a).numel(), view_b(b).numel())));
        for (const int operand : {0, 1}) {
          SCOPED_TRACE(::testing::Message()
                       << typeid(op).name() << ' ' << dtype << ", operand " << operand << ", " << name);
          expect_same(ops::zip_grad(op, operand, view_a(a), view_b(b), grad),
                      ops::zip_grad(op, operand, view_a(a_there), view_b(b_there), grad_there),
                      (size_of(dtype) == 2 ? 2 : 8) * std::max(1.0, summands) * machine_epsilon(dtype));
        }
      });
    }
  });
}

TEST(CudaElementwise, ComparesAsTheCpu) {
  for_each_op<CompareOp>([](auto op) {
    for (const DType dtype : all_dtypes) {
      Array a = base(dtype, 1), b = base(dtype, 2);
      b.slice(1, 0, 3).copy_from(a.slice(1, 0, 3));  // makes some elements equal
      const Array a_there = a.to(gpu), b_there = b.to(gpu);
      for_each_pair([&](auto view_a, auto view_b, const char* name) {
        SCOPED_TRACE(::testing::Message() << typeid(op).name() << ' ' << dtype << ", " << name);
        expect_same(ops::compare(op, view_a(a), view_b(b)), ops::compare(op, view_a(a_there), view_b(b_there)));
      });
    }
  });
}

TEST(CudaElementwise, MixedDtypesArePromoted) {
  for (const DType left : all_dtypes) {
    for (const DType right : all_dtypes) {
      if (left == DType::boolean && right == DType::boolean) continue;
      SCOPED_TRACE(::testing::Message() << left << " + " << right);
      const Array a = numbers({3, 5}, 1, left), b = numbers({5}, 2, right);
      expect_same(ops::zip(functors::Add{}, a, b), ops::zip(functors::Add{}, a.to(gpu), b.to(gpu)));
    }
  }
}

TEST(CudaElementwise, UpdatesInPlace) {
  for (const DType dtype : all_dtypes) {
    if (dtype == DType::boolean) continue;
    SCOPED_TRACE(dtype);
    const Array here = numbers({5, 9}, 1, dtype), there = here.to(gpu);
    const Array addend = numbers({9}, 2, dtype);
    Array column = here.slice(1, 2, 8), column_there = there.slice(1, 2, 8);
    ops::add_(column, addend.slice(0, 1, 7));
    ops::add_(column_there, addend.to(gpu).slice(0, 1, 7));
    ops::scale_(column, 2);
    ops::scale_(column_there, 2);
    expect_same(here, there);
  }
}

// Values that every dtype can hold, some of them fractional.
Array convertible(DType dtype) {
  const Array a = ops::map(functors::Affine{1, 60}, ops::map(functors::Affine{13, 0}, numbers({4, 5, 6, 7}, 1)));
  return dtype == DType::boolean ? numbers({4, 5, 6, 7}, 1, dtype) : a.to(dtype);
}

TEST(CudaElementwise, ConvertsAsTheCpu) {
  for (const DType from : all_dtypes) {
    const Array here = convertible(from), there = here.to(gpu);
    for (const DType to : all_dtypes) {
      for (const auto& [name, view] : layouts) {
        SCOPED_TRACE(::testing::Message() << from << " to " << to << ", " << name);
        expect_same(view(here).to(to), view(there).to(to), 0);
      }
      // into a view; the memory around it must not change
      SCOPED_TRACE(::testing::Message() << from << " to a view of " << to);
      const Array target = ops::full({7, 6, 8, 4}, 1, to), target_there = target.to(gpu);
      target.slice(2, 2, 7).permute({3, 2, 1, 0}).copy_from(here);
      target_there.slice(2, 2, 7).permute({3, 2, 1, 0}).copy_from(there);
      expect_same(target, target_there, 0);
    }
  }
}

TEST(CudaElementwise, CopiesKeepEveryBit) {
  // A NaN with a payload, and the smallest number. An intermediate conversion could lose either of them.
  const std::vector<std::int64_t> bits = {0x7ff4000000000001, 1, -1};
  const Array here = Array::from(bits, {3});
  const Array as_numbers(here.storage(), here.shape(), here.strides(), 0, DType::f64);
  const Array moved = as_numbers.to(gpu).clone().to(Device{});
  EXPECT_EQ(
      Array(moved.storage(), moved.shape(), moved.strides(), moved.offset(), DType::i64).to_vector<std::int64_t>(),
      bits);
}

TEST(CudaElementwise, FillsAsTheCpu) {
  for (const DType dtype : all_dtypes) {
    const double value = dtype == DType::boolean ? 1 : is_floating(dtype) ? 1.1 : 7;
    for (const auto& [name, view] : layouts) {
      if (std::string_view(name) == "repeated") continue;  // many elements in the same place
      SCOPED_TRACE(::testing::Message() << dtype << ", " << name);
      const Array here = ops::zeros({4, 5, 6, 7}, dtype), there = ops::zeros({4, 5, 6, 7}, dtype, gpu);
      view(here).fill(value);
      view(there).fill(value);
      expect_same(here, there, 0);
    }
  }
}

// Tests rows of 48 adjacent numbers, which are a whole number of packs in every dtype, and rows that are not.
TEST(CudaElementwise, GoesOverRowsAsTheCpu) {
  using View = Array (*)(const Array&);
  const View whole = [](const Array& x) { return x.permute({0, 3, 1, 2}); };
  const std::pair<View, View> pairs[] = {
      {whole,
       [](const Array& x) {
         return x.slice(1, 0, 1).slice(2, 1, 2).permute({0, 3, 1, 2});
       }},  // one number per channel of each image
      {whole,
       [](const Array& x) {
         return x.select(0, 1).slice(0, 2, 3).slice(1, 1, 2).permute({2, 0, 1});
       }},
      {whole,
       [](const Array& x) {
         return x.slice(3, 5, 6).permute({0, 3, 1, 2});
       }},  // one number per pixel
      {[](const Array& x) { return x.slice(3, 16, 48); }, [](const Array& x) { return x.slice(3, 0, 32); }},
      {[](const Array& x) { return x.slice(3, 16, 48); }, [](const Array& x) { return x.slice(3, 4, 36); }},
      {[](const Array& x) { return x.slice(3, 0, 21); },
       [](const Array& x) { return x.slice(1, 0, 1).slice(3, 3, 24); }},
      {[](const Array& x) { return x.slice(2, 1, 3); }, [](const Array& x) { return x.slice(2, 0, 1).slice(3, 7, 8); }},
  };
  for (const DType dtype : all_dtypes) {
    SCOPED_TRACE(dtype);
    const Array a = numbers({2, 3, 4, 48}, 1, dtype), a_there = a.to(gpu);
    const Array b = numbers({2, 3, 4, 48}, 2, dtype), b_there = b.to(gpu);
    const Array condition = numbers({2, 3, 4, 48}, 3, DType::boolean), condition_there = condition.to(gpu);
    for (const auto& [left, right] : pairs) {
      SCOPED_TRACE(&left - &pairs[0].first);
      if (dtype != DType::boolean)
        expect_near(ops::zip(functors::Add{}, left(a), right(b)),
                    ops::zip(functors::Add{}, left(a_there), right(b_there)));
      expect_same(ops::where(left(condition), right(b), left(a)),
                  ops::where(left(condition_there), right(b_there), left(a_there)), 0);
      expect_same(right(b).expand(left(a).shape()).clone(), right(b_there).expand(left(a).shape()).clone(), 0);
      const Array target = a.clone(), target_there = a_there.clone();
      left(target).copy_from(right(b).expand(left(a).shape()));
      left(target_there).copy_from(right(b_there).expand(left(a).shape()));
      expect_same(target, target_there, 0);
    }
  }
}

#ifdef TANDEM_EMULATED_CUDA
TEST(CudaElementwise, DividesByMultiplication) {
  constexpr std::uint32_t most = 0x7fffffff;
  for (const std::uint32_t n :
       {1u, 2u, 3u, 7u, 21u, 48u, 641u, 3600u, 65535u, 65536u, 65537u, most / 2, most - 1, most}) {
    const cuda::FastDivision divided(n);
    for (const std::uint32_t near : {0u, n, 2 * (n / 3), most / n / 2 * n, most / n * n, most})
      for (std::uint32_t i = near < 2 ? 0 : near - 2; i <= near + 2 && i <= most; ++i)
        ASSERT_EQ(divided(i), i / n) << i << " / " << n;
  }
}

// Arrays that behave as if they had 3 billion elements or more, without the memory for them.
TEST(CudaElementwise, GoesOverLongArraysInParts) {
  const Array one = Array::from(std::vector<float>{1}, {1});
  LoopNest<2> nest({&one, &one});
  nest.ndim = 2;
  nest.size = {3, std::int64_t{1} << 31};
  nest.stride[0] = {0, nest.size[1]};
  nest.stride[1] = {1, 1};
  std::int64_t next = 0;
  int parts = 0;
  cuda::for_each_walk<2>(nest, {}, [&](const LoopNest<2>& part, const std::array<std::int64_t, 2>& begin) {
    const cuda::Walk<2> walk(part, begin, {true, true}, 8);
    EXPECT_TRUE(walk.in_packs);
    EXPECT_EQ(walk.offsets(0), begin);
    const std::int64_t items = part.size[0] * part.size[1] / 8, row = part.size[1];
    EXPECT_EQ(walk.items, items);
    const auto last = walk.offsets(static_cast<std::uint32_t>(items - 1));
    EXPECT_EQ(last[0], begin[0] + row - 8);
    EXPECT_EQ(last[1], begin[1] + (part.size[0] - 1) * nest.size[1] + row - 8);
    next += items * 8;
    ++parts;
  });
  EXPECT_EQ(next, 3 * nest.size[1]);
  EXPECT_EQ(parts, 6);
}

// The rows are far apart and are read in reverse order, as with flip().
TEST(CudaElementwise, GoesBackwardsOverLongArraysInParts) {
  constexpr std::int64_t row = (std::int64_t{1} << 31) + 10;
  const Array one = Array::from(std::vector<float>{1}, {1});
  LoopNest<2> nest({&one, &one});
  nest.ndim = 2;
  nest.size = {2, 4};
  nest.stride[0] = {-row, 4};
  nest.stride[1] = {1, 1};
  std::vector<std::int64_t> places;
  cuda::for_each_walk<2>(nest, {row, 0}, [&](const LoopNest<2>& part, const std::array<std::int64_t, 2>& begin) {
    const cuda::Walk<2> walk(part, begin, {false, false}, 8);
    for (std::uint32_t i = 0; i < walk.items; ++i) places.push_back(walk.offsets(i)[0]);
  });
  EXPECT_EQ(places, (std::vector<std::int64_t>{row, row + 1, row + 2, row + 3, 0, 1, 2, 3}));
}
#endif

}  // namespace
}  // namespace tandem
