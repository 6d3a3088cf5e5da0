// Tests einsum's errors for equations that do not fit its operands, and results that no row of the table of operations
// covers.
#include <tandem/autograd/autocast.h>
#include <tandem/autograd/functions/einsum.h>

#include <gtest/gtest.h>

#include "operations/device.h"
#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::counting;
using testing::device;

Tensor numbers(const Shape& shape) { return Tensor(counting(shape).to(device)); }

TEST(EinsumErrors, NameTheSubscript) {
  EXPECT_ERROR(einsum("ij,jk->ik", {numbers({2, 3}), numbers({4, 5})}),
               "subscript 'j' is 3 in operand 0 of shape (2, 3) and 4 in operand 1 of shape (4, 5)");
  EXPECT_ERROR(einsum("ij->ii", {numbers({2, 3})}), "subscript 'i' occurs twice in the output");
  EXPECT_ERROR(einsum("ij->k", {numbers({2, 3})}), "subscript 'k' of the output occurs in no operand");
  EXPECT_ERROR(einsum("ij,jk", {numbers({2, 3})}), "2 subscripts for 1 operands");
  EXPECT_ERROR(einsum("ijk->i", {numbers({2, 3})}), "\"ijk\" names 3 dimensions, but operand 0 has shape (2, 3)");
  EXPECT_ERROR(einsum("ii->i", {numbers({2, 3})}), "subscript 'i' is 2 in operand 0");
  EXPECT_ERROR(einsum("i1->i", {numbers({2, 3})}), "found '1'");
  EXPECT_ERROR(einsum("......->", {numbers({2, 3})}), "occurs twice in");
}

TEST(Einsum, ComputesInTheLowerTypeUnderAutocast) {
  const Autocast autocast(DType::bf16);
  EXPECT_EQ(einsum("ij,jk->ik", {numbers({3, 4}), numbers({4, 5})}).dtype(), DType::bf16);
}

}  // namespace
}  // namespace tandem
