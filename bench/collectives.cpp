// One rank of one contender in bench/collectives, which starts this program and sends it commands.
//
//   collectives_rank BACKEND COMMANDS
//
// The rank, the size and the address of the store come from torchrun's variables. COMMANDS.<rank> is a pipe with one
// line per measurement, the same for all ranks:
//   OPERATION BYTES MEMORY ITERATIONS
// MEMORY is "group" for arrays from the group's allocate(), and "own" for ordinary arrays. Rank 0 answers each line
// with one line on its standard output: the seconds of each iteration.
#include <tandem/distributed/job/init.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace tandem;
using namespace tandem::distributed;
using Clock = std::chrono::steady_clock;

struct Iteration {
  // The root depends on the iteration's number, so no rank can run ahead of the others.
  std::function<void(int number)> run;
  Array array{};  // this rank's input; undefined if it has none
};

Iteration prepare(ProcessGroup& group, const std::string& operation, std::int64_t bytes, bool in_group_memory) {
  const Shape shape{bytes / 4};
  const auto zeros = [&] {
    if (in_group_memory) return group.allocate(shape, DType::f32);
    auto array = Array::empty(shape, DType::f32);
    array.fill(0);
    return array;
  };
  const int rank = group.rank(), size = group.size();
  if (operation == "barrier") return {[&](int) { group.barrier()->wait(); }};
  auto array = zeros();
  if (operation == "all_reduce") {
    array.fill(1);
    group.all_reduce(array)->wait();
    const float last = array.data<float>()[array.numel() - 1];
    TANDEM_CHECK(last == static_cast<float>(size), "all_reduce of ones gave ", last);
    return {[&group, array](int) { group.all_reduce(array)->wait(); }, array};
  }
  if (operation == "broadcast")
    return {[&group, array, size](int i) { group.broadcast(array, i % size)->wait(); }, array};
  if (operation == "all_gather") {
    std::vector<Array> outputs;
    for (int r = 0; r < size; ++r) outputs.push_back(zeros());
    return {[&group, array, outputs](int) { group.all_gather(outputs, array)->wait(); }, array};
  }
  if (operation == "message") {  // from rank 0 to rank 1 and back
    const auto there_and_back = [&group, array, rank](int) {
      if (rank == 0) group.send(array, 1)->wait();
      if (rank <= 1) group.receive(array, 1 - rank)->wait();
      if (rank == 1) group.send(array, 0)->wait();
    };
    return {there_and_back, array};
  }
  detail::fail("there is no measurement of '", operation, "'");
}

std::vector<double> measure(ProcessGroup& group, const std::string& command) {
  std::istringstream words(command);
  std::string operation, memory;
  std::int64_t bytes = 0;
  int iterations = 0;
  words >> operation >> bytes >> memory >> iterations;
  auto iteration = prepare(group, operation, bytes, memory == "group");
  const int warm_up = iterations / 10 + 2;
  std::vector<double> seconds;
  for (int i = 0; i < warm_up + iterations; ++i) {
    // Each rank writes its array just before the operation, as a backward pass would.
    if (iteration.array.defined()) iteration.array.fill(0);
    group.barrier()->wait();
    const auto start = Clock::now();
    iteration.run(i);
    if (i >= warm_up) seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  return seconds;
}

void serve(const std::string& backend, const std::string& commands) {
  const auto group = init({.backend = value_named<GroupBackend>(backend)});
  std::ifstream pipe(commands + "." + std::to_string(group->rank()));
  std::string command;
  while (std::getline(pipe, command)) {
    const auto seconds = measure(*group, command);
    if (group->rank() != 0) continue;
    for (const double s : seconds) std::cout << s << ' ';
    std::cout << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: collectives_rank BACKEND COMMANDS\n";
    return 2;
  }
  try {
    serve(argv[1], argv[2]);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "collectives_rank: " << error.what() << '\n';
    return 1;
  }
}
