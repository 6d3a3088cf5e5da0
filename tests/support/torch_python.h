// Finds a Python with PyTorch, for tests that compare Tandem with PyTorch itself.
#pragma once

#include <support/process.h>

#include <cstdlib>
#include <string>

namespace tandem::testing {

// The command in TANDEM_PYTHON, or python3. Empty if that Python has no PyTorch.
inline std::string torch_python() {
  static const std::string found = [] {
    const char* given = std::getenv("TANDEM_PYTHON");
    const std::string python = given ? given : "python3";
    const auto check = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)";
    return run_process({"/usr/bin/env", python, "-c", check}).code == 0 ? python : "";
  }();
  return found;
}

// Whether that Python has TensorBoard.
inline bool has_tensorboard() {
  const auto check = "import importlib.util, sys; sys.exit(importlib.util.find_spec('tensorboard') is None)";
  return !torch_python().empty() && run_process({"/usr/bin/env", torch_python(), "-c", check}).code == 0;
}

}  // namespace tandem::testing

#define TANDEM_NEEDS_TENSORBOARD() \
  if (!::tandem::testing::has_tensorboard()) GTEST_SKIP() << "NOT RUN: no Python with TensorBoard here"

#define TANDEM_NEEDS_TORCH()                                                                                  \
  if (::tandem::testing::torch_python().empty())                                                              \
  GTEST_SKIP() << "NOT RUN: no Python with PyTorch here; name one in TANDEM_PYTHON to test against the real " \
                  "thing"
