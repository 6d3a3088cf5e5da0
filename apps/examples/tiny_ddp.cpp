// Data parallelism from nothing, in one file to be read aloud: arrays that remember how they were made, a backward pass
// that says when a gradient is final, processes that hand numbers round in a ring, and buckets of gradients that travel
// while the backward pass goes on. Standard library, sockets, and zlib to read MNIST. docs/course/ builds it in a week.
//
//   g++ -std=c++20 -O2 tiny_ddp.cpp -lz -pthread -o tiny_ddp && ./tiny_ddp ../../data/sample 2 4
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }
[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

// ---- 1. Autograd
// A Node is a matrix that remembers from which others it was computed, and how to send a gradient back to them.
struct Node;
using Tensor = std::shared_ptr<Node>;

struct Node {
  int rows, columns;
  std::vector<float> value;
  std::vector<Tensor> inputs;              // none: a leaf
  std::vector<float> own_grad{};           // memory of the gradient, where no bucket lends some
  std::span<float> grad{};                 // empty: this gradient is not needed
  std::function<void(Node&)> send_back{};  // adds to the gradients of the inputs
  std::function<void()> on_grad_ready{};   // called when the gradient is final: all of data parallelism hangs on this
  int owed = 0;                            // in a backward pass: how many gradients are still to come
};

Tensor make(int rows, int columns, bool needs_grad, std::vector<Tensor> inputs = {}) {
  auto node = std::make_shared<Node>(rows, columns, std::vector<float>(rows * columns), std::move(inputs));
  if (needs_grad) node->grad = node->own_grad = std::vector<float>(rows * columns);
  return node;
}

// y = x w + b with w (I, O), b (1, O), y (N, O); the numbers of x are read as N rows of I, however many columns it has.
// Most pixels of MNIST are 0, and what is 0 needs no product.
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b) {
  const int inputs = w->rows, outputs = w->columns;
  Tensor y = make(int(x->value.size()) / inputs, outputs, true, {x, w, b});
  for (int n = 0; n < y->rows; ++n) {
    float* row = &y->value[n * outputs];
    std::copy(b->value.begin(), b->value.end(), row);
    for (int i = 0; i < inputs; ++i)
      if (const float v = x->value[n * inputs + i]; v != 0)
        for (int o = 0; o < outputs; ++o) row[o] += v * w->value[i * outputs + o];
  }
  y->send_back = [=](Node& y) {
    Node &x = *y.inputs[0], &w = *y.inputs[1], &b = *y.inputs[2];
    for (int n = 0; n < y.rows; ++n) {
      const float* dy = &y.grad[n * outputs];
      for (int o = 0; o < outputs; ++o) b.grad[o] += dy[o];
      for (int i = 0; i < inputs; ++i) {
        if (const float v = x.value[n * inputs + i]; v != 0)
          for (int o = 0; o < outputs; ++o) w.grad[i * outputs + o] += v * dy[o];
        if (x.grad.empty()) continue;
        float sum = 0;
        for (int o = 0; o < outputs; ++o) sum += w.value[i * outputs + o] * dy[o];
        x.grad[n * inputs + i] += sum;
      }
    }
  };
  return y;
}

// Smooth on purpose. An input of a ReLU that is 1e-8 in one run and -1e-8 in another would part the two for good.
Tensor tanh(const Tensor& x) {
  Tensor y = make(x->rows, x->columns, true, {x});
  std::transform(x->value.begin(), x->value.end(), y->value.begin(), [](float v) { return std::tanh(v); });
  y->send_back = [](Node& y) {
    for (std::size_t i = 0; i < y.grad.size(); ++i) y.inputs[0]->grad[i] += y.grad[i] * (1 - y.value[i] * y.value[i]);
  };
  return y;
}

// The mean over the rows of -log softmax(x)[label]. Its gradient is (softmax - one at the label) / rows.
Tensor cross_entropy(const Tensor& x, const std::vector<int>& labels) {
  Tensor loss = make(1, 1, true, {x});
  std::vector<float> slope;
  for (int n = 0; n < x->rows; ++n) {
    const std::span<const float> row(&x->value[n * x->columns], x->columns);
    float sum = 0;
    for (const float score : row) sum += std::exp(score);
    loss->value[0] += (std::log(sum) - row[labels[n]]) / x->rows;
    for (const float score : row) slope.push_back(std::exp(score) / sum / x->rows);
    slope[n * x->columns + labels[n]] -= 1.0f / x->rows;
  }
  loss->send_back = [slope](Node& loss) {
    for (std::size_t i = 0; i < slope.size(); ++i) loss.inputs[0]->grad[i] += loss.grad[0] * slope[i];
  };
  return loss;
}

// First every node learns how many gradients it will get. Then a node sends back when all of its own have come. A leaf
// has nothing to send: its gradient is final at that moment, in the middle of the pass, and its hook says so.
void backward(const Tensor& loss) {
  std::vector<Node*> nodes{loss.get()};
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (const Tensor& input : nodes[i]->inputs)
      if (input->owed++ == 0) nodes.push_back(input.get());
  loss->grad[0] = 1;
  nodes = {loss.get()};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Node& node = *nodes[i];
    if (node.send_back) node.send_back(node);
    for (const Tensor& input : node.inputs) {
      if (--input->owed > 0) continue;
      if (input->on_grad_ready) input->on_grad_ready();
      nodes.push_back(input.get());
    }
  }
}

// ---- 2. A network and its data

struct Model {
  std::vector<Tensor> parameters;  // weight and bias of each layer, in the order in which forward uses them

  explicit Model(unsigned seed) {
    std::mt19937 random(seed);
    for (const auto& [inputs, outputs] : {std::pair{25, 8}, {144 * 8, 10}}) {
      std::normal_distribution<float> draw(0, 1 / std::sqrt(float(inputs)));
      parameters.insert(parameters.end(), {make(inputs, outputs, true), make(1, outputs, true)});
      for (float& w : parameters.end()[-2]->value) w = draw(random);
    }
  }
  // A convolution is a linear layer that sees the patches of an image one after another: here 144 patches of 5 x 5.
  Tensor operator()(const Tensor& patches) const {
    return linear(tanh(linear(patches, parameters[0], parameters[1])), parameters[2], parameters[3]);
  }
  void step(float rate) {  // SGD
    for (const Tensor& p : parameters)
      for (std::size_t i = 0; i < p->value.size(); ++i) p->value[i] -= rate * p->grad[i];
  }
};

std::vector<unsigned char> read_mnist(const std::string& path, std::size_t header) {
  const gzFile file = gzopen(path.c_str(), "rb");
  if (!file) fail(path + ": no such file; usage: tiny_ddp [FOLDER_OF_MNIST [PROCESSES...]]");
  std::vector<unsigned char> bytes(50'000'000);
  const int size = gzread(file, bytes.data(), bytes.size());
  gzclose(file);
  if (size <= int(header)) fail(path + ": not an MNIST file");
  return {bytes.data() + header, bytes.data() + size};
}

struct Images {
  std::vector<unsigned char> pixels, labels;

  explicit Images(std::string split)
      : pixels(read_mnist(split + "-images-idx3-ubyte.gz", 16)),
        labels(read_mnist(split + "-labels-idx1-ubyte.gz", 8)) {}

  // The patches (N * 144, 25) of some images. In each epoch an image lies in a different one of nine places, so that
  // the network does not learn it by heart. The place depends only on epoch and sample, so the number of processes does
  // not change it.
  std::pair<Tensor, std::vector<int>> batch(const std::vector<int>& samples, int epoch) const {
    Tensor x = make(samples.size() * 144, 25, false);
    float* to = x->value.data();
    std::vector<int> y;
    for (const int sample : samples) {
      y.push_back(labels[sample]);
      const int place = epoch ? (sample * 7 + epoch * 4) % 9 : 4, down = place / 3 - 1, right = place % 3 - 1;
      for (int top = down; top < 24 + down; top += 2)
        for (int left = right; left < 24 + right; left += 2)
          for (int r = top; r < top + 5; ++r)
            for (int c = left; c < left + 5; ++c, ++to)
              if (r >= 0 && r < 28 && c >= 0 && c < 28) *to = pixels[sample * 784 + r * 28 + c] / 255.0f;
    }
    return {x, y};
  }

  double percent_right(const Model& model) const {
    std::vector<int> all(labels.size());
    std::iota(all.begin(), all.end(), 0);
    const Tensor scores = model(batch(all, 0).first);
    const auto row = [&](int n) { return scores->value.data() + n * 10; };
    const auto is_right = [&](int n) { return std::max_element(row(n), row(n + 1)) - row(n) == labels[n]; };
    return 100.0 * std::count_if(all.begin(), all.end(), is_right) / all.size();
  }
};

// ---- 3. Processes in a ring

struct Ring {
  int rank = 0, world = 1;
  int next = -1, previous = -1;  // sockets to the ranks on either side

  // Sends to the next rank and receives from the previous one, both at once. If every rank first sent and then
  // received, all would wait forever as soon as a message is larger than the socket's buffers.
  void exchange(std::span<const float> out, std::span<float> in) const {
    auto from = std::as_bytes(out);
    auto to = std::as_writable_bytes(in);
    while (!from.empty() || !to.empty()) {
      pollfd ends[] = {{from.empty() ? -1 : next, POLLOUT, 0}, {to.empty() ? -1 : previous, POLLIN, 0}};
      poll(ends, 2, -1);
      const ssize_t sent = ends[0].revents ? send(next, from.data(), from.size(), MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
      const ssize_t came = ends[1].revents ? recv(previous, to.data(), to.size(), MSG_DONTWAIT) : 0;
      if (sent < 0 || came < 0 || (ends[1].revents && came == 0)) fail("a neighbour in the ring is gone");
      from = from.subspan(sent), to = to.subspan(came);
    }
  }

  std::span<float> chunk(std::span<float> all, int c) const {  // the c-th of `world` equal parts, in a circle
    c = (c + world) % world;
    const std::size_t begin = all.size() * c / world;
    return all.subspan(begin, all.size() * (c + 1) / world - begin);
  }

  // Every rank ends with the mean of all ranks' numbers. Chunk c begins on rank c and goes around once; each rank adds
  // its own. So each sum is made in one order on one rank, and then copied: all ranks have the same bits.
  void all_reduce_mean(std::span<float> all) const {
    std::vector<float> arrived(all.size() / world + 1);
    for (int step = 0; step < world - 1; ++step) {
      const auto mine = chunk(all, rank - step - 1);
      exchange(chunk(all, rank - step), std::span(arrived).first(mine.size()));
      for (std::size_t i = 0; i < mine.size(); ++i) mine[i] += arrived[i];
    }
    for (float& sum : chunk(all, rank + 1)) sum /= world;  // the chunk that is complete here
    for (int step = 0; step < world - 1; ++step) exchange(chunk(all, rank + 1 - step), chunk(all, rank - step));
  }

  void broadcast(std::span<float> all) const {  // rank 0's values, from each to the next
    if (rank > 0) exchange({}, all);
    if (rank < world - 1) exchange(all, {});
  }
};

// Runs `body` on `world` processes and gives its result on this one, rank 0. The others are its children.
std::vector<float> run_ranks(int world, const std::function<std::vector<float>(const Ring&)>& body) {
  std::vector<int> ends(2 * world);  // ends[2r] is rank r's way to the next rank, which has the other end, ends[2r + 1]
  for (int r = 0; r < world; ++r)
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, &ends[2 * r]) != 0) fail("cannot create a pair of sockets");
  std::fflush(stdout);
  int rank = world - 1;
  while (rank > 0 && fork() != 0) --rank;
  const Ring ring{rank, world, ends[2 * rank], ends[2 * ((rank + world - 1) % world) + 1]};
  for (const int end : ends)  // an end that stays open in a third process would hide that a rank is gone
    if (end != ring.next && end != ring.previous) close(end);
  const auto result = body(ring);
  if (rank > 0) std::exit(0);
  close(ring.next), close(ring.previous);
  for (int status; wait(&status) > 0;)
    if (status != 0) fail("a rank has failed");
  return result;
}

// ---- 4. Buckets that travel while backward goes on

class Reducer {
 public:
  std::vector<float> gradients;           // of all parameters, side by side
  std::vector<std::span<float>> buckets;  // parts of them, each of which travels as one message
  double communicating = 0, waiting = 0;  // seconds

  // Parameters are taken from the last to the first, because backward comes to the last layer first. Their gradients
  // lie in the buckets from now on: nothing is copied.
  Reducer(const std::vector<Tensor>& parameters, const Ring& ring, std::size_t floats_per_bucket = 4096) : ring_(ring) {
    for (const Tensor& p : parameters) gradients.resize(gradients.size() + p->value.size());
    float* place = gradients.data();
    for (auto p = parameters.rbegin(); p != parameters.rend(); ++p) {
      const std::size_t size = (*p)->value.size();
      if (buckets.empty() || buckets.back().size() >= floats_per_bucket)  // the one before is full
        buckets.emplace_back(place, 0), members_.push_back(0);
      (*p)->grad = {place, size};
      (*p)->on_grad_ready = [this, b = buckets.size() - 1] {  // returns at once, so that backward goes on
        if (--missing_[b] == 0) full_[b].set_value();
      };
      buckets.back() = {buckets.back().data(), buckets.back().size() + size};
      ++members_.back(), place += size;
    }
  }

  // Starts a thread that sends while this one computes: each bucket when it is full and those before it are back. All
  // ranks must send the same bucket at the same time, and gradients may become final in another order on each.
  void begin_step() {
    std::fill(gradients.begin(), gradients.end(), 0.0f);
    missing_ = members_, full_ = std::vector<std::promise<void>>(buckets.size());
    if (ring_.world == 1) return;  // no other rank to send to
    sending_ = std::async(std::launch::async, [this] {
      for (std::size_t b = 0; b < buckets.size(); ++b) {
        full_[b].get_future().get();
        const auto start = Clock::now();
        ring_.all_reduce_mean(buckets[b]);
        communicating += seconds_since(start);
      }
    });
  }

  void wait() {  // after backward: until the last bucket is back. Only this much of the communication costs time.
    const auto start = Clock::now();
    if (sending_.valid()) sending_.get();
    waiting += seconds_since(start);
  }

 private:
  const Ring ring_;
  std::vector<int> members_, missing_;    // by bucket: its parameters; those whose gradient is not final yet
  std::future<void> sending_;             // there when all buckets of this step are back
  std::vector<std::promise<void>> full_;  // by bucket: kept when it is full
};

// ---- 5. Training

constexpr int epochs = 5, batch_size = 60;

// Computes on one process what Ring::all_reduce_mean computes: the same additions in the same order, chunk by chunk.
void mean_in_the_order_of_the_ring(const std::vector<std::vector<float>>& of_rank, Reducer& reducer) {
  const int world = of_rank.size();
  for (const auto bucket : reducer.buckets)
    for (int c = 0; c < world; ++c) {
      const auto chunk = Ring{0, world}.chunk(bucket, c);
      for (float& mean : chunk) {
        const std::size_t i = &mean - reducer.gradients.data();
        float sum = of_rank[c][i];
        for (int k = 1; k < world; ++k) sum += of_rank[(c + k) % world][i];
        mean = sum / world;
      }
    }
}

// Trains and gives the weights. A step takes `batch_size` images, of which each rank has every world-th. With `shards`
// above 1, this process does in turn what that many ranks would do at once.
std::vector<float> train(const Images& images, const Images& tests, const Ring& ring, int shards = 1) {
  Model model(1 + ring.rank);  // other weights on each rank, until rank 0's go to all
  for (const Tensor& p : model.parameters) ring.broadcast(p->value);
  Reducer reducer(model.parameters, ring);
  std::vector<int> order(images.labels.size());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(7);  // the same on every rank: their shards are parts of the same batch
  const auto start = Clock::now();
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t begin = 0; begin + batch_size <= order.size(); begin += batch_size) {
      std::vector<std::vector<float>> of_shard;
      for (int shard = 0; shard < shards; ++shard) {
        std::vector<int> samples;
        for (int i = ring.rank + shard; i < batch_size; i += ring.world * shards) samples.push_back(order[begin + i]);
        const auto [x, labels] = images.batch(samples, epoch);
        reducer.begin_step();
        backward(cross_entropy(model(x), labels));
        reducer.wait();
        if (shards > 1) of_shard.push_back(reducer.gradients);
      }
      if (shards > 1) mean_in_the_order_of_the_ring(of_shard, reducer);
      model.step(0.4f * (epochs + 1 - epoch) / epochs);
    }
  }
  const double seconds = seconds_since(start);
  std::vector<float> weights;
  for (const Tensor& p : model.parameters) weights.insert(weights.end(), p->value.begin(), p->value.end());
  auto of_rank_0 = weights;
  ring.broadcast(of_rank_0);
  if (weights != of_rank_0) fail("this rank has different weights from rank 0");
  const auto checksum = crc32(0, reinterpret_cast<Bytef*>(weights.data()), weights.size() * sizeof(float));
  const double right = tests.percent_right(model);
  std::printf("  rank %d: weights %08lx, %.2f %% right, %.1f s (communication %.2f, waiting for it %.2f)\n", ring.rank,
              checksum, right, seconds, reducer.communicating, reducer.waiting);
  if (right < 95) fail("expected at least 95 %");
  return weights;
}

int main(int argc, char** argv) try {
  const std::string folder = argc > 1 ? argv[1] : "../../data/sample";
  std::vector<int> worlds;
  for (int i = 2; i < argc; ++i) worlds.push_back(std::atoi(argv[i]));
  if (worlds.empty()) worlds = {2, 4};
  for (const int world : worlds)
    if (world < 1 || batch_size % world != 0) fail("each number of processes must divide 60, the batch size");
  const Images images(folder + "/train"), tests(folder + "/t10k");
  std::puts("One process, whole batches:");
  const auto alone = train(images, tests, Ring{});
  for (const int world : worlds) {
    std::printf("%d processes: the same bits on every rank, because each sum is computed on one rank and copied:\n",
                world);
    const auto together = run_ranks(world, [&](const Ring& ring) { return train(images, tests, ring); });
    std::printf("One process that adds %d shards in the order of the ring:\n", world);
    if (train(images, tests, Ring{}, world) != together) fail("the weights differ from those of the ring");
    float apart = 0;
    for (std::size_t i = 0; i < alone.size(); ++i) apart = std::max(apart, std::abs(together[i] - alone[i]));
    std::puts("  the same bits: the same numbers were added in the same order");
    std::printf("  whole batches give weights %.0e apart: the numbers were added in a different order\n", apart);
    if (apart > 1e-5f) fail("more than 1e-5 apart");
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "tiny_ddp: %s\n", error.what());
  return 1;
}
