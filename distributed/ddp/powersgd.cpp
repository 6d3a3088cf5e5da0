#include <tandem/core/array/packing.h>
#include <tandem/core/array/text_array.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/distributed/ddp/powersgd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

namespace tandem::distributed {
namespace {

// The state of a gradient from one step to the next. In a state dict, the names of its two arrays have these suffixes.
constexpr const char* q_suffix = "/q";
constexpr const char* error_suffix = "/error";
struct Memory {
  Array q;      // (columns, rank)
  Array error;  // (rows, columns): the part of the gradient that the last product lost
};

struct Matrix {
  Array in_bucket;  // the gradient in its original shape
  Array gradient;   // (rows, columns): a view of the bucket, or a copy if the gradient is not row-major
  Array input;      // the gradient plus the error of the last step, which the product approximates
  Array p, q;       // (rows, rank), (columns, rank): views of the messages
  Memory* memory;
  bool keeps_error;
};

// Several arrays in one message. Each call of part() returns the next elements.
class Message {
 public:
  Message(std::int64_t elements, DType dtype, Device device) : whole_(Array::empty({elements}, dtype, device)) {}
  Array part(const Shape& shape) { return packing_.next(shape, whole_.dtype()); }
  std::shared_ptr<Work> average(ProcessGroup& group, std::string name) const {
    return whole_.numel() == 0 ? nullptr : group.all_reduce(whole_, ReduceOp::mean, std::move(name));
  }

 private:
  Array whole_;
  Packing packing_{whole_.storage(), 1};
};

// Makes the columns of m orthonormal by modified Gram-Schmidt. A column of zeros does not change. Each column is
// projected twice: if a column is nearly a combination of the previous columns, the first projection leaves mostly
// rounding errors, which are not yet orthogonal to them. A matrix on a GPU is copied to the host, because it is small.
void orthonormalise(Array m) {
  const std::int64_t rows = m.dim(0), columns = m.dim(1);
  const Array here = m.to(Device{});
  float* values = here.data<float>();
  const auto dot = [&](std::int64_t a, std::int64_t b) {
    double sum = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      sum += static_cast<double>(values[r * columns + a]) * values[r * columns + b];
    }
    return sum;
  };
  const auto project_and_normalise = [&](std::int64_t c) {
    for (std::int64_t before = 0; before < c; ++before) {
      const auto factor = static_cast<float>(dot(before, c));
      for (std::int64_t r = 0; r < rows; ++r) values[r * columns + c] -= factor * values[r * columns + before];
    }
    const double length = std::sqrt(dot(c, c));
    if (length == 0) return;
    for (std::int64_t r = 0; r < rows; ++r) {
      values[r * columns + c] = static_cast<float>(values[r * columns + c] / length);
    }
  };
  for (std::int64_t c = 0; c < columns; ++c) {
    project_and_normalise(c);
    project_and_normalise(c);
  }
  if (!m.device().is_cpu()) m.copy_from(here);
}

// The communication of one bucket.
class Round : public Work {
 public:
  Round(const GradBucket& bucket, ProcessGroup& group) : group_(group), name_(bucket.name) {}

  bool is_done() const override {
    return (!plain_work_ || plain_work_->is_done()) && (!p_work_ || (q_work_ && q_work_->is_done()));
  }

  // The first half: starts the messages with the uncompressed gradients and with P.
  void start(std::vector<Matrix> matrices, std::vector<Array> plain, std::int64_t rank_limit) {
    matrices_ = std::move(matrices);
    plain_ = std::move(plain);
    if (!plain_.empty()) {
      std::int64_t elements = 0;
      for (const Array& gradient : plain_) elements += gradient.numel();
      Message message(elements, plain_[0].dtype(), plain_[0].device());
      for (const Array& gradient : plain_) {
        parts_.push_back(message.part(gradient.shape()));
        parts_.back().copy_from(gradient);
      }
      plain_work_ = message.average(group_, name_ + ", uncompressed");
    }
    if (matrices_.empty()) return;
    std::int64_t p_elements = 0, q_elements = 0;
    const auto rank = [&](const Matrix& m) { return std::min({rank_limit, m.gradient.dim(0), m.gradient.dim(1)}); };
    for (const Matrix& m : matrices_) {
      p_elements += m.gradient.dim(0) * rank(m);
      q_elements += m.gradient.dim(1) * rank(m);
    }
    const Device device = matrices_[0].gradient.device();
    Message p_message(p_elements, DType::f32, device);
    q_message_ = std::make_unique<Message>(q_elements, DType::f32, device);
    for (Matrix& m : matrices_) {
      m.p = p_message.part({m.gradient.dim(0), rank(m)});
      m.q = q_message_->part({m.gradient.dim(1), rank(m)});
      m.p.copy_from(ops::matmul(m.input, m.memory->q));
    }
    p_work_ = p_message.average(group_, name_ + ", P of PowerSGD");
  }

  // The second half: waits for P and starts the message with Q.
  void go_on() {
    if (!p_work_ || q_work_) return;
    p_work_->wait();
    for (Matrix& m : matrices_) {
      orthonormalise(m.p);
      m.q.copy_from(ops::matmul(m.input.transpose(0, 1), m.p));
    }
    q_work_ = q_message_->average(group_, name_ + ", Q of PowerSGD");
  }

  void wait() override {
    if (finished_) return;
    go_on();
    if (plain_work_) plain_work_->wait();
    for (std::size_t i = 0; i < plain_.size(); ++i) plain_[i].copy_from(parts_[i]);
    if (q_work_) q_work_->wait();
    for (Matrix& m : matrices_) {
      m.gradient.copy_from(ops::matmul(m.p, m.q.transpose(0, 1)));
      if (m.gradient.storage() != m.in_bucket.storage()) m.in_bucket.copy_from(m.gradient.reshape(m.in_bucket.shape()));
      if (m.keeps_error) m.memory->error = ops::zip(functors::Sub{}, m.input, m.gradient);
      m.memory->q = m.q;
    }
    finished_ = true;
  }
  // `timeout` applies to each message.
  void wait(std::chrono::milliseconds timeout) override {
    if (p_work_) p_work_->wait(timeout);
    go_on();
    if (plain_work_) plain_work_->wait(timeout);
    if (q_work_) q_work_->wait(timeout);
    wait();
  }
  std::exception_ptr exception() const override {
    for (const auto& work : {plain_work_, p_work_, q_work_}) {
      if (work && work->exception()) return work->exception();
    }
    return nullptr;
  }

 private:
  ProcessGroup& group_;
  const std::string name_;
  std::vector<Matrix> matrices_;
  std::vector<Array> plain_, parts_;
  std::unique_ptr<Message> q_message_;
  std::shared_ptr<Work> plain_work_, p_work_, q_work_;
  bool finished_ = false;
};

class PowerSgd : public StatefulHook {
 public:
  explicit PowerSgd(const PowerSGDOptions& options) : options_(options), generator_(options.seed) {}

  std::shared_ptr<Work> operator()(const GradBucket& bucket, ProcessGroup& group) override {
    if (bucket.index == 0) {
      previous_ = nullptr;
      ++step_;
    }
    if (step_ <= options_.start_step) return all_reduce_hook()(bucket, group);
    std::vector<Matrix> matrices;
    std::vector<Array> plain;
    for (std::size_t i = 0; i < bucket.gradients.size(); ++i) {
      const Array& gradient = bucket.gradients[i];
      if (is_worth_it(gradient)) matrices.push_back(matrix(gradient, memories_[bucket.parameters[i].name]));
      else plain.push_back(gradient);
    }
    auto round = std::make_shared<Round>(bucket, group);
    round->start(std::move(matrices), std::move(plain), options_.rank);
    // While this bucket's P is being sent, the previous bucket continues with its Q. All ranks do that at the same
    // point, whatever the timing of the messages.
    if (previous_) previous_->go_on();
    previous_ = round;
    return round;
  }

  std::vector<NamedArray> state_dict() const override {
    std::vector<NamedArray> state{{"step", ops::scalar(static_cast<double>(step_), DType::i64)},
                                  {"generator", text_array(generator_.state())}};
    for (const auto& [name, memory] : memories_) {
      if (memory.q.defined()) state.push_back({name + q_suffix, memory.q});
      if (memory.error.defined()) state.push_back({name + error_suffix, memory.error});
    }
    return state;
  }

  void load_state_dict(const std::vector<NamedArray>& state) override {
    std::int64_t step = -1;
    Generator generator;
    bool has_generator = false;
    std::map<std::string, Memory> memories;
    for (const auto& [name, array] : state) {
      if (name == "step") {
        TANDEM_CHECK(array.numel() == 1 && array.dtype() == DType::i64, "PowerSGD: the saved step is ", array.shape(),
                     ' ', array.dtype(), ", not a whole number");
        step = array.to_vector<std::int64_t>()[0];
      } else if (name == "generator") {
        generator.set_state(text_of(array));
        has_generator = true;
      } else {
        const bool is_q = name.ends_with(q_suffix), is_error = name.ends_with(error_suffix);
        TANDEM_CHECK((is_q || is_error) && array.ndim() == 2 && array.dtype() == DType::f32,
                     "PowerSGD: the saved state has an unknown entry ", name, ", ", array.shape(), ' ', array.dtype());
        Memory& memory = memories[name.substr(0, name.rfind('/'))];
        (is_q ? memory.q : memory.error) = array.clone();  // cloned, because the steps write to both
      }
    }
    TANDEM_CHECK(step >= 0 && has_generator, "PowerSGD: the saved state has no ", step < 0 ? "step" : "generator");
    step_ = step;
    generator_ = generator;
    memories_ = std::move(memories);
  }

 private:
  bool is_worth_it(const Array& gradient) const {
    if (gradient.dtype() != DType::f32 || gradient.ndim() < 2 || gradient.numel() == 0) return false;
    const std::int64_t rows = gradient.dim(0), columns = gradient.numel() / rows;
    const auto sent = static_cast<double>((rows + columns) * std::min({options_.rank, rows, columns}));
    return sent * options_.min_compression_rate < static_cast<double>(gradient.numel());
  }

  Matrix matrix(const Array& gradient, Memory& memory) {
    const std::int64_t rows = gradient.dim(0), columns = gradient.numel() / rows;
    const std::int64_t rank = std::min({options_.rank, rows, columns});
    take_loaded(memory.q, {columns, rank}, gradient.device());
    take_loaded(memory.error, {rows, columns}, gradient.device());
    Matrix m{gradient, gradient.reshape({rows, columns}), {}, {}, {}, &memory, options_.error_feedback};
    m.input = memory.error.defined() ? ops::zip(functors::Add{}, m.gradient, memory.error) : m.gradient.clone();
    if (!memory.q.defined()) memory.q = ops::zeros({columns, rank}, DType::f32, gradient.device());
    else if (!options_.warm_start) memory.q.fill(0);
    orthonormalise(memory.q);
    replace_zero_columns(memory.q);
    return m;
  }

  // Moves a loaded array to the device. Throws an Error if it belongs to a different model.
  static void take_loaded(Array& array, const Shape& shape, Device device) {
    if (!array.defined()) return;
    TANDEM_CHECK(array.shape() == shape, "PowerSGD: the loaded state has a shape of ", array.shape(), ", expected ",
                 shape, ": resume with the same model and the same rank of the matrices");
    if (array.device() != device) array = array.to(device);
  }

  // Replaces columns of zeros, because the power method could never change them.
  void replace_zero_columns(Array q) {
    const Array here = q.to(Device{});
    float* values = here.data<float>();
    const std::int64_t rows = q.dim(0), columns = q.dim(1);
    bool replaced = false;
    for (std::int64_t c = 0; c < columns; ++c) {
      bool is_zero = true;
      for (std::int64_t r = 0; r < rows; ++r) is_zero = is_zero && values[r * columns + c] == 0;
      if (!is_zero) continue;
      for (std::int64_t r = 0; r < rows; ++r) values[r * columns + c] = generator_.uniform(-1.0f, 1.0f);
      replaced = true;
    }
    if (!replaced) return;
    if (!q.device().is_cpu()) q.copy_from(here);
    orthonormalise(q);
  }

  const PowerSGDOptions options_;
  Generator generator_;
  std::int64_t step_ = 0;
  std::map<std::string, Memory> memories_;  // by parameter
  std::shared_ptr<Round> previous_;         // the previous bucket
};

}  // namespace

CommunicationHook powersgd_hook(const PowerSGDOptions& options) {
  TANDEM_CHECK(options.rank >= 1 && options.start_step >= 0 && options.min_compression_rate > 0,
               "PowerSGD: rank must be at least 1, start_step at least 0 and min_compression_rate above 0, got ",
               options.rank, ", ", options.start_step, " and ", options.min_compression_rate);
  return std::shared_ptr<StatefulHook>(std::make_shared<PowerSgd>(options));
}

}  // namespace tandem::distributed
