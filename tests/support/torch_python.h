// Finds a Python with PyTorch, for tests that compare Tandem with PyTorch itself.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace tandem::testing {

// The command in TANDEM_PYTHON, or python3. Empty if that Python has no PyTorch.
std::string torch_python();

// Whether that Python has TensorBoard.
bool has_tensorboard();

}  // namespace tandem::testing

#define TANDEM_NEEDS_TENSORBOARD() \
  if (!::tandem::testing::has_tensorboard()) GTEST_SKIP() << "NOT RUN: no Python with TensorBoard here"

#define TANDEM_NEEDS_TORCH()                                                                                  \
  if (::tandem::testing::torch_python().empty())                                                              \
  GTEST_SKIP() << "NOT RUN: no Python with PyTorch here; name one in TANDEM_PYTHON to test against the real " \
                  "thing"
