// A program under test that runs at the same time as the test, which can watch and disturb it.
#pragma once

#include <support/process.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tandem::testing {

// Waits until `condition` holds. Returns false if it does not hold in time.
bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds timeout = std::chrono::seconds(20));

class RunningProcess {
 public:
  // The program command[0] is looked up in PATH. Its environment is that of this process, changed by `variables`. Its
  // folder for temporary files is removed with this object.
  explicit RunningProcess(std::vector<std::string> command, std::map<std::string, std::string> variables = {});
  ~RunningProcess();
  RunningProcess(const RunningProcess&) = delete;
  RunningProcess& operator=(const RunningProcess&) = delete;

  void send(int signal) const;

  // Waits for the end of the process. Returns its exit code, or 128 + the signal that ended it. If it does not end in
  // time, the test fails and the result is -1.
  int finish(std::chrono::milliseconds timeout = std::chrono::seconds(60));

  std::string out() const { return read_bytes(folder_ / "out"); }
  std::string err() const { return read_bytes(folder_ / "err"); }

 private:
  TemporaryFolder folder_;
  pid_t pid_ = -1;
};

}  // namespace tandem::testing
