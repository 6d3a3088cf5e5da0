#include <tandem/distributed/system/signal_stack.h>

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <memory>

namespace tandem::distributed {
namespace {

class SignalStack {
 public:
  SignalStack() {
    stack_t now{};
    if (sigaltstack(nullptr, &now) != 0 || !(now.ss_flags & SS_DISABLE)) return;
    // There is room for the registers of this processor, and many times the need of Tandem's handlers.
    const std::size_t bytes = static_cast<std::size_t>(std::max(0L, sysconf(_SC_SIGSTKSZ))) + (std::size_t{64} << 10);
    memory_ = std::make_unique<std::byte[]>(bytes);
    stack_t mine{};
    mine.ss_sp = memory_.get();
    mine.ss_size = bytes;
    sigaltstack(&mine, nullptr);
  }
  ~SignalStack() {
    if (!memory_) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace

struct sigaction on_signal_stack(void (*handler)(int)) {
  static thread_local const SignalStack stack;
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  return action;
}

}  // namespace tandem::distributed
