// run_program: the main() function of a program without its own options. A training program, with the options that all
// training programs share, calls TrainingOptions::run instead.
#pragma once

#include <tandem/core/base/check.h>

#include <functional>
#include <string>

namespace tandem::distributed {

// Thrown for a wrong command line. The message names the argument, its value and the allowed values. The exit code is
// 2.
struct UsageError : Error {
  using Error::Error;
};

struct ProgramInfo {
  std::string name;        // the prefix of errors
  std::string usage;       // for --help, which prints "Usage: NAME USAGE"
  int most_arguments = 0;  // the number of arguments that `body` reads itself; more are an error
};

// Handles --help and --version, or calls `body`. Returns the exit code of the program:
//   0  `body` has returned, or the option was --help or --version
//   1  `body` threw, or writing to standard output failed. The message goes to stderr and to the launcher.
//   2  there are more than `most_arguments` arguments, or `body` threw a UsageError
int run_program(int argc, const char* const* argv, const ProgramInfo& info, const std::function<void()>& body);

}  // namespace tandem::distributed
