// Einstein summation.
#pragma once

#include <tandem/autograd/tensor.h>

#include <initializer_list>
#include <span>
#include <string_view>

namespace tandem {

// torch.einsum: einsum("bij,bjk->bik", {a, b}). The equation has one letter for each dimension of each operand. "..."
// represents dimensions that broadcast. The operation sums over the letters that the output lacks. Without "->", the
// output has the letters that occur once, in alphabetical order. A letter that occurs twice in one operand takes the
// diagonal. More than two operands are contracted from left to right, each pair as one (batched) matrix product. Throws
// an Error if letters and sizes don't match.
Tensor einsum(std::string_view equation, std::span<const Tensor> operands);
inline Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands) {
  return einsum(equation, std::span(operands.begin(), operands.size()));
}

}  // namespace tandem
