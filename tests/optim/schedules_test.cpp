#include <tandem/core/ops.h>
#include <tandem/optim/adam.h>
#include <tandem/optim/lr_scheduler.h>
#include <tandem/optim/sgd.h>

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using namespace optim;  // NOLINT: as a program would
using Json = nlohmann::json;

Json golden() { return Json::parse(std::ifstream(std::string(TANDEM_SOURCE_DIR) + "/tests/golden/schedules.json")); }

// Makes an optimizer with one parameter in each group.
std::unique_ptr<Optimizer> make_optimizer(const std::vector<double>& lrs, const std::string& kind = "SGD") {
  const auto p = [] { return std::vector<NamedTensor>{{"p", Tensor(ops::zeros({1}), true)}}; };
  if (kind == "SGD")
    return std::make_unique<SGD>(
        std::vector<SGDGroup>{{p(), {.lr = lrs[0], .momentum = 0.9}}, {p(), {.lr = lrs[1], .momentum = 0.9}}});
  return std::make_unique<Adam>(std::vector<AdamGroup>{{p(), {.lr = lrs[0]}}, {p(), {.lr = lrs[1]}}});
}

std::vector<Schedule> schedules_of(const Json& row) {
  const std::string name = row.at("schedule");
  const Json& o = row.at("options");
  if (name == "StepLR") return {StepLR{o.at("step_size"), o.value("gamma", 0.1)}};
  if (name == "MultiStepLR") return {MultiStepLR{o.at("milestones"), o.value("gamma", 0.1)}};
  if (name == "ExponentialLR") return {ExponentialLR{o.at("gamma")}};
  if (name == "CosineAnnealingLR") return {CosineAnnealingLR{o.at("T_max"), o.value("eta_min", 0.0)}};
  if (name == "CosineAnnealingWarmRestarts")
    return {CosineAnnealingWarmRestarts{o.at("T_0"), o.value("T_mult", 1), o.value("eta_min", 0.0)}};
  if (name == "PolynomialLR") return {PolynomialLR{o.value("total_iters", 5), o.value("power", 1.0)}};
  if (name == "LinearLR")
    return {LinearLR{o.value("start_factor", 1.0 / 3), o.value("end_factor", 1.0), o.value("total_iters", 5)}};
  if (name == "ConstantLR") return {ConstantLR{o.value("factor", 1.0 / 3), o.value("total_iters", 5)}};
  if (name == "OneCycleLR")
    return {OneCycleLR{.max_lr = o.at("max_lr"),
                       .total_steps = o.contains("total_steps")
                                          ? o.at("total_steps").get<std::int64_t>()
                                          : o.at("epochs").get<std::int64_t>() * o.at("steps_per_epoch").get<int>(),
                       .pct_start = o.value("pct_start", 0.3),
                       .anneal_strategy = o.value("anneal_strategy", "cos") == "cos" ? Anneal::cos : Anneal::linear,
                       .cycle_momentum = o.value("cycle_momentum", true),
                       .base_momentum = o.value("base_momentum", 0.85),
                       .max_momentum = o.value("max_momentum", 0.95),
                       .div_factor = o.value("div_factor", 25.0),
                       .final_div_factor = o.value("final_div_factor", 1e4),
                       .three_phase = o.value("three_phase", false)}};
  if (name == "LambdaLR") return {LambdaLR{[](std::int64_t step) { return 1.0 / static_cast<double>(1 + step); }}};
  if (name == "LambdaLR_groups")
    return {LambdaLR{[](std::int64_t step) { return std::pow(0.95, step); }},
            LambdaLR{[](std::int64_t step) { return 1 + static_cast<double>(step); }}};
  const std::string which = o.at("case");
  if (which == "warm_up_cosine") return {SequentialLR{{LinearLR{0.1, 1, 5}, CosineAnnealingLR{.T_max = 25}}, {5}}};
  if (which == "three") return {SequentialLR{{ConstantLR{0.1, 4}, ExponentialLR{0.9}, StepLR{3, 0.5}}, {4, 14}}};
  if (which == "constant_exponential") return {ChainedScheduler{{ConstantLR{0.1, 4}, ExponentialLR{0.9}}}};
  if (which == "linear_step_cosine")
    return {ChainedScheduler{{LinearLR{0.2, 1, 6}, MultiStepLR{{8, 20}, 0.3}, CosineAnnealingLR{.T_max = 40}}}};
  detail::fail("no schedule ", name);
}

std::unique_ptr<LrScheduler> attach(Optimizer& optimizer, const Json& row) {
  auto schedules = schedules_of(row);
  if (schedules.size() == 1) return std::make_unique<LrScheduler>(optimizer, schedules[0]);
  return std::make_unique<LrScheduler>(optimizer, std::move(schedules));
}

TEST(Schedules, EqualPyTorchs) {
  const Json rows = golden().at("schedules");
  EXPECT_EQ(rows.size(), 34u);
  for (const Json& row : rows) {
    SCOPED_TRACE(row.at("schedule").dump() + " " + row.at("options").dump() + " " + row.at("optimizer").dump());
    const auto optimizer = make_optimizer(row.at("base_lrs"), row.at("optimizer"));
    const auto schedule = attach(*optimizer, row);
    for (std::size_t step = 0; step < row.at("lrs").size(); ++step) {
      if (step > 0) schedule->step();
      for (int group = 0; group < 2; ++group) {
        const double expected = row.at("lrs")[step][group];
        // PyTorch computes each learning rate from the previous one, and accumulates rounding errors.
        EXPECT_NEAR(optimizer->lr(group), expected, 1e-13 + 1e-12 * expected) << "step " << step << ", group " << group;
        EXPECT_EQ(schedule->last_lr()[group], optimizer->lr(group));
        if (row.contains("momenta"))
          EXPECT_NEAR(optimizer->momentum(group), row.at("momenta")[step][group].get<double>(), 1e-14) << step;
        else EXPECT_EQ(optimizer->momentum(group), 0.9);
      }
    }
  }
}

TEST(Schedules, GoOnWhereTheyWere) {
  const Json all = golden();  // must exist longer than the rows
  for (const Json& row : all.at("schedules")) {
    const auto one = make_optimizer(row.at("base_lrs"), row.at("optimizer")),
               two = make_optimizer({1, 1}, row.at("optimizer"));
    const auto first = attach(*one, row), second = attach(*two, row);
    for (int step = 0; step < 11; ++step) first->step();
    second->load_state_dict(first->state_dict());
    EXPECT_EQ(second->last_epoch(), 11);
    for (int step = 0; step < 3; ++step) {
      for (int group = 0; group < 2; ++group) EXPECT_EQ(one->lr(group), two->lr(group)) << row;
      first->step();
      second->step();
    }
  }
  const auto optimizer = make_optimizer({1, 1});
  LrScheduler schedule(*optimizer, ExponentialLR{0.5});
  EXPECT_ERROR(schedule.load_state_dict({}), "last_epoch");
  EXPECT_EQ(optimizer->lr(), 1);
}

TEST(Schedules, PlateausEqualPyTorchs) {
  const Json rows = golden().at("plateaus");
  EXPECT_EQ(rows.size(), 6u);
  for (const Json& row : rows) {
    const Json& o = row.at("options");
    SCOPED_TRACE(o);
    ReduceLROnPlateauOptions options{
        .mode = o.value("mode", "min") == "min" ? PlateauMode::min : PlateauMode::max,
        .factor = o.value("factor", 0.1),
        .patience = o.value("patience", 10),
        .threshold = o.value("threshold", 1e-4),
        .threshold_mode = o.value("threshold_mode", "rel") == "rel" ? ThresholdMode::rel : ThresholdMode::abs,
        .cooldown = o.value("cooldown", 0),
        .eps = o.value("eps", 1e-8)};
    if (o.contains("min_lr"))
      options.min_lr = o.at("min_lr").is_array() ? o.at("min_lr").get<std::vector<double>>()
                                                 : std::vector<double>{o.at("min_lr").get<double>()};
    auto optimizer = make_optimizer(row.at("base_lrs"));
    auto schedule = std::make_unique<ReduceLROnPlateau>(*optimizer, options);
    for (std::size_t step = 0; step < row.at("lrs").size(); ++step) {
      const Json& metric = row.at("metrics")[step];
      schedule->step(metric.is_null() ? std::nan("") : metric.get<double>());
      for (int group = 0; group < 2; ++group)
        EXPECT_DOUBLE_EQ(optimizer->lr(group), row.at("lrs")[step][group].get<double>()) << "step " << step;
      if (step % 7 == 3) {  // as after a restart
        auto other = make_optimizer(row.at("base_lrs"));
        auto resumed = std::make_unique<ReduceLROnPlateau>(*other, options);
        resumed->load_state_dict(schedule->state_dict());
        schedule = std::move(resumed);
        optimizer = std::move(other);
      }
    }
  }
}

TEST(Schedules, ReachTheMomentumThatWasNotThere) {
  const std::vector<NamedTensor> p = {{"p", Tensor(ops::ones({1}), true)}};
  SGD sgd(p, {.lr = 1});
  LrScheduler schedule(sgd, OneCycleLR{.max_lr = 1, .total_steps = 10});
  EXPECT_EQ(sgd.momentum(), 0.95);
}

TEST(Schedules, NonsenseIsRefused) {
  const auto optimizer = make_optimizer({1, 1});
  EXPECT_ERROR(LrScheduler(*optimizer, StepLR{0}), "StepLR", "step_size", "0");
  EXPECT_ERROR(LrScheduler(*optimizer, StepLR{.step_size = 1, .gamma = 1 / 2}), "StepLR", "gamma", "integer division");
  EXPECT_ERROR(LrScheduler(*optimizer, MultiStepLR{.milestones = {1}, .gamma = -1}), "MultiStepLR", "gamma", "-1");
  EXPECT_ERROR(LrScheduler(*optimizer, CosineAnnealingLR{.T_max = 0}), "T_max");
  EXPECT_ERROR(LrScheduler(*optimizer, CosineAnnealingWarmRestarts{.T_0 = 1, .T_mult = 0}), "T_mult");
  EXPECT_ERROR(LrScheduler(*optimizer, PolynomialLR{.total_iters = 0}), "PolynomialLR", "total_iters");
  EXPECT_ERROR(LrScheduler(*optimizer, LinearLR{.start_factor = 0}), "start_factor");
  EXPECT_ERROR(LrScheduler(*optimizer, ConstantLR{.factor = 2}), "factor", "2");
  EXPECT_ERROR(LrScheduler(*optimizer, OneCycleLR{.max_lr = 1, .total_steps = 0}), "total_steps");
  EXPECT_ERROR(LrScheduler(*optimizer, SequentialLR{{StepLR{1}, StepLR{2}}, {}}), "SequentialLR", "2", "milestones");
  EXPECT_ERROR(LrScheduler(*optimizer, SequentialLR{{StepLR{1}, StepLR{2}, StepLR{3}}, {4, 2}}), "increase");
  EXPECT_ERROR(LrScheduler(*optimizer, ChainedScheduler{}), "needs a schedule");
  EXPECT_ERROR(LrScheduler(*optimizer, std::vector<Schedule>{StepLR{1}}), "1 schedules", "2 parameter groups");
  EXPECT_ERROR(ReduceLROnPlateau(*optimizer, {.factor = 1}), "factor");
  EXPECT_ERROR(ReduceLROnPlateau(*optimizer, {.min_lr = {1, 2, 3}}), "min_lr", "3", "2");
  LrScheduler cycle(*optimizer, OneCycleLR{.max_lr = 1, .total_steps = 2});
  EXPECT_ERROR(cycle.set_step(3), "OneCycleLR", "3", "2");
  EXPECT_ERROR(cycle.set_step(-1), "at least 0");
}

TEST(Schedules, RefuseToUndoWhatSomethingElseSet) {
  const auto optimizer = make_optimizer({1, 2});
  LrScheduler schedule(*optimizer, StepLR{.step_size = 2});
  schedule.step();
  optimizer->set_lr(0.5, 1);
  EXPECT_ERROR(schedule.step(), "learning rate of group 1", "to 2", "0.5", "SequentialLR", "set_step()");
  EXPECT_EQ(optimizer->lr(1), 0.5);
  EXPECT_EQ(schedule.last_epoch(), 1);
  schedule.set_step(2);
  EXPECT_EQ(optimizer->lr(1), 0.2);
  schedule.step();

  const auto other = make_optimizer({1});
  LrScheduler warm_up(*other, LinearLR{.start_factor = 0.5, .total_iters = 4});
  LrScheduler decay(*other, StepLR{.step_size = 2});
  warm_up.step();
  EXPECT_ERROR(decay.step(), "something else changed it");
}

TEST(Schedules, AFunctionOfOnesOwn) {
  const auto optimizer = make_optimizer({1, 2});
  LrScheduler schedule(*optimizer, [](double base, std::int64_t step) { return base + static_cast<double>(step); });
  schedule.set_step(5);
  EXPECT_EQ(optimizer->lr(0), 6);
  EXPECT_EQ(optimizer->lr(1), 7);
}

TEST(ScheduleErrors, Nonsense) {
  SGD optimizer({{"a", Tensor(ops::ones({2, 3}), true)}}, {});
  EXPECT_ERROR(LrScheduler(optimizer, LambdaLR{}), "LambdaLR", "empty function");
  EXPECT_ERROR(LrScheduler(optimizer, SequentialLR{{ConstantLR{}, ConstantLR{}}, {-3}}), "SequentialLR", "-3");
  EXPECT_ERROR(ReduceLROnPlateau(optimizer, {.factor = -1}), "factor", "-1");
  EXPECT_ERROR(ReduceLROnPlateau(optimizer, {.patience = -1}), "patience", "-1");
  LrScheduler schedule(optimizer, ConstantLR{});
  auto state = schedule.state_dict();
  state[0].array = Array();
  EXPECT_ERROR(schedule.load_state_dict(state), "undefined");
}

// The length of a cycle exceeds 64 bits, but the search for the cycle still ends.
TEST(ScheduleErrors, WarmRestartsOfAnyLength) {
  SGD optimizer({{"a", Tensor(ops::ones({2, 3}), true)}}, {.lr = 1});
  LrScheduler schedule(optimizer, CosineAnnealingWarmRestarts{.T_0 = 5, .T_mult = 1 << 30});
  schedule.set_step(std::numeric_limits<std::int64_t>::max());
  EXPECT_GE(optimizer.lr(), 0);
  EXPECT_LE(optimizer.lr(), 1);
}

}  // namespace
}  // namespace tandem
