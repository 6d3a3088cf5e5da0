#include <tandem/core/cpu/cook_toom_kernels.h>
#include <tandem/core/cpu/parallel.h>

#include <algorithm>
#include <array>

namespace tandem::cpu {

namespace {

// The kernels of one input and a vector of outputs, in f64: taps, and (columns' places, rows' places).
class KernelTransform {
 public:
  explicit KernelTransform(const Tiling& tiling) : rows_(*tiling.rows.scheme), columns_(*tiling.columns.scheme) {}

  // The kernels of `outputs` outputs, whose taps lie `step` apart from output to output.
  void set_taps(const float* from, std::int64_t step, std::int64_t outputs, bool turned) {
    for (std::int64_t o = 0; o < lanes; ++o)
      for (int t = 0; t < taps(); ++t)
        taps_[place_of(t, o)] = o < outputs ? from[o * step + (turned ? taps() - 1 - t : t)] : 0;
  }
  void get_taps(float* to, std::int64_t step, std::int64_t outputs) const {
    for (std::int64_t o = 0; o < outputs; ++o)
      for (int t = 0; t < taps(); ++t) to[o * step + t] = static_cast<float>(taps_[place_of(t, o)]);
  }
  // The vectors of the places, which lie `step` apart.
  void set_places(const float* from, std::int64_t step) {
    for (int p = 0; p < places(); ++p)
      store<lanes>(&places_[place_of(p, 0)], __builtin_convertvector(load<lanes>(from + p * step), vec<double, lanes>));
  }
  void get_places(float* to, std::int64_t step) const {
    for (int p = 0; p < places(); ++p)
      store<lanes>(to + p * step, __builtin_convertvector(load<lanes>(&places_[place_of(p, 0)]), Lanes));
  }

  // Along the rows of a kernel and then along its columns, and back. In between are, for each place of the columns, the
  // rows' taps.
  void to_places() {
    for (int h = 0; h < rows_.r; ++h)
      columns_.kernel({&taps_[place_of(h * columns_.r, 0)], lanes}, {&between_[place_of(h, 0)], rows_.r * lanes, 0},
                      one);
    for (int p = 0; p < columns_.n(); ++p)
      rows_.kernel({&between_[place_of(p * rows_.r, 0)], lanes}, {&places_[place_of(p * rows_.n(), 0)], lanes, 0}, one);
  }
  void to_taps() {
    for (int p = 0; p < columns_.n(); ++p)
      rows_.kernel_grad({&places_[place_of(p * rows_.n(), 0)], lanes, 0}, {&between_[place_of(p * rows_.r, 0)], lanes},
                        one, nullptr);
    for (int h = 0; h < rows_.r; ++h)
      columns_.kernel_grad({&between_[place_of(h, 0)], rows_.r * lanes, 0},
                           {&taps_[place_of(h * columns_.r, 0)], lanes}, one, nullptr);
  }

 private:
  static constexpr Counts one{1, 1, lanes};
  static constexpr int most = 9;  // places along an axis
  static std::size_t place_of(std::int64_t i, std::int64_t lane) { return static_cast<std::size_t>(i * lanes + lane); }

  int taps() const { return rows_.r * columns_.r; }
  int places() const { return rows_.n() * columns_.n(); }

  const CookToomScheme &rows_, &columns_;
  std::array<double, static_cast<std::size_t>(most*most*lanes)> taps_, between_, places_;
};

}  // namespace

Array weight_to_places(const Tiling& tiling, const PlaceMatrices& matrices, const Array& weight, bool turned) {
  const auto& [inputs, outputs] = matrices;
  const std::int64_t taps = tiling.rows.scheme->r * tiling.columns.scheme->r, step = matrices.place_step();
  const Array result = Array::empty({tiling.places(), step});
  const auto* const from = static_cast<const float*>(weight.raw());
  auto* const to = static_cast<float*>(result.raw());
  // A thread writes vector by vector of a panel, in all places side by side.
  parallel_for(padded(outputs) / lanes, result.numel(), [&](std::int64_t v) {
    KernelTransform transform(tiling);
    const std::int64_t o = v * lanes, in_panel = o % matrices.width();
    for (std::int64_t c = 0; c < inputs; ++c) {
      const std::int64_t kernel = turned ? c * outputs + o : o * inputs + c;
      transform.set_taps(from + kernel * taps, turned ? taps : inputs * taps, outputs - o, turned);
      transform.to_places();
      transform.get_places(to + (o - in_panel) * inputs + c * matrices.width() + in_panel, step);
    }
  });
  return result;
}

Array weight_from_places(const Tiling& tiling, std::int64_t inputs, std::int64_t outputs, const float* grads,
                         std::int64_t place_step) {
  const std::int64_t rows = tiling.rows.scheme->r, columns = tiling.columns.scheme->r;
  const Array result = Array::empty({outputs, inputs, rows, columns});
  auto* const to = static_cast<float*>(result.raw());
  parallel_for(inputs, tiling.places() * place_step, [&](std::int64_t c) {
    KernelTransform transform(tiling);
    for (std::int64_t o = 0; o < outputs; o += lanes) {
      transform.set_places(grads + c * padded(outputs) + o, place_step);
      transform.to_taps();
      transform.get_taps(to + (o * inputs + c) * rows * columns, inputs * rows * columns,
                         std::min<std::int64_t>(lanes, outputs - o));
    }
  });
  return result;
}

}  // namespace tandem::cpu
