// A small fuzzer for compilers without libFuzzer. It mutates inputs, and keeps those that reach new code. It accepts
// libFuzzer's -max_total_time=SECONDS and -artifact_prefix=PREFIX. Other arguments are inputs and folders of inputs.
// Without a time limit, each input runs once unchanged, and once with each of its eighths repeated up to 256 KiB. The
// tests named Fuzz do so. The processor time of an input is limited in proportion to its size.
//
// The code under test needs -fsanitize-coverage=trace-pc. This file must be compiled without it.
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "fuzz.h"

namespace {

constexpr std::size_t largest = 1 << 20;  // bytes of an input
constexpr unsigned slowest = 60;          // seconds of wall-clock time of an input
// The allowed processor time of an input: 2 s, and the time that readers need under the sanitizers to look at each byte
// several times. An input whose time grows with the square of its size takes far longer at the largest size.
double allowed_seconds(std::size_t bytes) { return 2 + 20e-6 * static_cast<double>(bytes); }

std::uint8_t reached[1 << 16];  // how often this run has reached a place in the code, by its hash, up to 255
std::uint8_t seen[1 << 16];     // these counts as powers of two, for all runs
std::string current, prefix = "./";
std::vector<std::string> corpus;
std::mt19937_64 generator{std::random_device{}()};

std::size_t below(std::size_t n) { return n == 0 ? 0 : generator() % n; }

void save_current() {
  const std::string name = prefix + "crash-" + std::to_string(::getpid());
  std::ofstream(name, std::ios::binary) << current;
  std::fprintf(stderr, "The input is in %s\n", name.c_str());
}

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Here the sanitizers end with abort(), as scripts/fuzz configures them.
void on_signal(int signal) {
  std::signal(SIGABRT, SIG_DFL);
  std::fprintf(stderr, signal == SIGALRM ? "Too slow: more than %u s\n" : "Failed\n", slowest);
  save_current();
  std::_Exit(77);
}

// Returns the input with the `size` bytes at `at` repeated, so that it has `total` bytes.
std::string with_repeated(const std::string& input, std::size_t at, std::size_t size, std::size_t total) {
  const std::string piece = input.substr(at, size);
  if (piece.empty() || total < input.size()) return input;
  std::string more;
  for (std::size_t n = (total - input.size()) / piece.size(); n > 0; --n) more += piece;
  return input.substr(0, at) + more + input.substr(at);
}

std::string mutated() {
  std::string input = corpus[below(corpus.size())];
  for (std::size_t n = 1 + below(4); n > 0; --n) {
    const std::size_t at = below(input.size() + 1), size = 1 + below(1 + below(32));
    const std::string& other = corpus[below(corpus.size())];
    switch (below(40) == 0 ? 9 : below(9)) {
      case 0:
        if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        break;
      case 1:
        if (at < input.size()) input[at] = static_cast<char>(generator());
        break;
      case 2: input.erase(at, size); break;
      case 3: input.insert(at, size, static_cast<char>(generator())); break;
      case 4: input.insert(at, input.substr(below(input.size() + 1), size)); break;
      case 5: input.insert(at, other.substr(below(other.size() + 1), size)); break;
      case 6: {  // a number near a limit
        constexpr std::uint64_t edges[] = {0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0xffffffff, 1ull << 62, ~0ull};
        const std::uint64_t value = edges[below(std::size(edges))] + below(3) - 1;
        const std::size_t width = std::size_t{1} << below(4);
        if (at + width <= input.size()) std::memcpy(&input[at], &value, width);
        break;
      }
      case 7: input = input.substr(0, at) + other.substr(below(other.size() + 1)); break;
      case 9: input = with_repeated(input, at, 1 + below(1 + below(input.size())), below(largest)); break;
      default:
        if (at < input.size()) input[at] = static_cast<char>(input[at] + static_cast<int>(below(9)) - 4);
    }
  }
  if (input.size() > largest) input.resize(largest);
  return input;
}

// Returns whether the input has reached new code.
bool run(const std::string& input) {
  current = input;
  std::memset(reached, 0, sizeof reached);
  ::alarm(slowest);
  // The memory has exactly this size, so that a read beyond its end is detected.
  const std::vector<std::uint8_t> bytes(input.begin(), input.end());
  const double start = processor_seconds();
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  ::alarm(0);
  if (const double took = processor_seconds() - start; took > allowed_seconds(input.size())) {
    std::fprintf(stderr, "Too slow: %.1f s for %zu bytes, allowed are %.1f\n", took, input.size(),
                 allowed_seconds(input.size()));
    save_current();
    std::_Exit(77);
  }
  bool is_new = false;
  for (std::size_t i = 0; i < sizeof reached; ++i) {
    if (reached[i] == 0) continue;
    const auto bucket = std::bit_floor(reached[i]);
    is_new |= !(seen[i] & bucket);
    seen[i] |= bucket;
  }
  return is_new;
}

void add_inputs(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) {
    for (const auto& entry : std::filesystem::directory_iterator(path)) add_inputs(entry.path());
    return;
  }
  std::ifstream file(path, std::ios::binary);
  corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

}  // namespace

extern "C" void __sanitizer_cov_trace_pc() {
  const auto place = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  auto& count = reached[(place ^ place >> 16) & 0xffff];
  count = static_cast<std::uint8_t>(count + (count < 255));
}

int main(int argc, char** argv) {
  double seconds = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&](const std::string& name) { return argument.substr(name.size()); };
    if (argument.starts_with("-max_total_time=")) seconds = std::stod(value("-max_total_time="));
    else if (argument.starts_with("-artifact_prefix=")) prefix = value("-artifact_prefix=");
    else if (!argument.starts_with("-")) add_inputs(argument);
  }
  std::signal(SIGABRT, on_signal);
  std::signal(SIGALRM, on_signal);

  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  std::uint64_t runs = 0;
  const std::size_t given = corpus.size();
  for (std::size_t i = 0; i < given; ++i, ++runs) run(corpus[i]);
  for (std::size_t i = 0; i < given && seconds == 0; ++i) {
    const std::size_t part = std::max<std::size_t>(corpus[i].size() / 8, 1);
    for (std::size_t at = 0; at < corpus[i].size(); at += part, ++runs) {
      run(with_repeated(corpus[i], at, part, largest / 4));
    }
  }
  if (given == 0 && seconds == 0) {
    std::fprintf(stderr, "There are no inputs\n");
    return 1;
  }
  if (corpus.empty()) corpus.emplace_back();
  for (; elapsed() < seconds; ++runs) {
    const auto input = mutated();
    if (run(input)) corpus.push_back(input);
  }
  const auto places = std::count_if(std::begin(seen), std::end(seen), [](auto bits) { return bits != 0; });
  std::printf("%llu runs in %.1f s, %zu inputs given, %zu found, %td places reached\n",
              static_cast<unsigned long long>(runs), elapsed(), given, corpus.size() - given, places);
}
