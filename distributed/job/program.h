// run_program: what main() of a program without options of its own does. A program that trains with the options of all
// training programs has TrainingOptions::run in its place.
#pragma once

#include <tandem/core/base/check.h>

#include <functional>
#include <string>

namespace tandem::distributed {

// A wrong command line. The message names the argument, what was given and what is allowed. The exit code is 2.
struct UsageError : Error {
  using Error::Error;
};

struct ProgramInfo {
  std::string name;        // stands in front of errors
  std::string usage;       // for --help, which prints "Usage: NAME USAGE"
  int most_arguments = 0;  // how many arguments `body` reads itself; one more is an error
};

// Answers --help and --version, or calls `body`. Returns the exit code of the program:
//   0  `body` has returned, or --help or --version was asked for
//   1  `body` threw, or standard output took no more. The message goes to stderr, and to the launcher.
//   2  there are more than `most_arguments` arguments, or `body` threw a UsageError
int run_program(int argc, const char* const* argv, const ProgramInfo& info, const std::function<void()>& body);

}  // namespace tandem::distributed
