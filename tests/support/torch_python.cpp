#include <support/process.h>
#include <support/torch_python.h>

#include <cstdlib>

namespace tandem::testing {

std::string torch_python() {
  static const std::string found = [] {
    const char* given = std::getenv("TANDEM_PYTHON");
    const std::string python = given ? given : "python3";
    const auto check = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)";
    return run_process({"/usr/bin/env", python, "-c", check}).code == 0 ? python : "";
  }();
  return found;
}

bool has_tensorboard() {
  const auto check = "import importlib.util, sys; sys.exit(importlib.util.find_spec('tensorboard') is None)";
  return !torch_python().empty() && run_process({"/usr/bin/env", torch_python(), "-c", check}).code == 0;
}

}  // namespace tandem::testing
