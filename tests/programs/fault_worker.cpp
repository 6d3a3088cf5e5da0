// Trains a small network for three steps. Its arguments choose a failure, a point and a rank.
#include <tandem/core/io/atomic_file.h>
#include <tandem/tandem.h>

#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace tandem;
using namespace tandem::distributed;

struct Net : nn::Module {
  nn::Linear& a = add("a", nn::Linear(8, 8));
  nn::Linear& b = add("b", nn::Linear(8, 8));
  nn::Linear& c = add("c", nn::Linear(8, 8));
  Tensor forward(const Tensor& x) override { return c(b(a(x))); }
};

int main(int argc, char** argv) {
  TrainingOptions options("fault_worker", "Fails as it is told.");
  std::string kind, point, mark;
  std::int64_t faulty = 0;
  options.add("--fault", kind, "kill, stop, exception, abort, exit, or mark");
  options.add("--mark", mark, "file that says the point has come; the rank goes on when it is gone");
  options.add("--point", point, "init, construction, backward, bucket, checkpoint or barrier");
  options.add("--rank", faulty, "the rank that fails");
  return options.run(argc, argv, [&] {
    const auto here = [&](const std::string& now) {
      if (now != point || read_environment().rank != faulty) return;
      if (kind == "kill") raise(SIGKILL);
      if (kind == "stop") raise(SIGSTOP);
      if (kind == "exception") throw std::runtime_error("injected");
      if (kind == "abort") std::abort();
      if (kind == "exit") std::exit(0);
      if (kind == "mark") {
        std::ofstream(mark).put('!');
        while (std::filesystem::exists(mark)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        point = "past";
      }
    };
    here("init");
    const auto group = init(options.init_options());
    here("construction");
    Net model;
    DistributedDataParallel ddp(model, group, {.buckets = {.first_bytes = 1, .bytes = 1}});
    // The gradients of the last layer are ready first. When those of the first layer are ready, the buckets of the
    // other layers have been started.
    const auto first = model.c.weight.on_grad_ready([&] { here("backward"); });
    const auto late = model.a.weight.on_grad_ready([&] { here("bucket"); });
    optim::SGD optimizer(model.parameters(), {.lr = 0.1});
    for (int step = 1; step <= 3; ++step) {
      const Tensor loss = sum(ddp(Tensor(ops::full({4, 8}, 1 + group->rank()))));
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      if (point == "checkpoint" && group->rank() == 0) {
        AtomicFile half(options.checkpoint + "/checkpoint-0000-00000099.safetensors");
        half.write("half", 4);
        here("checkpoint");
      }
      here("checkpoint");
      if (group->rank() == 0) {
        TrainingState state;
        state.step = step;
        state.losses = {0};
        state.model = model.state_dict();
        save_checkpoint(options.checkpoint, state, 1);
      }
      here("barrier");
      group->barrier()->wait();
    }
  });
}
