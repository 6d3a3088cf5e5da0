#include <tandem/autograd/functions/einsum.h>
#include <tandem/autograd/functions/elementwise.h>
#include <tandem/autograd/functions/linear.h>
#include <tandem/autograd/functions/reduce.h>
#include <tandem/autograd/functions/views.h>
#include <tandem/autograd/operation.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/ops.h>

#include <algorithm>
#include <cctype>
#include <string>

namespace tandem {

using namespace autograd;

namespace {

// The names of dimensions, one character each. A dimension that the equation names has its letter. The dimensions that
// "..." represents have digits, and the last of them is 0.
using Labels = std::string;

bool contains(const Labels& labels, char label) { return labels.find(label) != Labels::npos; }

struct Term {
  Tensor tensor;
  Labels labels;
  std::int64_t size(char label) const { return tensor.shape()[static_cast<int>(labels.find(label))]; }
};

struct Equation {
  std::string text;
  std::vector<Labels> inputs;
  Labels output;

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    detail::fail("einsum \"", text, "\": ", parts...);
  }
};

// The labels of the dimensions in `subscripts`. "..." represents `ellipsis` dimensions.
Labels labels_of(const Equation& equation, std::string_view subscripts, int ellipsis) {
  Labels labels;
  for (std::size_t i = 0; i < subscripts.size(); ++i) {
    const char c = subscripts[i];
    if (std::isalpha(static_cast<unsigned char>(c))) {
      labels += c;
    } else if (subscripts.substr(i, 3) == "...") {
      for (int d = ellipsis - 1; d >= 0; --d) {
        if (contains(labels, static_cast<char>('0' + d))) equation.fail("\"...\" occurs twice in \"", subscripts, '"');
        labels += static_cast<char>('0' + d);
      }
      i += 2;
    } else {
      equation.fail("found '", c, "', expected letters, \"...\", ',' and \"->\"");
    }
  }
  return labels;
}

Equation parse(std::string_view text, std::span<const Tensor> operands) {
  Equation equation{std::string(text), {}, {}};
  std::string dense;
  for (const char c : text)
    if (!std::isspace(static_cast<unsigned char>(c))) dense += c;
  const std::size_t arrow = dense.find("->");
  std::vector<std::string> parts(1);
  for (const char c : dense.substr(0, arrow)) {
    if (c == ',') parts.emplace_back();
    else parts.back() += c;
  }
  if (parts.size() != operands.size()) equation.fail(parts.size(), " subscripts for ", operands.size(), " operands");
  int most_ellipsis = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const int ndim = operands[i].shape().ndim();
    const int letters = static_cast<int>(
        std::ranges::count_if(parts[i], [](char c) { return std::isalpha(static_cast<unsigned char>(c)); }));
    const bool has_ellipsis = parts[i].find("...") != std::string::npos;
    equation.inputs.push_back(labels_of(equation, parts[i], ndim - letters));
    if (letters > ndim || (letters < ndim && !has_ellipsis))
      equation.fail("\"", parts[i], "\" names ", letters, " dimensions, but operand ", i, " has shape ",
                    operands[i].shape());
    if (has_ellipsis) most_ellipsis = std::max(most_ellipsis, ndim - letters);
  }
  if (arrow != std::string::npos) {
    equation.output = labels_of(equation, std::string_view(dense).substr(arrow + 2), most_ellipsis);
  } else {
    Labels all;
    for (const Labels& labels : equation.inputs) all += labels;
    equation.output = labels_of(equation, "...", most_ellipsis);
    Labels once;
    for (const char c : all)
      if (!std::isdigit(static_cast<unsigned char>(c)) && std::ranges::count(all, c) == 1) once += c;
    std::ranges::sort(once);
    equation.output += once;
  }
  for (const char label : equation.output) {
    if (std::ranges::count(equation.output, label) > 1)
      equation.fail("subscript '", label, "' occurs twice in the output");
    if (std::ranges::none_of(equation.inputs, [&](const Labels& l) { return contains(l, label); }))
      equation.fail("subscript '", label, "' of the output occurs in no operand");
  }
  return equation;
}

// Checks that all dimensions with the same label have the same size. A size of 1 is compatible with every size.
void check_sizes(const Equation& equation, std::span<const Tensor> operands) {
  struct Seen {
    std::int64_t size = 1;
    std::size_t operand = 0;
  };
  Seen seen[128];
  for (std::size_t i = 0; i < operands.size(); ++i)
    for (std::size_t d = 0; d < equation.inputs[i].size(); ++d) {
      const char label = equation.inputs[i][d];
      const std::int64_t size = operands[i].shape()[static_cast<int>(d)];
      Seen& before = seen[static_cast<unsigned char>(label)];
      if (size == 1) continue;
      if (before.size != 1 && before.size != size)
        equation.fail("subscript '", label, "' is ", before.size, " in operand ", before.operand, " of shape ",
                      operands[before.operand].shape(), " and ", size, " in operand ", i, " of shape ",
                      operands[i].shape());
      before = {size, i};
    }
}

Term make_term(const Equation& equation, const Tensor& operand, Labels labels) {
  Term term{operand, std::move(labels)};
  for (std::size_t second = 0; second < term.labels.size();) {
    const std::size_t first = term.labels.find(term.labels[second]);
    if (first == second) {
      ++second;
      continue;
    }
    const int a = static_cast<int>(first), b = static_cast<int>(second);
    if (term.tensor.shape()[a] != term.tensor.shape()[b])
      equation.fail("subscript '", term.labels[first], "' is both ", term.tensor.shape()[a], " and ",
                    term.tensor.shape()[b], " in one operand of shape ", operand.shape());
    const char label = term.labels[first];
    term.tensor = diagonal(term.tensor, 0, a, b);  // the dimension of the diagonal comes last
    term.labels.erase(second, 1);
    term.labels.erase(first, 1);
    term.labels += label;
    second = 0;
  }
  return term;
}

// Sums the term over the dimensions whose label `goes` accepts, and removes these dimensions.
template <class Goes>
Term sum_over(const Term& term, Goes goes) {
  Dims dims;
  Labels kept;
  for (std::size_t d = 0; d < term.labels.size(); ++d) {
    if (goes(term.labels[d])) dims.push_back(static_cast<std::int64_t>(d));
    else kept += term.labels[d];
  }
  return dims.ndim() == 0 ? term : Term{sum(term.tensor, dims), kept};
}

Tensor in_order(const Term& term, const Labels& wanted) {
  if (term.labels == wanted) return term.tensor;
  Dims order;
  for (const char label : wanted) order.push_back(static_cast<std::int64_t>(term.labels.find(label)));
  return permute(term.tensor, order);
}

Tensor in_shape(const Tensor& x, const Shape& shape) { return x.shape() == shape ? x : reshape(x, shape); }

std::int64_t size_of(const Term& term, const Labels& labels) {
  std::int64_t size = 1;
  for (const char label : labels) size *= term.size(label);
  return size;
}

// The product of two terms, summed over all labels that `needed` does not contain.
Term contract(const Equation& equation, Term a, Term b, const Labels& needed) {
  a = sum_over(a, [&](char l) { return !contains(b.labels, l) && !contains(needed, l); });
  b = sum_over(b, [&](char l) { return !contains(a.labels, l) && !contains(needed, l); });
  // A label that is summed may have size 1 in one of the terms. That term then broadcasts along this dimension. So each
  // term is summed over that label before the product.
  const auto is_repeated = [&](char l) {
    return !contains(needed, l) && contains(a.labels, l) && contains(b.labels, l) && a.size(l) != b.size(l);
  };
  Labels repeated;
  for (const char l : a.labels)
    if (is_repeated(l)) repeated += l;
  a = sum_over(a, [&](char l) { return contains(repeated, l); });
  b = sum_over(b, [&](char l) { return contains(repeated, l); });

  Labels batch, inner, left, right;
  for (const char l : a.labels) (!contains(b.labels, l) ? left : contains(needed, l) ? batch : inner) += l;
  for (const char l : b.labels)
    if (!contains(a.labels, l)) right += l;
  Term result{{}, batch + left + right};
  if (result.labels.size() > Dims::max_ndim || batch.size() + 2 > Dims::max_ndim)
    equation.fail("an intermediate product has more than ", Dims::max_ndim, " dimensions");
  Shape batch_a, batch_b, shape;
  for (const char l : batch) {
    batch_a.push_back(a.size(l));
    batch_b.push_back(b.size(l));
    shape.push_back(a.size(l) == 1 ? b.size(l) : a.size(l));
  }
  for (const char l : left) shape.push_back(a.size(l));
  for (const char l : right) shape.push_back(b.size(l));
  if (inner.empty()) {
    Shape shape_a = batch_a, shape_b = batch_b;
    for (const char l : left) shape_a.push_back(a.size(l));
    for (std::size_t i = 0; i < right.size(); ++i) shape_a.push_back(1);
    for (std::size_t i = 0; i < left.size(); ++i) shape_b.push_back(1);
    for (const char l : right) shape_b.push_back(b.size(l));
    result.tensor = mul(in_shape(in_order(a, batch + left), shape_a), in_shape(in_order(b, batch + right), shape_b));
    return result;
  }
  batch_a.push_back(size_of(a, left));
  batch_a.push_back(size_of(a, inner));
  batch_b.push_back(size_of(b, inner));
  batch_b.push_back(size_of(b, right));
  result.tensor = in_shape(matmul(in_shape(in_order(a, batch + left + inner), batch_a),
                                  in_shape(in_order(b, batch + inner + right), batch_b)),
                           shape);
  return result;
}

}  // namespace

Tensor einsum(std::string_view text, std::span<const Tensor> operands) {
  const Scope scope("einsum");
  TANDEM_CHECK(!operands.empty(), "einsum \"", text, "\": expected at least one operand");
  const Equation equation = parse(text, operands);
  check_sizes(equation, operands);
  Term result = make_term(equation, operands[0], equation.inputs[0]);
  for (std::size_t i = 1; i < operands.size(); ++i) {
    Labels needed = equation.output;
    for (std::size_t later = i + 1; later < operands.size(); ++later) needed += equation.inputs[later];
    result = contract(equation, result, make_term(equation, operands[i], equation.inputs[i]), needed);
  }
  result = sum_over(result, [&](char l) { return !contains(equation.output, l); });
  return in_order(result, equation.output);
}

}  // namespace tandem
