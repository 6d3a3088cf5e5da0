#include <tandem/autograd/autocast.h>
#include <tandem/autograd/functions.h>
#include <tandem/autograd/operation.h>
#include <tandem/core/backend/device_graph.h>
#include <tandem/core/base/thread.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/distributed/strategies/data_parallel.h>
#include <tandem/distributed/system/cores.h>

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace tandem::distributed {
namespace {

using autograd::Gradients;
using autograd::Needs;

void check_equal_models(const nn::Module& model, const nn::Module& replica) {
  const auto expected = model.state_dict(), found = replica.state_dict();
  TANDEM_CHECK(expected.size() == found.size(), "the factory of DataParallel made a model of ", found.size(),
               " parameters and buffers, but the model has ", expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto& [name, array] = expected[i];
    TANDEM_CHECK(
        found[i].name == name && found[i].array.shape() == array.shape() && found[i].array.dtype() == array.dtype(),
        "the factory of DataParallel made a different model: it has ", found[i].name, ' ', found[i].array.dtype(), ' ',
        found[i].array.shape(), ", but the model has ", name, ' ', array.dtype(), ' ', array.shape());
  }
}

void copy_mode(const nn::Module& from, nn::Module& to) {
  to.train(from.is_training());
  for (std::size_t i = 0; i < from.children().size(); ++i)
    copy_mode(*from.children()[i].second, *to.children()[i].second);
}

// Concatenates the pieces along dimension 0, on the device of the first piece.
Array put_together(const std::vector<Array>& pieces) {
  Shape shape = pieces[0].shape();
  for (std::size_t i = 1; i < pieces.size(); ++i) shape[0] += pieces[i].dim(0);
  auto whole = Array::empty(shape, pieces[0].dtype(), pieces[0].device());
  std::int64_t begin = 0;
  for (const auto& piece : pieces) {
    whole.slice(0, begin, begin + piece.dim(0)).copy_from(piece);
    begin += piece.dim(0);
  }
  return whole;
}

}  // namespace

// One thread for each replica. The threads live as long as the replicas, because OpenMP's teams and the backend's
// cached primitives belong to threads.
class DataParallel::Threads {
 public:
  Threads(int count, bool share_cores) : errors_(count) {
    const int openmp_threads = std::max(1, omp_get_max_threads() / count);
    try {
      for (int i = 0; i < count; ++i) {
        const auto name = "thread " + std::to_string(i + 1) + " of " + std::to_string(count) + " of a DataParallel";
        threads_.push_back(start_thread(name, [this, i, count, openmp_threads, share_cores] {
          name_thread("replica");
          if (share_cores) {
            const auto cores = core_share(i, count);
            sched_setaffinity(0, sizeof cores, &cores);  // if it fails, the thread is not bound
            omp_set_num_threads(openmp_threads);
          }
          work(i);
        }));
      }
    } catch (const Error& error) {
      stop();
      detail::fail(error.what(), ", or use fewer replicas");
    }
  }

  ~Threads() { stop(); }

  // Runs task(i) on each thread i < count, and returns when all are done. Rethrows the exception of the lowest i.
  void run(int count, const std::function<void(int)>& task) {
    std::unique_lock lock(mutex_);
    task_ = &task;
    active_ = count;
    missing_ = static_cast<int>(threads_.size());
    ++round_;
    start_.notify_all();
    done_.wait(lock, [this] { return missing_ == 0; });
    std::exception_ptr first;
    for (auto& error : errors_) {
      if (error && !first) first = error;
      error = nullptr;
    }
    if (first) std::rethrow_exception(first);
  }

 private:
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      task_ = nullptr;
      ++round_;
    }
    start_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  void work(int i) {
    std::unique_lock lock(mutex_);
    for (std::uint64_t seen = 0;;) {
      start_.wait(lock, [&] { return round_ != seen; });
      seen = round_;
      if (!task_) return;
      if (i < active_) {
        lock.unlock();
        try {
          (*task_)(i);
        } catch (...) {
          errors_[i] = std::current_exception();
        }
        lock.lock();
      }
      if (--missing_ == 0) done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable start_, done_;
  const std::function<void(int)>* task_ = nullptr;  // guarded by mutex_; null tells the threads to end
  std::uint64_t round_ = 0;                         // guarded by mutex_; the number of tasks so far
  int active_ = 0;                                  // guarded by mutex_; the number of threads that run the task
  int missing_ = 0;                                 // guarded by mutex_; the number of threads that have not finished
  // errors_[i] belongs to thread i while missing_ > 0, and to run() afterwards.
  std::vector<std::exception_ptr> errors_;
  std::vector<std::thread> threads_;
};

DataParallel::DataParallel(nn::Module& model, const Factory& make_replica, int replicas)
    : DataParallel(model, make_replica, std::vector<Device>(static_cast<std::size_t>(std::max(0, replicas)))) {}

DataParallel::DataParallel(nn::Module& model, const Factory& make_replica, std::vector<Device> devices)
    : model_(model), devices_(std::move(devices)), replicas_{&model} {
  TANDEM_CHECK(!devices_.empty(), "DataParallel needs at least 1 replica, got none");
  for (const auto& [name, array] : model.state_dict())
    TANDEM_CHECK(array.device() == devices_[0], "DataParallel: the model's ", name, " is on ", array.device(),
                 ", but the first replica must be on ", devices_[0], ": call model.to() first");
  for (std::size_t i = 1; i < devices_.size(); ++i) {
    copies_.push_back(make_replica());
    check_equal_models(model, *copies_.back());
    copies_.back()->to(devices_[i]);
    replicas_.push_back(copies_.back().get());
  }
  differentiable_ = Tensor(ops::zeros({1}), true);
  threads_ = std::make_unique<Threads>(static_cast<int>(devices_.size()), devices_[0].is_cpu());
}

DataParallel::~DataParallel() = default;

void DataParallel::copy_model(nn::Module& replica) const {
  copy_mode(model_, replica);
  const auto from = model_.parameters();
  auto to = replica.parameters();
  for (std::size_t i = 0; i < from.size(); ++i) {
    Array(to[i].tensor.value()).copy_from(from[i].tensor.value());
    to[i].tensor.set_requires_grad(from[i].tensor.requires_grad());
  }
  const auto buffers = model_.buffers(), copied = replica.buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i) Array(copied[i].tensor.value()).copy_from(buffers[i].tensor.value());
}

Tensor DataParallel::operator()(const Tensor& input) {
  return on_pieces(input, [](nn::Module& replica, const Tensor& piece, std::int64_t) { return replica(piece); });
}

Tensor DataParallel::mean_loss(const data::Batch& batch, const LossOf& loss_of) {
  std::vector<float> weights;  // of the pieces, by their number of samples
  const std::int64_t count = batch.inputs.dim(0), piece = rows_of_a_piece(count);
  for (std::int64_t begin = 0; begin < count; begin += piece)
    weights.push_back(static_cast<float>(std::min(piece, count - begin)) / static_cast<float>(count));
  const Tensor losses = on_pieces(batch.inputs, [&](nn::Module& replica, const Tensor& inputs, std::int64_t begin) {
    const auto rows = [&](const Array& array) {
      return array.slice(0, begin, begin + inputs.dim(0)).to(inputs.device());
    };
    data::Batch part{inputs.value(), batch.targets.defined() ? rows(batch.targets) : Array()};
    for (const Array& array : batch.more) part.more.push_back(rows(array));
    return reshape(loss_of(replica, part), {1});
  });
  const auto used = static_cast<std::int64_t>(weights.size());
  return sum(losses * Tensor(Array::from(weights, {used}).to(losses.device())));
}

std::int64_t DataParallel::rows_of_a_piece(std::int64_t count) const {
  const auto replicas = static_cast<std::int64_t>(replicas_.size());
  return (count + replicas - 1) / replicas;
}

Tensor DataParallel::on_pieces(const Tensor& input, const OnPiece& call) {
  TANDEM_CHECK(input.value().ndim() > 0 && input.dim(0) > 0,
               "DataParallel splits its input along dimension 0, got shape ", input.shape());
  TANDEM_CHECK(!is_recording_graph(), "DataParallel uses its own threads, whose work a recorded step can't record");
  const std::int64_t count = input.dim(0), piece = rows_of_a_piece(count);
  const int used = static_cast<int>((count + piece - 1) / piece);
  const auto cut = [count, piece](const Array& whole, int i) {
    return whole.slice(0, i * piece, std::min(count, (i + 1) * piece));
  };
  const DType compute_dtype = autocast_dtype();
  const bool gradients = grad_enabled();
  const std::uint64_t seed = default_generator().next_u64();

  // Make all copies before any forward begins, because the forward of the model (replica 0) changes its buffers.
  threads_->run(used, [&](int i) {
    if (i > 0) copy_model(*replicas_[i]);
  });
  std::vector<Tensor> inputs(used), outputs(used);
  threads_->run(used, [&](int i) {
    std::optional<NoGrad> no_grad;
    if (!gradients) no_grad.emplace();
    const Autocast autocast(compute_dtype);
    manual_seed(seed + static_cast<std::uint64_t>(i));
    inputs[i] = Tensor(cut(input.value(), i).to(devices_[i]), input.requires_grad());
    outputs[i] = call(*replicas_[i], inputs[i], i * piece);
  });

  std::vector<Array> values;
  for (const auto& output : outputs) {
    TANDEM_CHECK(output.value().ndim() > 0, "DataParallel concatenates outputs along dimension 0, got shape ",
                 output.shape());
    values.push_back(output.value());
  }
  const bool needed = std::any_of(outputs.begin(), outputs.end(), [](const Tensor& t) { return t.requires_grad(); });
  if (!needed) return put_together(values);

  // The closure holds the graphs of the replicas. That is not a cycle: those graphs begin at leaves, so they do not
  // reach the graph that holds the closure.
  return autograd::record(
      "data_parallel", {input, differentiable_}, put_together(values),
      [this, used, home = input.device(), inputs = std::move(inputs), outputs = std::move(outputs)](
          const Array& gradient, Needs needs) mutable -> Gradients {
        std::vector<std::int64_t> begins{0};
        for (const auto& output : outputs) begins.push_back(begins.back() + output.dim(0));
        threads_->run(used, [&](int i) {
          if (i > 0) replicas_[i]->zero_grad();
          inputs[i].zero_grad();
          outputs[i].backward({.gradient = gradient.slice(0, begins[i], begins[i + 1]).to(devices_[i]),
                               .retain_graph = !needs.is_last_run()});
        });
        for (int i = 1; i < used; ++i) add_gradients(*replicas_[i]);
        if (!needs[0]) return {{}, {}};
        std::vector<Array> pieces;
        for (const auto& piece : inputs)
          pieces.push_back(piece.grad().defined() ? piece.grad()
                                                  : ops::zeros(piece.shape(), piece.dtype(), piece.device()));
        return {put_together(pieces).to(home), {}};
      });
}

void DataParallel::add_gradients(const nn::Module& replica) {
  const auto from = replica.parameters();
  auto to = model_.parameters();
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (!from[i].tensor.grad().defined()) continue;
    const Array addend = from[i].tensor.grad().to(to[i].tensor.device());
    Array sum = to[i].tensor.grad();
    if (sum.defined()) ops::add_(sum, addend);
    else to[i].tensor.set_grad(addend);
  }
}

}  // namespace tandem::distributed
