// New Arrays. They are row-major, f32 and on the CPU unless the caller specifies otherwise. Array::from creates an
// Array from values.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/base/number.h>
#include <tandem/core/random/random.h>

#include <optional>

namespace tandem {
namespace ops {

Array full(const Shape& shape, Number value, DType dtype = DType::f32, Device device = {});
Array zeros(const Shape& shape, DType dtype = DType::f32, Device device = {});
Array ones(const Shape& shape, DType dtype = DType::f32, Device device = {});
Array scalar(Number value, DType dtype = DType::f32, Device device = {});  // has shape ()

// Returns start, start + step, ... up to but not including end. The default dtype is i64 if all three numbers are
// integers, and f32 otherwise.
Array arange(Number end, std::optional<DType> dtype = {}, Device device = {});
Array arange(Number start, Number end, Number step = 1, std::optional<DType> dtype = {}, Device device = {});
// Returns `steps` evenly spaced numbers from start to end, both included.
Array linspace(double start, double end, std::int64_t steps, DType dtype = DType::f32, Device device = {});
// Returns a matrix of shape (n, m), by default (n, n), with ones on the diagonal and zeros elsewhere.
Array eye(std::int64_t n, std::optional<std::int64_t> m = {}, DType dtype = DType::f32, Device device = {});

// Random numbers, drawn on the host. With the same seed they match PyTorch's CPU generator, on every device: f32 and
// f64 numbers are bitwise identical, and 16-bit numbers are the f32 numbers, rounded. rand is uniform in [0, 1), randn
// is standard normal, randint returns integers in [low, high), and randperm returns a permutation of 0 .. n-1.
Array rand(const Shape& shape, DType dtype = DType::f32, Device device = {},
           Generator& generator = default_generator());
Array randn(const Shape& shape, DType dtype = DType::f32, Device device = {},
            Generator& generator = default_generator());
Array randint(std::int64_t low, std::int64_t high, const Shape& shape, DType dtype = DType::i64, Device device = {},
              Generator& generator = default_generator());
Array randperm(std::int64_t n, Device device = {}, Generator& generator = default_generator());
// Returns normally distributed numbers with this mean and standard deviation.
Array normal(double mean, double std, const Shape& shape, DType dtype = DType::f32, Device device = {},
             Generator& generator = default_generator());
// Returns 1 with the probability in `probabilities` (...), and 0 otherwise, with their shape, dtype and device. Throws
// an Error if a number is not in [0, 1].
Array bernoulli(const Array& probabilities, Generator& generator = default_generator());
// Draws positions 0 .. n-1 in proportion to `weights`: (n) gives (count), and (rows, n) gives (rows, count), i64, on
// the device of the weights. Without replacement, a position occurs at most once in a row. Several draws with
// replacement match PyTorch's for the same seed. Other draws only have the same distribution. Throws an Error if a
// weight is negative or not finite, if the sum of the weights is not finite, if n > 2^24, if a row has no positive
// weight, or if a row has fewer positive weights than draws without replacement.
Array multinomial(const Array& weights, std::int64_t count, bool replacement = false,
                  Generator& generator = default_generator());

// New Arrays with the shape, layout (channels last or row-major) and device of `like`. The default dtype is that of
// `like`.
Array empty_like(const Array& like);
Array empty_like(const Array& like, DType dtype);
Array full_like(const Array& like, Number value, std::optional<DType> dtype = {});
Array zeros_like(const Array& like, std::optional<DType> dtype = {});
Array ones_like(const Array& like, std::optional<DType> dtype = {});
Array rand_like(const Array& like, std::optional<DType> dtype = {}, Generator& generator = default_generator());
Array randn_like(const Array& like, std::optional<DType> dtype = {}, Generator& generator = default_generator());

}  // namespace ops

using ops::arange;
using ops::empty_like;
using ops::eye;
using ops::full;
using ops::full_like;
using ops::linspace;
using ops::normal;
using ops::ones;
using ops::ones_like;
using ops::rand;
using ops::rand_like;
using ops::randint;
using ops::randn;
using ops::randn_like;
using ops::randperm;
using ops::scalar;
using ops::zeros;
using ops::zeros_like;

}  // namespace tandem
