#include <tandem/core/array.h>
#include <tandem/core/ops.h>
#include <tandem/core/random.h>

#include <gtest/gtest.h>

#include <cfenv>

#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::array_of;
using testing::counting;
using testing::strided;
using Floats = std::vector<float>;

constexpr DType all_dtypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16,
                                DType::i64, DType::i32, DType::u8,   DType::boolean};

TEST(Shape, PrintsAndCounts) {
  std::ostringstream out;
  out << Shape{2, 3} << Shape{} << Shape{7};
  EXPECT_EQ(out.str(), "(2, 3)()(7)");
  EXPECT_EQ(Shape{}.product(), 1);
  EXPECT_EQ((Shape{2, 0, 3}.product()), 0);
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_FALSE((Shape{2, 3} == Shape{2, 3, 1}));
  EXPECT_ERROR((Shape{1, 1, 1, 1, 1, 1, 1}), "at most 6", "7");
  Shape full{1, 1, 1, 1, 1, 1};
  EXPECT_ERROR(full.push_back(1), "at most 6");
  constexpr std::int64_t large = std::int64_t{1} << 40;
  EXPECT_EQ((Shape{0, large, large}.product()), 0);
  EXPECT_ERROR((Shape{large, large}.product()), "(1099511627776, 1099511627776)", "64 bits");
}

TEST(Shape, Strides) {
  EXPECT_EQ(contiguous_strides({2, 3, 4}), (Strides{12, 4, 1}));
  EXPECT_EQ(contiguous_strides({}), (Strides{}));
  EXPECT_EQ(channels_last_strides({2, 3, 4, 5}), (Strides{60, 1, 15, 3}));
  EXPECT_ERROR(channels_last_strides({2, 3}), "(N, C, H, W)", "(2, 3)");
}

TEST(Shape, Broadcasts) {
  EXPECT_EQ(broadcast_shape({3, 1, 5}, {4, 1}, "add"), (Shape{3, 4, 5}));
  EXPECT_EQ(broadcast_shape({}, {2, 3}, "add"), (Shape{2, 3}));
  EXPECT_EQ(broadcast_shape({0}, {1}, "add"), (Shape{0}));
  EXPECT_ERROR(broadcast_shape({2, 3}, {2}, "add"), "add", "(2, 3)", "(2)");
  EXPECT_ERROR(broadcast_shape({0}, {2}, "add"), "add", "(0)", "(2)");
}

TEST(DTypes, Promote) {
  for (const DType a : all_dtypes) {
    EXPECT_EQ(promote(a, a), a);
    for (const DType b : all_dtypes) EXPECT_EQ(promote(a, b), promote(b, a)) << a << b;
  }
  EXPECT_EQ(promote(DType::f32, DType::f64), DType::f64);
  EXPECT_EQ(promote(DType::f32, DType::bf16), DType::f32);
  EXPECT_EQ(promote(DType::f16, DType::f64), DType::f64);
  EXPECT_EQ(promote(DType::bf16, DType::f16), DType::f32);
  EXPECT_EQ(promote(DType::bf16, DType::i64), DType::bf16);
  EXPECT_EQ(promote(DType::f16, DType::boolean), DType::f16);
  EXPECT_EQ(promote(DType::i64, DType::i32), DType::i64);
  EXPECT_EQ(promote(DType::i32, DType::u8), DType::i32);
  EXPECT_EQ(promote(DType::u8, DType::boolean), DType::u8);
}

// Rounding to 16 bits, by the definition: the nearest representable number, of two equally near ones the even.
// `fraction_bits` explicit ones; exponents from `min_exponent`; larger than `highest` by half a step or more: infinity.
double rounded(double value, int fraction_bits, int min_exponent, double highest) {
  const int exponent = value == 0 ? min_exponent : std::max(std::ilogb(value), min_exponent);
  const double step = std::ldexp(1.0, exponent - fraction_bits);
  const double result = std::nearbyint(value / step) * step;
  return std::abs(result) > highest ? std::copysign(std::numeric_limits<double>::infinity(), value) : result;
}

// Every 16-bit value, its neighbours in f32, the points half way to the next one and what surrounds those.
template <class T>
std::vector<float> interesting() {
  std::vector<float> values;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    T half;
    half.bits = static_cast<std::uint16_t>(bits);
    T next;
    next.bits = static_cast<std::uint16_t>(bits + 1);
    const float value = half,
                middle = static_cast<float>((static_cast<double>(value) + static_cast<double>(next)) / 2);
    for (const float v : {value, middle})
      for (const float w : {v, std::nextafter(v, -INFINITY), std::nextafter(v, INFINITY)})
        values.push_back(w);
  }
  for (const float v :
       {65519.996f, 65520.0f, 3.4e38f, 3.3961775e38f, 1e-45f, 1e-40f, 2.9802322e-8f, 2.9802326e-8f}) {
    values.push_back(v);
    values.push_back(-v);
  }
  return values;
}

template <class T>
void check_rounding(int fraction_bits, int min_exponent, double highest) {
  for (const float value : interesting<T>()) {
    const float found = T(value);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(found));
      continue;
    }
    const double expected = std::isinf(value) ? value : rounded(value, fraction_bits, min_exponent, highest);
    ASSERT_EQ(found, static_cast<float>(expected)) << std::hexfloat << value;
    ASSERT_EQ(std::signbit(found), std::signbit(value)) << value;
  }
  // What is representable comes back as it was.
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    T half;
    half.bits = static_cast<std::uint16_t>(bits);
    const float value = half;
    if (std::isnan(value)) continue;
    ASSERT_EQ(T(value).bits, half.bits) << bits;
  }
}

TEST(DTypes, Bfloat16RoundsToNearestEven) { check_rounding<bfloat16>(7, -126, 0x1.fep127); }
TEST(DTypes, Float16RoundsToNearestEven) { check_rounding<float16>(10, -14, 65504); }

TEST(DTypes, HalvesMeanWhatTheirBitsSay) {
  const auto f16 = [](std::uint16_t bits) {
    float16 h;
    h.bits = bits;
    return static_cast<float>(h);
  };
  EXPECT_EQ(f16(0x3c00), 1.0f);
  EXPECT_EQ(f16(0xc000), -2.0f);
  EXPECT_EQ(f16(0x7bff), 65504.0f);
  EXPECT_EQ(f16(0x0001), 0x1p-24f);
  EXPECT_EQ(f16(0x03ff), 0x1.ff8p-15f);
  EXPECT_EQ(f16(0x0400), 0x1p-14f);
  EXPECT_EQ(f16(0x7c00), INFINITY);
  EXPECT_TRUE(std::isnan(f16(0x7c01)));
  EXPECT_EQ(bfloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(bfloat16(-INFINITY).bits, 0xff80);
  EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(Array, FromCopiesAndChecksTheCount) {
  Floats values{1, 2, 3, 4, 5, 6};
  const Array a = Array::from(values, {2, 3});
  values[0] = 99;
  EXPECT_EQ(a.to_vector<float>(), (Floats{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(a.shape(), (Shape{2, 3}));
  EXPECT_EQ(a.dtype(), DType::f32);
  EXPECT_EQ(a.bytes(), 24u);
  EXPECT_EQ(a.dim(-1), 3);
  EXPECT_ERROR(Array::from(values, {2, 2}), "6 values", "(2, 2)");
  EXPECT_ERROR(Array::empty({2, -1}), "negative", "(2, -1)");
  EXPECT_ERROR(a.dim(2), "dimension 2", "2 dimensions");
  EXPECT_ERROR(a.data<double>(), "f32", "f64");
  EXPECT_FALSE(Array().defined());
}

TEST(Array, MemoryIsAligned) {
  for (const std::int64_t n : {0, 1, 17, 1000, 100000, 3000000})
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(Array::empty({n}).raw()) % 64, 0u);
}

// Were a product to wrap around, a small block would be taken for a large array.
TEST(Array, SizesBeyondAnyMemoryAreRefused) {
  constexpr std::int64_t large = std::int64_t{1} << 40;
  EXPECT_ERROR(Array::empty({large, large}), "64 bits");
  EXPECT_ERROR(Array::empty({2 * large, large >> 20}, DType::f64), "(2199023255552, 1048576)", "f64");
  EXPECT_ERROR(Array::empty({1}).reshape({large, large, -1}), "64 bits");
  EXPECT_EQ(Array::empty({0, large, large}).reshape({large, 0, large}).numel(), 0);
}

TEST(Array, DevicesThatThisBuildLacksAreNamed) {
  const Device gpu{Device::Kind::cuda, 1};
  EXPECT_ERROR(Array::empty({1}, DType::f32, gpu), "cuda:1");
  EXPECT_ERROR(counting({2}).to(gpu), "cuda:1");
}

TEST(Array, Views) {
  const Array a = counting({2, 3, 4});
  const auto expect_view = [&](const Array& view, const Shape& shape, const Floats& values) {
    EXPECT_EQ(view.storage(), a.storage());
    EXPECT_EQ(view.shape(), shape);
    EXPECT_EQ(view.to_vector<float>(), values);
  };
  expect_view(a.select(0, 1).select(0, 2), {4}, {20, 21, 22, 23});
  expect_view(a.select(-1, 3), {2, 3}, {3, 7, 11, 15, 19, 23});
  expect_view(a.slice(1, 1, 2), {2, 1, 4}, {4, 5, 6, 7, 16, 17, 18, 19});
  expect_view(a.slice(2, 1, 3).select(0, 0), {3, 2}, {1, 2, 5, 6, 9, 10});
  expect_view(a.slice(0, 1, 1), {0, 3, 4}, {});
  expect_view(a.select(0, 0).transpose(0, 1), {4, 3}, {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
  expect_view(a.permute({2, 0, 1}).slice(0, 0, 1), {1, 2, 3}, {0, 4, 8, 12, 16, 20});
  expect_view(a.permute({-1, -3, -2}).slice(0, 0, 1), {1, 2, 3}, {0, 4, 8, 12, 16, 20});
  expect_view(a.slice(0, 0, 1).slice(1, 0, 1).expand({2, 2, 4}), {2, 2, 4},
              {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3});
  expect_view(a.slice(1, 2, 3).squeeze(1).select(0, 1), {4}, {20, 21, 22, 23});
  EXPECT_EQ(a.unsqueeze(0).shape(), (Shape{1, 2, 3, 4}));
  EXPECT_EQ(a.unsqueeze(-1).shape(), (Shape{2, 3, 4, 1}));
  EXPECT_TRUE(a.unsqueeze(1).is_contiguous());
  EXPECT_EQ(a.flatten(1).shape(), (Shape{2, 12}));
  EXPECT_EQ(a.flatten().shape(), (Shape{24}));
  EXPECT_EQ(ops::scalar(3).flatten().shape(), (Shape{1}));
  EXPECT_EQ(ops::scalar(3).expand({2}).to_vector<float>(), (Floats{3, 3}));
}

TEST(Array, SlicesAsPythonDoes) {
  const Array a = counting({5});
  constexpr auto most = std::numeric_limits<std::int64_t>::max(),
                 least = std::numeric_limits<std::int64_t>::min();
  const auto is = [&](const Array& view, const Floats& values) {
    EXPECT_EQ(view.to_vector<float>(), values);
  };
  is(a.slice(0, 1), {1, 2, 3, 4});
  is(a.slice(0, -2), {3, 4});
  is(a.slice(0, -99, 2), {0, 1});
  is(a.slice(0, 3, 99), {3, 4});
  is(a.slice(0, 3, 1), {});
  is(a.slice(0, 9), {});
  is(a.slice(0, least, -1), {0, 1, 2, 3});
  is(a.slice(0, 0, most, 2), {0, 2, 4});
  is(a.slice(0, 1, -1, 3), {1});
  is(a.slice(0, 1, most, most), {1});
  is(counting({0}).slice(0, 0, 3), {});
}

TEST(Array, ViewsOfOneElementAndNone) {
  const Array scalar = ops::scalar(3);
  EXPECT_EQ(scalar.squeeze(0).shape(), Shape{});
  EXPECT_EQ(scalar.transpose(0, -1).shape(), Shape{});
  EXPECT_EQ(scalar.squeeze().shape(), Shape{});
  const Array a = counting({2, 0, 1});
  EXPECT_EQ(a.squeeze().shape(), (Shape{2, 0}));
  EXPECT_EQ(a.squeeze(0).shape(), (Shape{2, 0, 1}));
  EXPECT_EQ(a.flatten(1).shape(), (Shape{2, 0}));
  EXPECT_EQ(a.unflatten(1, {0, 5}).shape(), (Shape{2, 0, 5, 1}));
  EXPECT_EQ(a.diagonal(7, 0, 1).shape(), (Shape{1, 0}));
  EXPECT_EQ(a.view({0, 7}).shape(), (Shape{0, 7}));
}

TEST(Array, ViewsSayWhatDoesNotFit) {
  const Array a = counting({2, 3, 4});
  EXPECT_ERROR(a.permute({0, 1}), "permute", "(0, 1)", "3");
  EXPECT_ERROR(a.permute({0, 1, 1}), "permute", "(0, 1, 1)", "twice");
  EXPECT_ERROR(a.permute({0, 1, 3}), "3");
  EXPECT_ERROR(a.slice(1, 0, 2, 0), "slice", "step", "0");
  EXPECT_ERROR(a.narrow(1, 2, 2), "narrow", "2 from 2", "(2, 3, 4)");
  EXPECT_ERROR(a.narrow(1, -4, 1), "narrow", "-4", "(2, 3, 4)");
  EXPECT_ERROR(a.narrow(1, 0, -1), "narrow", "-1");
  EXPECT_ERROR(a.select(0, -3), "select", "-3", "(2, 3, 4)");
  EXPECT_ERROR(a.select(0, 2), "2", "(2, 3, 4)");
  EXPECT_ERROR(a.expand({2, 3, 5}), "expand", "(2, 3, 4)", "(2, 3, 5)");
  EXPECT_ERROR(a.expand({3, 4}), "expand", "(2, 3, 4)", "(3, 4)");
  EXPECT_ERROR(a.expand({-1, 2, 3, 4}), "expand", "new dimension");
  EXPECT_ERROR(a.squeeze({0, -3}), "squeeze", "twice");
  EXPECT_ERROR(a.transpose(0, 1).view({6, 4}), "view", "(3, 2, 4)", "(6, 4)", "reshape");
  EXPECT_ERROR(a.unflatten(2, {3, -1}), "unflatten", "(3, -1)", "(2, 3, 4)");
  EXPECT_ERROR(a.unflatten(2, {}), "unflatten");
  EXPECT_ERROR(a.flatten(2, 1), "flatten", "(2, 3, 4)");
  EXPECT_ERROR(a.diagonal(0, 1, -2), "diagonal", "same");
  EXPECT_ERROR(a.transpose(0, 3), "3");
  EXPECT_ERROR(counting({1, 1, 1, 1, 1, 1}).unsqueeze(0), "at most 6");
}

TEST(Array, ReshapeSaysWhatDoesNotFit) {
  const Array a = counting({2, 3});
  EXPECT_ERROR(a.reshape({4}), "reshape", "(2, 3)", "6", "(4)");
  EXPECT_ERROR(a.reshape({4, -1}), "(2, 3)", "(4, -1)");
  EXPECT_ERROR(a.reshape({-1, -1}), "only one", "(-1, -1)");
  EXPECT_ERROR(a.reshape({-2, -3}), "(-2, -3)");
  EXPECT_ERROR(Array::empty({0, 3}).reshape({0, -1}), "(0, -1)");
  EXPECT_EQ(Array::empty({0, 3}).reshape({-1, 3}).shape(), (Shape{0, 3}));
  EXPECT_EQ(Array::empty({0, 3}).reshape({5, 0, 2}).shape(), (Shape{5, 0, 2}));
}

TEST(Array, ReshapeViewsWhereItCan) {
  const Array a = counting({2, 3, 4});
  EXPECT_EQ(a.reshape({6, -1}).storage(), a.storage());
  // Rows with a gap between them: they may be split, not joined.
  const Array rows = counting({4, 8}).slice(1, 0, 6);
  EXPECT_EQ(rows.reshape({2, 2, 3, 2}).storage(), rows.storage());
  EXPECT_EQ(rows.reshape({2, 2, 3, 2}).strides(), (Strides{16, 8, 2, 1}));
  EXPECT_NE(rows.reshape({24}).storage(), rows.storage());
  EXPECT_NE(rows.reshape({8, 3}).storage(), nullptr);
  // Channels last: pixels can be joined, channels with them not.
  const Array image = counting({2, 3, 4, 5}).channels_last();
  EXPECT_EQ(image.reshape({2, 3, 20}).storage(), image.storage());
  EXPECT_NE(image.reshape({2, 60}).storage(), image.storage());
  EXPECT_EQ(image.reshape({2, 60}).to_vector<float>(), counting({120}).to_vector<float>());
  // One channel, or one pixel: both layouts are the same memory.
  EXPECT_EQ(counting({2, 1, 4, 5}).channels_last().reshape({2, 20}).strides(), (Strides{20, 1}));
  const Array pixel = counting({2, 7, 1, 1}).channels_last();
  EXPECT_EQ(pixel.reshape({2, 7}).storage(), pixel.storage());
  // Repeated elements stay repeated.
  const Array repeated = counting({3}).unsqueeze(0).expand({4, 3});
  EXPECT_EQ(repeated.reshape({2, 2, 3}).storage(), repeated.storage());
  EXPECT_EQ(repeated.reshape({12}).to_vector<float>(), (Floats{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}));
}

// Random views of random shapes, among them many dimensions of size 1: element by element what reading in order gives.
TEST(Array, ReshapeKeepsTheOrderOfElements) {
  Generator random(1);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random.next_u32() % n); };
  int views = 0, copies = 0;
  for (int round = 0; round < 20000; ++round) {
    Shape large;
    const auto rank = below(5);
    for (int i = 0; i < rank; ++i) large.push_back(1 + below(4));
    Array view = counting(large);
    for (int i = 0; i < view.rank(); ++i) {
      const auto begin = below(view.shape()[i]);
      if (below(3) == 0) view = view.slice(i, begin, begin + 1 + below(view.shape()[i] - begin));
    }
    for (int i = 0; i < 3 && view.rank() > 1; ++i)
      if (below(2) == 0) view = view.transpose(below(view.rank()), below(view.rank()));
    if (below(4) == 0 && view.rank() < 5) view = view.unsqueeze(below(view.rank() + 1));
    if (below(6) == 0 && view.rank() > 0 && view.shape()[0] == 1) {
      Shape wider = view.shape();
      wider[0] = 2;
      view = view.expand(wider);
    }
    // Any factorisation of the count, with ones in between.
    Shape wanted;
    auto left = view.numel();
    while (wanted.rank() < 5 && (left > 1 || below(2) == 0)) {
      auto factor = 1 + below(left);
      while (left % factor != 0) --factor;
      if (wanted.rank() == 4) factor = left;
      wanted.push_back(factor);
      left /= factor;
    }
    std::vector<float> expected;
    for (std::int64_t i = 0; i < view.numel(); ++i) {
      auto rest = i, offset = view.offset();
      for (int d = view.rank() - 1; d >= 0; --d) {
        offset += rest % view.shape()[d] * view.strides()[d];
        rest /= view.shape()[d];
      }
      expected.push_back(static_cast<const float*>(view.storage()->data())[offset]);
    }
    const Array reshaped = view.reshape(wanted);
    ASSERT_EQ(reshaped.shape(), wanted);
    ASSERT_EQ(reshaped.to_vector<float>(), expected) << view.shape() << view.strides() << " to " << wanted;
    (reshaped.storage() == view.storage() ? views : copies)++;
  }
  EXPECT_GT(views, 1000);
  EXPECT_GT(copies, 1000);
}

TEST(Array, Layouts) {
  const Array a = counting({2, 3, 4, 5});
  EXPECT_TRUE(a.is_contiguous());
  EXPECT_FALSE(a.is_channels_last());
  const Array image = a.channels_last();
  EXPECT_TRUE(image.is_channels_last());
  EXPECT_FALSE(image.is_contiguous());
  EXPECT_EQ(image.to_vector<float>(), a.to_vector<float>());
  EXPECT_EQ(static_cast<float*>(image.raw())[1], 20);  // the next channel of the first pixel
  EXPECT_EQ(image.channels_last().storage(), image.storage());
  EXPECT_EQ(a.contiguous().storage(), a.storage());
  EXPECT_TRUE(image.contiguous().is_contiguous());
  EXPECT_TRUE(image.to(DType::f64).is_channels_last());
  EXPECT_TRUE(counting({2, 1, 4, 5}).is_channels_last());  // one channel: both
  EXPECT_FALSE(counting({2, 3}).is_channels_last());
  EXPECT_FALSE(image.slice(1, 0, 2).is_channels_last());
  EXPECT_FALSE(a.transpose(0, 1).is_contiguous());
  EXPECT_TRUE(a.slice(0, 1, 2).is_contiguous());
  EXPECT_ERROR(counting({2, 3}).channels_last(), "(N, C, H, W)", "(2, 3)");
  EXPECT_NE(a.clone().storage(), a.storage());
  EXPECT_TRUE(image.clone().is_contiguous());
}

TEST(Array, CopiesBetweenAllDtypes) {
  const Floats values{0, 1, 2, 100, 255, 0, 7, 1};
  for (const DType from : all_dtypes) {
    for (const DType to : all_dtypes) {
      const Array source = Array::from(values, {2, 4}).to(from);
      Floats expected;
      for (const float v : values)
        expected.push_back(from == DType::boolean || to == DType::boolean ? v != 0 : v);
      EXPECT_EQ(source.to(to).dtype(), to);
      EXPECT_EQ(source.to(to).to_vector<float>(), expected) << from << " to " << to;
      EXPECT_EQ(strided(source).to(to).to_vector<float>(), expected) << from << " to " << to;
      Array target = strided(Array::empty({4, 2}, to)).transpose(0, 1);
      target.copy_from(source);
      EXPECT_EQ(target.to_vector<float>(), expected) << from << " to " << to;
    }
  }
}

TEST(Array, CopiesRoundAndTruncate) {
  const Array a = array_of({-1.9f, 1.9f, 3.0f});
  EXPECT_EQ(a.to_vector<std::int64_t>(), (std::vector<std::int64_t>{-1, 1, 3}));
  EXPECT_EQ(a.to_vector<std::int32_t>(), (std::vector<std::int32_t>{-1, 1, 3}));
  EXPECT_EQ(Array::from(std::vector<std::int64_t>{-1, 256}, {2}).to_vector<std::uint8_t>(),
            (std::vector<std::uint8_t>{255, 0}));
  EXPECT_EQ(array_of({0.5f, -0.0f, NAN}).to(DType::boolean).to_vector<std::uint8_t>(),
            (std::vector<std::uint8_t>{1, 0, 1}));
  const std::int64_t large = (1LL << 53) + 1;
  EXPECT_EQ(Array::from(std::vector<std::int64_t>{large}, {1}).clone().to_vector<std::int64_t>()[0], large);
  EXPECT_EQ(array_of({1e10f, -1e-10f}).to(DType::f16).to_vector<float>(), (Floats{INFINITY, 0}));
  EXPECT_EQ(array_of({1.00390625f, 1.01171875f}).to(DType::bf16).to_vector<float>(),
            (Floats{1.0f, 1.015625f}));
}

TEST(Array, CopyFromBroadcasts) {
  Array target = ops::zeros({2, 3});
  target.copy_from(array_of({1, 2, 3}));
  EXPECT_EQ(target.to_vector<float>(), (Floats{1, 2, 3, 1, 2, 3}));
  target.select(1, 1).fill(9);
  EXPECT_EQ(target.to_vector<float>(), (Floats{1, 9, 3, 1, 9, 3}));
  target.copy_from(ops::scalar(4));
  EXPECT_EQ(target.to_vector<float>(), (Floats(6, 4)));
  EXPECT_ERROR(target.copy_from(counting({2})), "(2)", "(2, 3)");
  EXPECT_ERROR(target.copy_from(counting({1, 2, 3})), "(1, 2, 3)", "(2, 3)");
  Array nothing = Array::empty({0, 3});
  nothing.copy_from(counting({1, 3}));
  EXPECT_ERROR(nothing.copy_from(counting({2, 3})), "(2, 3)", "(0, 3)");
}

TEST(Array, FillSetsEveryDtype) {
  for (const DType dtype : all_dtypes) {
    Array a = Array::empty({3}, dtype);
    a.fill(1);
    EXPECT_EQ(a.to_vector<double>(), (std::vector<double>{1, 1, 1})) << dtype;
  }
  Array view = ops::zeros({2, 4}).slice(1, 1, 3);
  view.fill(0.1);
  EXPECT_EQ(view.to_vector<float>(), (Floats(4, 0.1f)));
}

TEST(Array, ItemAndToString) {
  EXPECT_EQ(ops::scalar(2.5).item(), 2.5);
  EXPECT_EQ(ops::full({1, 1}, 7, DType::i32).item(), 7);
  EXPECT_EQ(ops::ones({}, DType::boolean).item(), 1);
  EXPECT_EQ(counting({3}).select(0, 2).item(), 2);
  EXPECT_ERROR(counting({2}).item(), "one element", "(2)");
  EXPECT_ERROR(Array::empty({0}).item(), "one element", "(0)");
  EXPECT_ERROR(Array().item(), "one element");
  EXPECT_EQ(array_of({1, 2.5}).to_string(), "Array(2) f32 cpu [1.0000, 2.5000]");
  EXPECT_EQ(counting({2, 2}, DType::i64).transpose(0, 1).to_string(),
            "Array(2, 2) i64 cpu\n[[0, 2],\n [1, 3]]");
  EXPECT_EQ(ops::scalar(3).to_string(), "Array() f32 cpu 3.");
  EXPECT_EQ(Array::empty({0, 2}).to_string(), "Array(0, 2) f32 cpu []");
  EXPECT_EQ(Array().to_string(), "Array(undefined)");
}

TEST(Storage, CountsInPlaceWritesAndNamesTheLast) {
  Array a = ops::zeros({4});
  const auto before = a.storage()->version();
  a.fill(1);
  EXPECT_EQ(a.storage()->version(), before + 1);
  EXPECT_STREQ(a.storage()->last_writer(), "fill");
  Array view = a.slice(0, 1, 2);
  ops::add_(view, ops::scalar(1));
  EXPECT_EQ(a.storage()->version(), before + 2);
  EXPECT_STREQ(a.storage()->last_writer(), "add_");
  ops::scale_(a, 2);
  a.copy_from(a.clone());
  EXPECT_EQ(a.storage()->version(), before + 4);
  const auto unread = a.storage()->version();
  ops::map(functors::Relu{}, a);
  a.to_vector<float>();
  EXPECT_EQ(a.storage()->version(), unread);
}

TEST(Storage, SlicesShareMemoryAndCountForThemselves) {
  const auto block = std::make_shared<Storage>(64, Device{});
  Array a(storage_slice(block, 0, 32), {8}, {1}, 0, DType::f32),
      b(storage_slice(block, 32, 32), {8}, {1}, 0, DType::f32);
  a.fill(1);
  b.fill(2);
  b.fill(3);
  EXPECT_EQ(a.storage()->version(), 1u);
  EXPECT_EQ(b.storage()->version(), 2u);
  const Array whole(block, {16}, {1}, 0, DType::f32);
  EXPECT_EQ(whole.to_vector<float>(), (Floats{1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 3, 3, 3}));
  EXPECT_ERROR(storage_slice(block, 32, 33), "32", "33", "64");
  EXPECT_ERROR(storage_slice(block, static_cast<std::size_t>(-8), 16), "64");
}

TEST(Storage, SlicesKeepTheirParentAlive) {
  std::weak_ptr<Storage> watch;
  Array a;
  {
    const auto block = std::make_shared<Storage>(64, Device{});
    watch = block;
    a = Array(storage_slice(block, 0, 64), {16}, {1}, 0, DType::f32);
  }
  EXPECT_FALSE(watch.expired());
  a = Array();
  EXPECT_TRUE(watch.expired());
}

TEST(Storage, ReleasesWhatSomebodyElseOwns) {
  Floats owner{1, 2, 3};
  int released = 0;
  {
    const Array a(std::make_shared<Storage>(owner.data(), 12, Device{}, [&] { ++released; }), {3}, {1}, 0,
                  DType::f32);
    const Array view = a.slice(0, 1, 3);
    EXPECT_EQ(view.to_vector<float>(), (Floats{2, 3}));
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
}

}  // namespace
}  // namespace tandem
