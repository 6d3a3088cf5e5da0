// The start of a job with many simulated ranks, for bench/scaling. Each rank is a thread with its own connection to the
// store. It does what a rank does before it trains, without the connections between ranks.
//
//   rendezvous serve            serves a store, and prints its port. Ends with its input
//   rendezvous PORT RANKS LOAD  runs RANKS ranks, and prints one line of JSON for each step of the start: the seconds,
//                               and the messages and bytes that all ranks together sent to the store. LOAD: the bytes
//                               of the address that a rank publishes for each other rank, as Gloo does; 0: none
#include <tandem/distributed/groups/members.h>
#include <tandem/distributed/job/rendezvous.h>
#include <tandem/distributed/job/together.h>
#include <tandem/distributed/store/tcp_store.h>

#include <sys/socket.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace tandem;
using namespace tandem::distributed;

namespace {

constexpr const char* token = "bench/rendezvous";
std::atomic<long> sent_messages = 0, sent_bytes = 0;

// A group that has a store and no operations.
class StoreGroup final : public ProcessGroup {
 public:
  StoreGroup(std::shared_ptr<Store> store, int rank, int size) : store_(std::move(store)), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const char* backend() const override { return "store"; }
  std::shared_ptr<Store> store() const override { return store_; }
  std::chrono::milliseconds timeout() const override { return store_->timeout(); }
  Array allocate(const Shape&, DType, Device) override { return {}; }
  std::shared_ptr<ProcessGroup> subgroup(const std::vector<int>&) override { return nullptr; }
  std::shared_ptr<Work> start(Operation) override { throw Error("this group has no operations"); }

 private:
  const std::shared_ptr<Store> store_;
  const int rank_, size_;
};

// The clock and the counters of all ranks. A step ends when all ranks have finished it.
class Steps {
 public:
  explicit Steps(int ranks) : ranks_(ranks), all_(ranks) {}
  // Runs f() on this rank. Rank 0 prints what the step took.
  void step(int rank, const char* name, const std::function<void()>& f) {
    all_.arrive_and_wait();
    const auto begin = std::chrono::steady_clock::now();
    const long messages = sent_messages, bytes = sent_bytes;
    all_.arrive_and_wait();
    f();
    all_.arrive_and_wait();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    if (rank == 0)
      std::cout << "{\"step\": \"" << name << "\", \"ranks\": " << ranks_ << ", \"seconds\": " << time.count()
                << ", \"messages\": " << sent_messages - messages << ", \"bytes\": " << sent_bytes - bytes << "}"
                << std::endl;
  }

 private:
  const int ranks_;
  std::barrier<> all_;
};

void run_rank(int rank, int ranks, int port, int address_bytes, Steps& steps) {
  Environment environment;
  environment.launcher = "torchrun";
  environment.rank = rank;
  environment.world_size = ranks;
  environment.knows_host = false;
  environment.master_addr = "127.0.0.1";
  environment.master_port = port;
  environment.run_id = "run";
  environment.uses_agent_store = true;
  environment.store_proves = true;
  environment.store_token = token;
  const auto timeout = std::chrono::seconds(600);
  std::shared_ptr<Store> store;
  steps.step(rank, "meet", [&] { store = connect_store(environment, timeout); });
  steps.step(rank, "collect members",
             [&] { collect_members(*store, rank, ranks, {.rank = rank, .backend = "shm"}, timeout); });
  StoreGroup group(store, rank, ranks);
  steps.step(rank, "run together", [&] { run_together(group, [] {}); });
  if (address_bytes == 0) return;
  steps.step(rank, "addresses of Gloo", [&] {
    const auto key = [](int r) { return "gloo/" + std::to_string(r); };
    store->set(key(rank), std::string(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(address_bytes), 'a'));
    for (int r = 0; r < ranks; ++r) {
      if (r != rank) store->get(key(r));
    }
  });
}

}  // namespace

// The store's clients and server send with this function. The linker takes this one instead of the system's.
extern "C" ssize_t send(int socket, const void* data, std::size_t bytes, int flags) {
  const auto sent = sendto(socket, data, bytes, flags, nullptr, 0);
  ++sent_messages;
  sent_bytes += sent > 0 ? sent : 0;
  return sent;
}

int main(int argc, char** argv) try {
  if (argc == 2 && std::string(argv[1]) == "serve") {
    const TcpStoreServer server({.token = token});
    std::cout << server.port() << std::endl;
    for (std::string line; std::getline(std::cin, line);) std::cout << sent_messages << ' ' << sent_bytes << std::endl;
    return 0;
  }
  if (argc != 4) {
    std::cerr << "usage: rendezvous serve | rendezvous PORT RANKS LOAD\n";
    return 2;
  }
  const int port = std::stoi(argv[1]), ranks = std::stoi(argv[2]), address_bytes = std::stoi(argv[3]);
  Steps steps(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        run_rank(rank, ranks, port, address_bytes, steps);
      } catch (const std::exception& error) {
        std::cerr << "rendezvous: rank " << rank << ": " << error.what() << std::endl;
        std::_Exit(1);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return 0;
} catch (const std::exception& error) {
  std::cerr << "rendezvous: " << error.what() << '\n';
  return 1;
}
