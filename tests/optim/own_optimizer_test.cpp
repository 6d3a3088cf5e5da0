// An optimizer that the library does not know, written against its public headers alone, as a program would: LARS (You,
// Gitman, Ginsburg, arXiv:1708.03888), whose step needs norms of whole parameters.
#include <tandem/autograd/functions.h>
#include <tandem/core/ops.h>
#include <tandem/optim/clip.h>
#include <tandem/optim/lr_scheduler.h>
#include <tandem/optim/optimizer.h>
#include <tandem/optim/state_file.h>

#include <gtest/gtest.h>

#include <cmath>

#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::array_of;

struct LarsOptions {
  double lr = 0.1;
  double momentum = 0.9;
  double trust = 0.01;

  void check(const char* optimizer) const {
    optim::check_option(optimizer, "lr", lr);
    optim::check_fraction(optimizer, "momentum", momentum);
    optim::check_option(optimizer, "trust", trust);
  }
  template <class Self, class F>
  static void visit(Self& self, F f) {
    f("lr", self.lr);
    f("momentum", self.momentum);
    f("trust", self.trust);
  }
};

using LarsGroup = optim::ParameterGroup<LarsOptions>;

// v = momentum * v + lr * trust * |p| / |g| * g,  p = p - v
class Lars : public optim::OptimizerOf<LarsOptions> {
 public:
  explicit Lars(const std::vector<LarsGroup>& groups) : OptimizerOf("Lars::step", "Lars", groups) {}

 private:
  optim::KeptState kept_state(int) const override { return {.names = {"momentum_buffer"}, .counts = true}; }

  void update(int group, std::span<optim::ParameterUpdate> updates) override {
    const NoGrad no_grad;
    const LarsOptions& o = options(group);
    for (optim::ParameterUpdate& u : updates) {
      const Tensor p = u.parameter, g = u.gradient, v = u.state[0];
      const Tensor next = o.momentum * v + o.lr * o.trust * norm(p) / norm(g) * g;
      u.state[0].copy_from(next.value());
      u.parameter.copy_from((p - next).value());
      u.count.fill(u.count.item() + 1);
    }
  }
};

double norm_of(const std::vector<double>& numbers) {
  double sum = 0;
  for (const double n : numbers) sum += n * n;
  return std::sqrt(sum);
}

struct Job {
  Tensor a = Tensor(array_of({3.0f, 4.0f}), true), b = Tensor(array_of({1.0f}), true);
  Lars optimizer{{LarsGroup{{{"a", a}}, {.lr = 0.5}}, LarsGroup{{{"b", b}}, {.lr = 0.25, .momentum = 0}}}};
  void step() {
    a.set_grad(array_of({0.6f, -0.8f}));
    b.set_grad(array_of({-2.0f}));
    optimizer.step();
  }
};

TEST(OwnOptimizer, MovesParametersByItsFormula) {
  Job job;
  std::vector<double> p{3, 4}, v{0, 0};
  for (int step = 0; step < 3; ++step) {
    job.step();
    const double rate = 0.5 * 0.01 * norm_of(p) / 1.0;
    v = {0.9 * v[0] + rate * 0.6, 0.9 * v[1] - rate * 0.8};
    p = {p[0] - v[0], p[1] - v[1]};
    const auto now = job.a.value().to_vector<double>();
    EXPECT_NEAR(now[0], p[0], 1e-6);
    EXPECT_NEAR(now[1], p[1], 1e-6);
  }
  EXPECT_NEAR(job.b.item(), std::pow(1 + 0.25 * 0.01, 3), 1e-6);
}

TEST(OwnOptimizer, GoesWithSchedulesAndClipping) {
  Job job;
  optim::LrScheduler schedule(job.optimizer, optim::StepLR{.step_size = 1, .gamma = 0.5});
  job.a.set_grad(array_of({6.0f, -8.0f}));
  job.b.set_grad(Array());
  EXPECT_NEAR(optim::clip_grad_norm_(job.optimizer.parameters(), 1.0).item(), 10.0, 1e-5);
  job.optimizer.step();
  EXPECT_NEAR(job.a.value().to_vector<double>()[0], 3 - 0.5 * 0.01 * 5 * 0.6, 1e-5);
  EXPECT_EQ(job.b.item(), 1) << "it had no gradient";
  schedule.step();
  EXPECT_EQ(job.optimizer.lr(0), 0.25);
  EXPECT_EQ(job.optimizer.lr(1), 0.125);
}

TEST(OwnOptimizer, ItsStateGoesThroughAFile) {
  const testing::TemporaryFolder folder;
  Job through, stopped, resumed;
  for (int i = 0; i < 5; ++i) through.step();
  for (int i = 0; i < 2; ++i) stopped.step();
  optim::save_optimizer(folder.path() / "lars.safetensors", stopped.optimizer);
  const auto state = stopped.optimizer.state_dict();
  ASSERT_EQ(state.size(), 4u);
  EXPECT_EQ(state[0].name, "a/momentum_buffer");
  EXPECT_EQ(state[1].name, "a/step");
  EXPECT_EQ(state[1].array.item(), 2);

  Array(resumed.a.value()).copy_from(stopped.a.value());
  Array(resumed.b.value()).copy_from(stopped.b.value());
  optim::load_optimizer(folder.path() / "lars.safetensors", resumed.optimizer);
  for (int i = 0; i < 3; ++i) resumed.step();
  EXPECT_EQ(resumed.a.value().to_vector<float>(), through.a.value().to_vector<float>());
  EXPECT_EQ(resumed.b.value().to_vector<float>(), through.b.value().to_vector<float>());
}

TEST(OwnOptimizer, ItsOptionsAreChecked) {
  Job job;
  EXPECT_ERROR(job.optimizer.set_group_options(0, {{"momentum", 1.5}}), "Lars", "momentum", "1.5");
  EXPECT_ERROR(job.optimizer.set_group_options(0, {{"beta", 1.0}}), "Lars has no option beta");
  EXPECT_EQ(job.optimizer.name(), "Lars");
}

}  // namespace
}  // namespace tandem
