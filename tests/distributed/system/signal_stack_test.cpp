#include <tandem/distributed/system/signal_stack.h>
#include <tandem/nn/models/mnist.h>
#include <tandem/tandem.h>

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <thread>

namespace tandem::distributed {
namespace {

volatile std::uintptr_t place;  // the address of the handler's variables

void note_place(int) {
  int here = 0;
  place = reinterpret_cast<std::uintptr_t>(&here);
}

TEST(SignalStack, IsNotThatOfTheThread) {
  // Each thread has a separate signal stack as long as it lives.
  const auto check = [] {
    int here = 0;
    const auto action = on_signal_stack(note_place);
    struct sigaction before {};
    sigaction(SIGUSR2, &action, &before);
    pthread_kill(pthread_self(), SIGUSR2);
    sigaction(SIGUSR2, &before, nullptr);
    const auto mine = reinterpret_cast<std::uintptr_t>(&here), its = static_cast<std::uintptr_t>(place);
    EXPECT_GT(mine > its ? mine - its : its - mine, std::uintptr_t{16} << 10);
    stack_t stack{};
    sigaltstack(nullptr, &stack);
    const auto base = reinterpret_cast<std::uintptr_t>(stack.ss_sp);
    EXPECT_TRUE(base <= its && its < base + stack.ss_size);
  };
  check();
  for (int i = 0; i < 3; ++i) std::thread(check).join();
}

void do_nothing(int) {}

// Exits with 0 if training that is interrupted 20,000 times a second has the same result as undisturbed training.
[[noreturn]] void train_in_a_storm() {
  const auto action = on_signal_stack(do_nothing);
  sigaction(SIGUSR2, &action, nullptr);
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGUSR2;
  event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
  timer_t timer{};
  const itimerspec period{{0, 50'000}, {0, 50'000}};
  timer_create(CLOCK_MONOTONIC, &event, &timer);
  timer_settime(timer, 0, &period, nullptr);
  {
    manual_seed(1);
    nn::models::MnistNet model;
    const Tensor images(ops::randn({50, 1, 28, 28}, DType::f32, {}, default_generator()));
    Array labels = Array::empty({50}, DType::i64);
    labels.fill(3);
    for (int i = 0; i < 12; ++i) cross_entropy(model(images), labels).backward();
  }
  std::exit(0);
}

TEST(SignalStackDeathTest, ComputesOnThroughSignals) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(train_in_a_storm(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tandem::distributed
