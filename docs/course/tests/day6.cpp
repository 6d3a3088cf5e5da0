// The tests of day 6. Each says what is wrong in words.
#include <chrono>
#include <random>

#include "norm.h"
#include "ranks.h"
#include "shared.h"

using course::expect;
using course::Ring;
using course::run_ranks;

// Each rank gives a digit that says which operation it belongs to.
void everybody_reads_the_right_numbers() {
  for (const int world : {1, 2, 3, 4}) {
    course::Board board(world);
    run_ranks(world, [&](const Ring& ring) -> std::vector<float> {
      try {
        std::mt19937 random(ring.rank);
        const auto digit = [](unsigned operation) { return operation % 7 + 1; };
        for (unsigned operation = 1; operation <= 40; ++operation) {
          if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
          const std::size_t size = operation % 3 == 0 ? 4096 : 5;
          std::vector<float> values(size, digit(operation) * course::digit_of(ring.rank));
          shared_all_reduce(board, operation, ring.rank, world, values.data(), size);
          for (const float value : values)
            for (int r = 0; r < world; ++r) {
              const unsigned found = long(value) >> (4 * r) & 15;
              if (found == digit(operation)) continue;
              const auto sum =
                  "the sum of operation " + std::to_string(operation) + " on rank " + std::to_string(ring.rank);
              expect(found != 0, sum, " lacks rank ", r);
              expect(found != digit(operation + 1), sum, " has the number of rank ", r, " in operation ", operation + 1,
                     ": rank ", r, " overwrote its numbers before all ranks had read them");
              expect(found != digit(operation + 6), sum, " has the number of rank ", r, " in operation ", operation - 1,
                     ": they were read before rank ", r, " had written the new ones");
              course::wrong(sum, " does not have the number of rank ", r);
            }
        }
      } catch (...) {
        board.give_up(ring.rank);
        throw;
      }
      return {};
    });
  }
}

void bits_do_not_depend_on_timing() {
  const int world = 3, size = 1000;
  std::vector<std::vector<float>> given(world, std::vector<float>(size));
  for (int r = 0; r < world; ++r)
    for (int i = 0; i < size; ++i) given[r][i] = std::sin(1.0f + i * (r + 3.1f));
  course::Board board(world);
  const auto sums = run_ranks(world, [&](const Ring& ring) {
    auto values = given[ring.rank];
    std::this_thread::sleep_for(std::chrono::milliseconds(30 * ((ring.rank + 2) % 3)));
    shared_all_reduce(board, 1, ring.rank, world, values.data(), size);
    return values;
  });
  for (int r = 0; r < world; ++r)
    for (int i = 0; i < size; ++i)
      expect(sums[r][i] == given[0][i] + given[1][i] + given[2][i], "number ", i, " on rank ", r,
             " is not bitwise the sum in the order of the ranks. Does a rank begin with its own numbers?");
}

std::vector<float> numbers(int count, float around, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw(around, 1.5f);
  std::vector<float> all(count);
  for (float& number : all) number = draw(random);
  return all;
}

void statistics_are_those_of_all() {
  for (const std::vector<int>& counts : {std::vector{8, 8}, {3, 20, 7}, {5, 0, 6}, {9}}) {
    const int world = counts.size();
    std::vector<float> whole;
    std::vector<std::vector<float>> parts;
    double mean_of_means = 0, own_m2 = 0;
    for (int r = 0; r < world; ++r) {
      parts.push_back(numbers(counts[r], 4.0f * r, 5 + r));
      whole.insert(whole.end(), parts[r].begin(), parts[r].end());
      mean_of_means += statistics(parts[r]).mean / world;
      own_m2 += statistics(parts[r]).m2;
    }
    const Statistics expected = statistics(whole);
    const auto found = run_ranks(world, [&](const Ring& ring) -> std::vector<float> {
      const auto all = combine(ring, statistics(parts[ring.rank]));
      return {float(all.mean), float(all.m2), float(all.count)};
    });
    const auto near = [](double a, double b) { return std::abs(a - b) < 1e-4 * (1 + std::abs(b)); };
    for (int r = 0; r < world; ++r) {
      expect(near(found[r][2], expected.count), "combine: the count on rank ", r, " is ", found[r][2],
             ", all ranks have ", expected.count);
      expect(near(found[r][0], expected.mean), "combine: the mean on rank ", r, " is ", found[r][0], ", expected ",
             expected.mean,
             near(found[r][0], mean_of_means)
                 ? ": this is the mean of the ranks' means. A rank with more numbers counts for more"
                 : "");
      expect(near(found[r][1], expected.m2), "combine: m2 on rank ", r, " is ", found[r][1], ", expected ", expected.m2,
             near(found[r][1], own_m2)
                 ? ": this is the sum of the ranks' m2. Each uses its own mean, and the means differ"
                 : "");
    }
  }
}

// The loss is sum(dy * y), whose gradient at y is dy.
double loss_of(const std::vector<double>& x, float w, double eps, const std::vector<float>& dy) {
  double mean = 0, variance = 0, loss = 0;
  for (const double value : x) mean += value / x.size();
  for (const double value : x) variance += (value - mean) * (value - mean) / x.size();
  for (std::size_t i = 0; i < x.size(); ++i) loss += dy[i] * w * (x[i] - mean) / std::sqrt(variance + eps);
  return loss;
}

std::vector<double> slopes(const std::vector<float>& x, float w, double eps, const std::vector<float>& dy) {
  std::vector<double> at(x.begin(), x.end()), slope;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double h = 1e-5, before = at[i];
    at[i] = before + h;
    const double above = loss_of(at, w, eps, dy);
    at[i] = before - h;
    slope.push_back((above - loss_of(at, w, eps, dy)) / (2 * h));
    at[i] = before;
  }
  return slope;
}

void compare(const char* name, int rank, const std::vector<float>& found, const double* expected,
             const std::vector<float>& x, const Statistics& all, float w, double eps, const std::vector<float>& dy,
             double mean_dy, double mean_dy_xhat, int world) {
  expect(found.size() == x.size(), name, ": ", found.size(), " gradients for ", x.size(), " numbers");
  const double scale = w / std::sqrt(all.m2 / all.count + eps);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double xhat = (x[i] - all.mean) / std::sqrt(all.m2 / all.count + eps);
    const auto is = [&](double value) { return std::abs(found[i] - value) < 1e-4; };
    if (is(expected[i])) continue;
    const char* why = "";
    if (is(scale * dy[i])) why = ": mean and variance are treated as constants, but both depend on x";
    else if (is(scale * (dy[i] - mean_dy))) why = ": the variance is treated as a constant, but it depends on x";
    else if (is(scale * (dy[i] - xhat * mean_dy_xhat)))
      why = ": the mean is treated as a constant, but it depends on x";
    else if (world > 1 && is(scale * (dy[i] - mean_dy / world - xhat * mean_dy_xhat / world)))
      why = ": the sums over ranks are averaged once too often. Divide them only by the count of all numbers";
    course::wrong(name, ": rank ", rank, ", number ", i, ": found ", found[i], ", the slope is ", expected[i], why);
  }
}

void gradients_are_slopes() {
  for (const int count : {2, 7, 30})
    for (const float w : {1.0f, -0.7f}) {
      const auto x = numbers(count, 2, count), dy = numbers(count, 0.4f, count + 50);
      const Statistics all = statistics(x);
      double mean_dy = 0, mean_dy_xhat = 0;
      for (int i = 0; i < count; ++i) {
        mean_dy += dy[i] / count;
        mean_dy_xhat += dy[i] * (x[i] - all.mean) / std::sqrt(all.m2 / all.count + 1e-3) / count;
      }
      const auto slope = slopes(x, w, 1e-3, dy);
      compare("batch_norm_grad", 0, batch_norm_grad(x, w, 1e-3, dy), slope.data(), x, all, w, 1e-3, dy, mean_dy,
              mean_dy_xhat, 1);
    }
}

void ranks_have_the_gradients_of_the_whole() {
  for (const std::vector<int>& counts : {std::vector{8, 8}, {3, 12, 7}, {5, 0, 6}}) {
    const int world = counts.size();
    std::vector<float> whole, whole_dy;
    std::vector<std::vector<float>> x, dy;
    for (int r = 0; r < world; ++r) {
      x.push_back(numbers(counts[r], r, 5 + r));
      dy.push_back(numbers(counts[r], 0.3f, 55 + r));
      whole.insert(whole.end(), x[r].begin(), x[r].end());
      whole_dy.insert(whole_dy.end(), dy[r].begin(), dy[r].end());
    }
    const float w = 1.3f;
    const double eps = 1e-3;
    const Statistics all = statistics(whole);
    const auto slope = slopes(whole, w, eps, whole_dy);
    double mean_dy = 0, mean_dy_xhat = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      mean_dy += whole_dy[i] / whole.size();
      mean_dy_xhat += whole_dy[i] * (whole[i] - all.mean) / std::sqrt(all.m2 / all.count + eps) / whole.size();
    }
    const auto found = run_ranks(
        world, [&](const Ring& ring) { return sync_batch_norm_grad(ring, x[ring.rank], all, w, eps, dy[ring.rank]); });
    std::size_t first = 0;
    for (int r = 0; r < world; first += counts[r++])
      compare("sync_batch_norm_grad", r, found[r], slope.data() + first, x[r], all, w, eps, dy[r], mean_dy,
              mean_dy_xhat, world);
  }
}

int main() {
  return course::run({
      {"1 shared_all_reduce", "Does a rank wait for a counter value that no rank has raised yet?",
       [] {
         everybody_reads_the_right_numbers();
         bits_do_not_depend_on_timing();
       }},
      {"2 batch_norm_grad", "", gradients_are_slopes},
      {"3 combine", "Does a rank without numbers take part in the exchange?", statistics_are_those_of_all},
      {"4 sync_batch_norm_grad", "Does a rank without numbers take part in the exchange?",
       ranks_have_the_gradients_of_the_whole},
  });
}
