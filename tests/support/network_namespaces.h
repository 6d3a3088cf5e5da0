// Two hosts for tests: two network namespaces of this machine, joined by a virtual cable.
#pragma once

#include <support/process.h>

#include <unistd.h>

#include <string>
#include <vector>

namespace tandem::testing {

class NetworkNamespaces {
 public:
  NetworkNamespaces() {
    for (int i = 0; i < 2 && problem_.empty(); ++i) run({"ip", "netns", "add", name(i)});
    run({"ip", "link", "add", cable(0), "netns", name(0), "type", "veth", "peer", "name", cable(1), "netns", name(1)});
    for (int i = 0; i < 2; ++i) {
      run({"ip", "-n", name(i), "address", "add", address(i) + "/24", "dev", cable(i)});
      run({"ip", "-n", name(i), "link", "set", cable(i), "up"});
      run({"ip", "-n", name(i), "link", "set", "lo", "up"});
    }
  }
  ~NetworkNamespaces() {
    // Deleting a namespace that was never made does nothing. The cable disappears with the namespaces.
    for (int i = 0; i < 2; ++i) run_process({"sh", "-c", "ip netns del " + name(i) + " 2>&1"});
  }
  NetworkNamespaces(const NetworkNamespaces&) = delete;
  NetworkNamespaces& operator=(const NetworkNamespaces&) = delete;

  bool are_usable() const { return problem_.empty(); }
  const std::string& problem() const { return problem_; }  // why the namespaces are not usable

  // The beginning of a command that is to run on host 0 or 1. The command takes over the process.
  std::vector<std::string> in(int host) const { return {"ip", "netns", "exec", name(host)}; }
  std::string address(int host) const { return "10.213.77." + std::to_string(host + 1); }
  std::string network() const { return "10.213.77.0/24"; }
  // From now on nothing gets through the cable, and neither host is told.
  void cut() { run({"ip", "-n", name(0), "link", "set", cable(0), "down"}); }

 private:
  std::string name(int host) const { return "tandem-" + std::to_string(getpid()) + "-" + std::to_string(host); }
  std::string cable(int host) const { return "cable" + std::to_string(host); }
  void run(const std::vector<std::string>& command) {
    if (!problem_.empty()) return;
    // The command runs in a shell, so that there is an error message when the program `ip` is missing.
    std::vector<std::string> words = {"sh", "-c", "exec \"$@\"", "sh"};
    words.insert(words.end(), command.begin(), command.end());
    const auto outcome = run_process(words);
    if (outcome.code != 0) problem_ = outcome.err;
  }

  std::string problem_;
};

}  // namespace tandem::testing
