// Two network namespaces of this machine, joined by a virtual cable. They replace two hosts in tests.
#pragma once

#include <support/late_cable.h>
#include <support/process.h>

#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace tandem::testing {

class NetworkNamespaces {
 public:
  // `delay` is the time that each frame takes.
  explicit NetworkNamespaces(std::chrono::milliseconds delay = {}) {
    for (int i = 0; i < 2 && problem_.empty(); ++i) run({"ip", "netns", "add", name(i)});
    if (delay.count() == 0) {
      run({"ip", "link", "add", cable(0), "netns", name(0), "type", "veth", "peer", "name", cable(1), "netns",
           name(1)});
    } else if (problem_.empty()) {
      try {
        late_ = std::make_unique<LateCable>(std::array{name(0), name(1)}, std::array{cable(0), cable(1)}, delay);
      } catch (const Error& error) {
        problem_ = error.what();
      }
    }
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

  // The first words of a command that is to run on host 0 or 1. `ip` executes the command in its own process.
  std::vector<std::string> in(int host) const { return {"ip", "netns", "exec", name(host)}; }
  std::string address(int host) const { return "10.213.77." + std::to_string(host + 1); }
  std::string network() const { return "10.213.77.0/24"; }
  // From now on the cable loses all frames, and neither host is told.
  void cut() { run({"ip", "-n", name(0), "link", "set", cable(0), "down"}); }
  // From now on host 0 can't reach host 1.
  void cut_one_way() { run({"ip", "-n", name(0), "route", "add", "blackhole", address(1) + "/32"}); }
  // Ends all TCP connections between the hosts, and tells both ends.
  void reset() { run({"ip", "netns", "exec", name(0), "ss", "--kill", "--numeric", "dst", address(1)}); }
  // From now on both hosts send at most `rate` ("1mbit").
  void slow_down(const std::string& rate) {
    for (int i = 0; i < 2; ++i)
      run({"ip", "netns", "exec", name(i), "tc", "qdisc", "add", "dev", cable(i), "root", "tbf", "rate", rate, "burst",
           "10kb", "latency", "100ms"});
  }

 private:
  std::string name(int host) const { return "tandem-" + std::to_string(getpid()) + "-" + std::to_string(host); }
  std::string cable(int host) const { return "cable" + std::to_string(host); }
  void run(const std::vector<std::string>& command) {
    if (!problem_.empty()) return;
    // The command runs in a shell, so that there is an error message if the program `ip` is missing.
    std::vector<std::string> words = {"sh", "-c", "exec \"$@\"", "sh"};
    words.insert(words.end(), command.begin(), command.end());
    const auto outcome = run_process(words);
    if (outcome.code != 0) problem_ = outcome.err;
  }

  std::string problem_;
  std::unique_ptr<LateCable> late_;
};

}  // namespace tandem::testing
