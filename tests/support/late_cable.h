// A cable between two network namespaces that delays every frame. Some kernels lack netem, the module that can delay
// frames, so a thread of the test carries them between two virtual network cards.
#pragma once

#include <tandem/core/base/check.h>

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <string>
#include <thread>
#include <vector>

namespace tandem::testing {

class LateCable {
 public:
  // Makes a network card cards[i] in namespace names[i]. Throws an Error if the system does not allow it.
  LateCable(const std::array<std::string, 2>& names, const std::array<std::string, 2>& cards,
            std::chrono::milliseconds delay)
      : delay_(delay) {
    for (int i = 0; i < 2; ++i) {
      // Only the thread that makes the card may enter the namespace.
      std::string problem;
      std::thread([&] { problem = open_card(i, names[i], cards[i]); }).join();
      TANDEM_CHECK(problem.empty(), problem);
    }
    carrier_ = std::thread([this] { carry(); });
  }
  ~LateCable() {
    stopping_ = true;
    carrier_.join();
    for (const int card : cards_) close(card);
  }
  LateCable(const LateCable&) = delete;
  LateCable& operator=(const LateCable&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  struct Frame {
    Clock::time_point due;
    std::vector<char> bytes;
  };

  std::string open_card(int i, const std::string& name, const std::string& card) {
    const int space = open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) != 0) return "cannot enter " + name + ": " + std::strerror(errno);
    close(space);
    cards_[i] = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    ifreq request{};
    request.ifr_flags = IFF_TAP | IFF_NO_PI;
    card.copy(request.ifr_name, IFNAMSIZ - 1);
    if (cards_[i] < 0 || ioctl(cards_[i], TUNSETIFF, &request) != 0)
      return "cannot make the network card " + card + ": " + std::strerror(errno);
    return "";
  }

  void carry() {
    std::array<std::deque<Frame>, 2> under_way;  // by the card that sent the frames
    char bytes[70000];
    while (!stopping_) {
      pollfd ready[2] = {{cards_[0], POLLIN, 0}, {cards_[1], POLLIN, 0}};
      poll(ready, 2, 1);
      const auto now = Clock::now();
      for (int i = 0; i < 2; ++i) {
        for (ssize_t n; (n = read(cards_[i], bytes, sizeof bytes)) > 0;)
          under_way[i].push_back({now + delay_, {bytes, bytes + n}});
        for (auto& frames = under_way[i]; !frames.empty() && frames.front().due <= now; frames.pop_front()) {
          // A frame that the card does not accept is lost, as on a real cable.
          [[maybe_unused]] const auto written =
              write(cards_[1 - i], frames.front().bytes.data(), frames.front().bytes.size());
        }
      }
    }
  }

  const std::chrono::milliseconds delay_;
  std::array<int, 2> cards_{-1, -1};
  std::atomic<bool> stopping_{false};
  std::thread carrier_;
};

}  // namespace tandem::testing
