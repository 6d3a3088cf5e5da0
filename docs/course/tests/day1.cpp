// The tests of day 1. Each says what is wrong in words.
#include <algorithm>
#include <random>

#include "backward.h"
#include "operations.h"

using course::add;
using course::expect;
using course::make;
using course::Node;
using course::Tensor;

std::vector<float> random_numbers(int size, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> draw(-1, 1);
  std::vector<float> numbers(size);
  for (float& number : numbers) number = draw(random);
  return numbers;
}

// Compares send_back of one operation with differences of its values.
void check_operation(const char* name, int inputs, const std::function<Tensor(std::vector<Tensor>)>& operation) {
  for (const int size : {1, 5}) {
    std::vector<Tensor> x;
    for (int i = 0; i < inputs; ++i) x.push_back(make(random_numbers(size, 10 * size + i)));
    for (int round = 1; round <= 2; ++round) {
      const Tensor y = operation(x);
      expect(y->inputs.size() == x.size(), name, ": its node has ", y->inputs.size(), " inputs, expected ", x.size());
      expect(bool(y->send_back), name, ": its node has no send_back");
      const auto weights = random_numbers(y->value.size(), 99);
      y->grad = weights;
      y->send_back(*y);
      for (int k = 0; k < inputs; ++k)
        for (int i = 0; i < size; ++i) {
          const float before = x[k]->value[i], h = 1e-2f;
          const auto weighted = [&](float value) {
            x[k]->value[i] = value;
            const Tensor z = operation(x);
            double total = 0;
            for (std::size_t j = 0; j < z->value.size(); ++j) total += double(weights[j]) * z->value[j];
            return total;
          };
          const double slope = (weighted(before + h) - weighted(before - h)) / (2 * h);
          x[k]->value[i] = before;
          const float found = x[k]->grad[i];
          expect(round == 1 || std::abs(found - slope) > 2e-3 || std::abs(slope) < 4e-3, name,
                 ": a second gradient of input ", k, " replaces the first: add to `grad`, don't set it");
          expect(std::abs(found - round * slope) < 4e-3, name, ": the gradient of number ", i, " of input ", k, " is ",
                 found / round, ", the slope of the value is ", slope);
        }
    }
  }
}

void operations_have_their_slopes() {
  const auto near = [](float a, float b) { return std::abs(a - b) < 1e-6; };
  expect(near(mul(make({2, 3}), make({5, -1}))->value[1], -3), "mul: 3 times -1 is not -3");
  expect(near(tanh(make({0.5f}))->value[0], std::tanh(0.5f)), "tanh: the value is wrong");
  const Tensor total = sum(make({1, 2, 4}));
  expect(total->value.size() == 1 && near(total->value[0], 7), "sum: 1 + 2 + 4 should be one number, 7");
  check_operation("mul", 2, [](auto x) { return mul(x[0], x[1]); });
  check_operation("tanh", 1, [](auto x) { return tanh(x[0]); });
  check_operation("sum", 1, [](auto x) { return sum(x[0]); });
  const Tensor x = make({3}), square = mul(x, x);
  square->grad = {1};
  square->send_back(*square);
  expect(near(x->grad[0], 6), "mul: the gradient of x * x at 3 is 6, found ", x->grad[0]);
}

// A node of which the test knows when it has sent back. Its slope is 1.
Tensor watched(const std::vector<Tensor>& inputs, std::vector<std::string>& log, const std::string& name) {
  float value = 0;
  for (const Tensor& input : inputs) value += input->value[0];
  const Tensor y = make({value}, inputs);
  y->send_back = [&log, name](Node& y) {
    log.push_back(name);
    for (const Tensor& input : y.inputs) input->grad[0] += y.grad[0];
  };
  return y;
}

void uses_are_counted() {
  std::vector<std::string> log;
  const Tensor x = make({1}), w = make({2}), alone = make({0});
  const Tensor a = watched({x, w}, log, "a"), b = watched({a, w}, log, "b"), c = watched({a, b, w}, log, "c");
  const Tensor elsewhere = watched({x, alone}, log, "elsewhere");
  count_owed(c);
  const auto owes = [](const char* name, const Tensor& node, int expected) {
    expect(node->owed == expected, "count_owed: ", name, " will get ", expected, " gradients, found ", node->owed);
  };
  owes("the loss", c, 0);
  owes("b, an input of the loss,", b, 1);
  owes("a, an input of b and of the loss,", a, 2);
  owes("w, an input of a, b and the loss,", w, 3);
  expect(x->owed != 2,
         "count_owed: x is an input of a and of a node that the loss does not depend on: expected 1, found 2");
  owes("x, an input of a alone,", x, 1);
  owes("a leaf that the loss does not depend on", alone, 0);
  const Tensor y = make({1}), square = watched({y, y}, log, "square");
  count_owed(square);
  owes("y, twice an input of one node,", y, 2);
}

void gradients_flow() {
  std::vector<std::string> log;
  const Tensor x = make({1});
  const Tensor a = watched({x}, log, "a"), b = watched({a}, log, "b"), c = watched({a, b}, log, "c"),
               d = watched({c, a, b}, log, "d");
  backward(d);
  for (const std::string name : {"a", "b", "c", "d"}) {
    const auto times = std::count(log.begin(), log.end(), name);
    expect(times == 1, "backward: a node sent back ", times,
           " times. It must wait until all of its gradients have arrived");
  }
  expect(x->grad[0] == 4, "backward: x reaches the loss on 4 paths with slope 1, so its gradient is 4; found ",
         x->grad[0], ". A node that sends back before its last gradient has arrived sends too little");
  for (const Tensor& node : {x, a, b, c, d})
    expect(node->owed == 0, "backward: `owed` is not 0 after the pass: the next pass will count from there");
  x->grad = {0};
  for (const Tensor& node : {a, b, c, d}) node->grad = {0};
  backward(d);
  expect(x->grad[0] == 4, "backward: a second pass over the same nodes gives ", x->grad[0], " instead of 4");
  backward(sum(mul(x, x)));
  expect(x->grad[0] == 6, "backward: gradients of several passes add up: 4 + 2 is 6, found ", x->grad[0]);

  std::vector<Tensor> chain{make({0.5f})};
  for (int i = 0; i < 200'000; ++i) chain.push_back(add(chain.back(), chain.front()));
  backward(chain.back());
  expect(chain.front()->grad[0] == 200'001, "backward: a chain of 200000 additions: gradient ", chain.front()->grad[0],
         ", expected 200001");
  while (!chain.empty()) chain.pop_back();
}

void hooks_fire_in_time() {
  std::vector<std::string> log;
  const Tensor w1 = make({1}), w2 = make({2}), w3 = make({3}), unused = make({4});
  std::vector<Tensor> leaves{w1, w2, w3};
  std::vector<float> seen(3);
  for (int i = 0; i < 3; ++i)
    leaves[i]->on_grad_ready = [&, i] {
      log.push_back("hook " + std::to_string(i + 1));
      seen[i] = leaves[i]->grad[0];
    };
  unused->on_grad_ready = [&] { log.push_back("hook of the unused leaf"); };
  const Tensor h1 = watched({w1}, log, "layer 1"), h2 = watched({h1, w2, w1}, log, "layer 2"),
               h3 = watched({h2, w3, w2}, log, "layer 3");
  backward(h3);
  const auto place = [&](const std::string& name) { return std::find(log.begin(), log.end(), name) - log.begin(); };
  for (int i = 0; i < 3; ++i) {
    const auto name = "hook " + std::to_string(i + 1);
    const auto times = std::count(log.begin(), log.end(), name);
    expect(times == 1, "backward: the hook of w", i + 1, " was called ", times, " times in one pass");
    expect(seen[i] == leaves[i]->grad[0], "backward: the hook of w", i + 1, " was called when its gradient was ",
           seen[i], "; it ended as ", leaves[i]->grad[0],
           ". A parameter that is used twice is final when both gradients have arrived");
  }
  expect(place("hook of the unused leaf") == int(log.size()),
         "backward: the hook of a leaf that the loss does not depend on was called");
  expect(place("hook 3") < place("layer 2"),
         "backward: the hook of w3 was called after layer 2 had run, but its gradient was final "
         "before. What could have been sent in the meantime?");
  expect(place("hook 2") < place("layer 1"),
         "backward: the hook of w2 was called after layer 1 had run, but its gradient was final before");
}

int main() {
  return course::run({
      {"1 mul, tanh, sum", "", operations_have_their_slopes},
      {"2 count_owed", "Does it go through each node's inputs only once, however often it reaches the node?",
       uses_are_counted},
      {"3 backward", "Is a node visited once for each path that leads to it? There are too many paths.",
       gradients_flow},
      {"4 the hook in backward", "", hooks_fire_in_time},
  });
}
