// Broken on purpose: two ranks make a typical mistake of data parallelism, and the framework or this program reports
// it. docs/course/broken.md explains each. Usage: course_broken NAME
#include <tandem/tandem.h>

#include <chrono>
#include <cmath>
#include <iostream>
#include <map>
#include <thread>

using namespace tandem;
using namespace tandem::distributed;

namespace {

using Group = std::shared_ptr<ProcessGroup>;

Tensor batch_of(int rank) {
  std::vector<float> x(4 * 3);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(1.0f + static_cast<float>(i) + 10 * rank);
  return Tensor(Array::from(x, {4, 3}));
}

// Each rank starts its buckets in the order in which they become full there, and the orders differ.
void order(const Group& group) {
  const Array bucket_0 = zeros({1000}), bucket_1 = zeros({10});
  const bool first = group->rank() == 0;
  const auto a = group->all_reduce(first ? bucket_0 : bucket_1, ReduceOp::mean, first ? "bucket 0" : "bucket 1");
  const auto b = group->all_reduce(first ? bucket_1 : bucket_0, ReduceOp::mean, first ? "bucket 1" : "bucket 0");
  a->wait();
  b->wait();
}

// Each rank begins with different weights, and only gradients are averaged.
void broadcast(const Group& group) {
  manual_seed(static_cast<std::uint64_t>(group->rank()));
  nn::Linear model(3, 1);
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  for (int step = 0; step < 50; ++step) {
    optimizer.zero_grad();
    mean(model(batch_of(group->rank())) * model(batch_of(group->rank()))).backward();
    for (auto& [name, parameter] : model.parameters())
      group->all_reduce(parameter.grad(), ReduceOp::mean, name)->wait();
    optimizer.step();
  }
  const Array weight = model.parameters()[0].tensor.value();
  const Array of_rank_0 = weight.clone();
  group->broadcast(of_rank_0, 0, "weights of rank 0")->wait();
  const auto mine = weight.to_vector<float>(), theirs = of_rank_0.to_vector<float>();
  TANDEM_CHECK(mine == theirs, "after 50 steps rank ", group->rank(), " has weight ", mine[0], " where rank 0 has ",
               theirs[0]);
}

// Rank 1 skips a batch, so it takes one step less than rank 0.
void skip(const Group& group) {
  manual_seed(0);
  nn::Linear model(3, 1);
  DistributedDataParallel ddp(model, group);
  for (int step = 0; step < 3; ++step) {
    if (group->rank() == 1 && step == 1) continue;
    mean(ddp(batch_of(group->rank()))).backward();
  }
  if (group->rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(30));  // is busy with something else
}

// Each rank's batch norm sees only that rank's part of the batch.
void batch_norm(const Group& group) {
  const auto output = [&](bool synchronised) {
    nn::BatchNorm2d norm(1);
    if (synchronised) convert_sync_batch_norm(norm, group);
    const auto values = group->rank() == 0 ? std::vector<float>{0, 1} : std::vector<float>{10, 13};
    const auto x = Array::from(values, {2, 1, 1, 1});
    return norm(Tensor(x)).value().to_vector<float>()[0];
  };
  const float own = output(false), all = output(true);
  TANDEM_CHECK(std::abs(own - all) < 1e-3, "rank ", group->rank(), ": the first value is normalised to ", own,
               " by this rank's own statistics, to ", all, " by those of all ranks");
}

// On rank 1 the hook that sends a gradient is registered twice.
void hook(const Group& group) {
  const Tensor w(Array::from(std::vector<float>{1, 2}, {2}), true), v(Array::from(std::vector<float>{3}, {1}), true);
  std::vector<std::shared_ptr<Work>> works;
  const auto send = [&](const Tensor& parameter, const char* name) {
    return [&works, &group, parameter, name] {
      works.push_back(group->all_reduce(parameter.grad(), ReduceOp::mean, name));
    };
  };
  std::vector<HookHandle> handles;
  for (int times = 0; times <= group->rank(); ++times) handles.push_back(w.on_grad_ready(send(w, "gradient of w")));
  handles.push_back(v.on_grad_ready(send(v, "gradient of v")));
  const Tensor of_v = sum(v), of_w = sum(w);
  (of_v + of_w).backward();  // of_w was made last, so its gradient comes first
  for (const auto& work : works) work->wait();
}

}  // namespace

int main(int argc, char** argv) try {
  const std::map<std::string, void (*)(const Group&)> mistakes{
      {"order", order}, {"broadcast", broadcast}, {"skip", skip}, {"batch_norm", batch_norm}, {"hook", hook}};
  const auto chosen = argc == 2 ? mistakes.find(argv[1]) : mistakes.end();
  if (chosen == mistakes.end()) {
    std::cerr << "course_broken: expected one of";
    for (const auto& [name, mistake] : mistakes) std::cerr << ' ' << name;
    std::cerr << '\n';
    return 2;
  }
  spawn(2, [&](int) { chosen->second(init({.timeout = std::chrono::seconds(5)})); });
  std::cerr << "course_broken: the mistake was not noticed\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
