// New Arrays. Row-major f32 on the CPU unless told otherwise. Array::from makes one from values.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/base/number.h>
#include <tandem/core/random/random.h>

#include <optional>

namespace tandem {
namespace ops {

Array full(const Shape& shape, double value, DType dtype = DType::f32, Device device = {});
Array zeros(const Shape& shape, DType dtype = DType::f32, Device device = {});
Array ones(const Shape& shape, DType dtype = DType::f32, Device device = {});
Array scalar(double value, DType dtype = DType::f32, Device device = {});  // shape ()

// start, start + step, ... before end. i64 where all three are integers, else f32, unless a dtype is given.
Array arange(Number end, std::optional<DType> dtype = {}, Device device = {});
Array arange(Number start, Number end, Number step = 1, std::optional<DType> dtype = {}, Device device = {});
// `steps` numbers at equal distances, from start to end, both included.
Array linspace(double start, double end, std::int64_t steps, DType dtype = DType::f32, Device device = {});
// (n, m), by default (n, n): ones on the diagonal.
Array eye(std::int64_t n, std::optional<std::int64_t> m = {}, DType dtype = DType::f32, Device device = {});

// Random numbers, drawn on the host: for a seed the same as PyTorch's CPU generator draws, on every device (f32 and f64
// to the bit; 16-bit numbers are those of f32, rounded). Uniform in [0, 1); standard normal; whole numbers in [low,
// high); a permutation of 0 .. n-1.
Array rand(const Shape& shape, DType dtype = DType::f32, Device device = {},
           Generator& generator = default_generator());
Array randn(const Shape& shape, DType dtype = DType::f32, Device device = {},
            Generator& generator = default_generator());
Array randint(std::int64_t low, std::int64_t high, const Shape& shape, DType dtype = DType::i64, Device device = {},
              Generator& generator = default_generator());
Array randperm(std::int64_t n, Device device = {}, Generator& generator = default_generator());

// Of the shape, layout (channels last or row-major) and device of `like`, and of its dtype unless another is given.
Array empty_like(const Array& like);
Array empty_like(const Array& like, DType dtype);
Array full_like(const Array& like, double value, std::optional<DType> dtype = {});
Array zeros_like(const Array& like, std::optional<DType> dtype = {});
Array ones_like(const Array& like, std::optional<DType> dtype = {});
Array rand_like(const Array& like, std::optional<DType> dtype = {}, Generator& generator = default_generator());
Array randn_like(const Array& like, std::optional<DType> dtype = {}, Generator& generator = default_generator());

}  // namespace ops

using ops::arange;
using ops::eye;
using ops::full;
using ops::full_like;
using ops::linspace;
using ops::ones;
using ops::ones_like;
using ops::rand;
using ops::rand_like;
using ops::randint;
using ops::randn;
using ops::randn_like;
using ops::randperm;
using ops::zeros;
using ops::zeros_like;

}  // namespace tandem
