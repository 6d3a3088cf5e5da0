#include <tandem/core/array/print.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

namespace tandem {

namespace {

constexpr std::int64_t most_elements = 1000;
constexpr std::int64_t edge = 3;  // the number of elements that a shortened dimension shows at each end
constexpr std::size_t line_width = 100;

class Printer {
 public:
  explicit Printer(const Array& array) : cuts_(array.numel() > most_elements) {
    collect(cuts_ ? array : array.to(Device{}));
    format(array.dtype());
    for (const auto& text : texts_) width_ = std::max(width_, text.size());
  }

  std::string print(const Array& array) {
    print(array, 0);
    return std::move(out_);
  }

 private:
  bool is_cut(const Array& array) const { return cuts_ && array.dim(0) > 2 * edge; }

  // Collects the values that will be shown, in their order of output.
  void collect(const Array& array) {
    if (array.ndim() <= 1) {
      if (array.ndim() == 1 && is_cut(array)) {
        take(array.slice(0, 0, edge));
        take(array.slice(0, array.dim(0) - edge, array.dim(0)));
      } else {
        take(array);
      }
      return;
    }
    for_shown(array, [&](std::int64_t i) { collect(array.select(0, i)); });
  }
  void take(const Array& array) {
    if (is_floating(array.dtype())) {
      const auto values = array.to_vector<double>();
      floats_.insert(floats_.end(), values.begin(), values.end());
    } else {
      const auto values = array.to_vector<std::int64_t>();
      integers_.insert(integers_.end(), values.begin(), values.end());
    }
  }
  template <class F>
  void for_shown(const Array& array, const F& f) const {
    const std::int64_t size = array.dim(0);
    for (std::int64_t i = 0; i < size; ++i) {
      if (is_cut(array) && i == edge) i = size - edge;
      f(i);
    }
  }

  void format(DType dtype) {
    for (const auto v : integers_)
      texts_.push_back(dtype == DType::boolean ? (v ? "true" : "false") : std::to_string(v));
    // All values get the same format, which makes them easy to compare.
    double largest = 0, smallest = INFINITY;
    bool whole = true;
    for (const double v : floats_) {
      if (!std::isfinite(v)) continue;
      whole = whole && v == std::trunc(v);
      if (v == 0) continue;
      largest = std::max(largest, std::abs(v));
      smallest = std::min(smallest, std::abs(v));
    }
    const bool powers = largest >= 1e8 || (!whole && (smallest < 1e-4 || largest / smallest > 1e6));
    for (const double v : floats_) {
      char text[64];
      if (!std::isfinite(v)) std::snprintf(text, sizeof text, "%s", std::isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
      else std::snprintf(text, sizeof text, powers ? "%.4e" : whole ? "%.0f." : "%.4f", v);
      texts_.push_back(text);
    }
  }

  void print(const Array& array, std::size_t indent) {
    if (array.ndim() == 0) {
      out_ += texts_[next_++];
      return;
    }
    out_ += '[';
    const bool is_row = array.ndim() == 1;
    // One line break separates two rows, and two separate two matrices.
    const std::string line =
        std::string(static_cast<std::size_t>(std::max(array.ndim() - 1, 1)), '\n') + std::string(indent + 1, ' ');
    std::size_t used = indent + 1;
    bool first = true;
    const auto separate = [&](std::size_t width) {
      if (!first) out_ += ',';
      if (!first && (!is_row || used + 2 + width > line_width)) {
        out_ += line;
        used = indent + 1;
      } else if (!first) {
        out_ += ' ';
        used += 1;
      }
      used += width + 1;
      first = false;
    };
    const auto cut = [&] {
      separate(3);
      out_ += "...";
    };
    std::int64_t shown = 0;
    for_shown(array, [&](std::int64_t i) {
      if (is_cut(array) && shown++ == edge) cut();
      separate(is_row ? width_ : 0);
      if (is_row) out_ += std::string(width_ - texts_[next_].size(), ' ') + texts_[next_], ++next_;
      else print(array.select(0, i), indent + 1);
    });
    out_ += ']';
  }

  const bool cuts_;
  std::vector<double> floats_;
  std::vector<std::int64_t> integers_;
  std::vector<std::string> texts_;
  std::size_t width_ = 0, next_ = 0;
  std::string out_;
};

}  // namespace

std::string values_to_string(const Array& array) {
  if (array.numel() == 0) return "[]";
  const std::string values = Printer(array).print(array);
  return array.ndim() > 1 ? '\n' + values : values;
}

std::string Array::to_string() const {
  if (!defined()) return "Array(undefined)";
  std::ostringstream out;
  const std::string values = values_to_string(*this);
  out << "Array" << shape_ << ' ' << dtype_ << ' ' << device() << (values[0] == '\n' ? "" : " ") << values;
  return out.str();
}

std::ostream& operator<<(std::ostream& out, const Array& array) { return out << array.to_string(); }

}  // namespace tandem
