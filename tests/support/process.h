// Runs programs under test as processes.
#pragma once

#include <support/temporary_folder.h>

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tandem::testing {

extern const std::string tandemrun;  // the path of the built program

struct Outcome {
  int code = -1;  // the exit code, or 128 + the signal; -1: killed, because it did not end in time
  std::string out, err;
  double seconds = 0;
};

// Starts the program command[0], which is looked up in PATH, without input. The other words are its arguments. Its
// environment is that of this process, changed by `variables` ("" removes a variable). Its output goes to the files
// `out` and `err` in `folder`.
pid_t start_process(std::vector<std::string> command, const std::map<std::string, std::string>& variables,
                    const TemporaryFolder& folder);

// Runs a program as start_process does, and waits for its end. If `variables` has no TMPDIR, the program gets a
// separate folder for temporary files, which is removed afterwards. `is_stuck` is called repeatedly, and returns
// whether the program will never end. The program is killed if it is stuck, and after `timeout`.
Outcome run_process(std::vector<std::string> command, const std::map<std::string, std::string>& variables = {},
                    std::chrono::seconds timeout = std::chrono::seconds(120),
                    const std::function<bool(pid_t)>& is_stuck = {});

}  // namespace tandem::testing
