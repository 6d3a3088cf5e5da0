// Tests clients that abuse a store's server. They can neither stop the server nor make it grow.
#include <tandem/core/base/check.h>
#include <tandem/distributed/store/tcp_store.h>

#include <gtest/gtest.h>
#include <support/few_threads.h>
#include <support/raw_client.h>
#include <support/store_client.h>
#include <support/temporary_folder.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

namespace tandem::distributed {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using testing::hello;
using testing::options_for;
using testing::RawClient;
using testing::text;
using testing::u64;

std::int64_t resident_bytes() {
  std::istringstream pages(testing::read_bytes("/proc/self/statm"));
  std::int64_t all = 0, resident = 0;
  pages >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

std::int64_t open_files() { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); }

bool eventually(const std::function<bool()>& condition) {
  for (const auto deadline = std::chrono::steady_clock::now() + 10s; std::chrono::steady_clock::now() < deadline;
       std::this_thread::sleep_for(5ms)) {
    if (condition()) return true;
  }
  return false;
}

void expect_served(TcpStore& client) {
  const auto number = std::to_string(client.add("asked", 1));
  client.set("key", number);
  EXPECT_EQ(client.get("key"), number);
}

TEST(TcpStoreAbuse, AFloodOfSilentConnections) {
  TcpStoreServer server({"127.0.0.1", 0, "secret"});
  TcpStore bystander(options_for(server, 10s, "secret"));
  const auto files = open_files();
  {
    std::list<RawClient> flood;
    for (int i = 0; i < 450; ++i) flood.emplace_back(server.port());
    // The oldest connections are closed to make room.
    std::list<RawClient> more;
    for (int i = 0; i < 100; ++i) more.emplace_back(server.port());
    EXPECT_TRUE(flood.front().is_closed());
    EXPECT_FALSE(more.back().is_closed(0));
    expect_served(bystander);
    TcpStore late(options_for(server, 10s, "secret"));
    expect_served(late);
  }
  EXPECT_TRUE(eventually([&] { return open_files() == files; })) << open_files() << " against " << files;
}

TEST(TcpStoreAbuse, ConnectionsThatComeAndGo) {
  TcpStoreServer server({});
  TcpStore bystander(options_for(server));
  const auto files = open_files();
  for (int i = 0; i < 200; ++i) RawClient(server.port()).send(hello);
  const auto before = resident_bytes();
  for (int i = 0; i < 2000; ++i)
    RawClient(server.port()).send(i % 2 ? hello + "\x06"s + u64(1) + text("/never") : "GET /"s);
  expect_served(bystander);
  EXPECT_TRUE(eventually([&] { return open_files() == files; })) << open_files() << " against " << files;
  EXPECT_LT(resident_bytes(), before + (8 << 20));
}

// Half-open connections, and clients that send a byte now and then.
TEST(TcpStoreAbuse, NoGreetingInTime) {
  TcpStoreServer server({"127.0.0.1", 0, "secret", 300ms});
  TcpStore bystander(options_for(server, 10s, "secret"));
  RawClient silent(server.port()), slow(server.port());
  const auto greeting = hello + "\x02"s + text("tandem/token");
  std::size_t sent = 0;
  try {
    for (; sent < greeting.size(); ++sent) {
      slow.send(greeting.substr(sent, 1));
      std::this_thread::sleep_for(50ms);
    }
  } catch (const Error&) {
  }
  EXPECT_LT(sent, greeting.size());
  EXPECT_TRUE(silent.is_closed());
  expect_served(bystander);
}

TEST(TcpStoreAbuseDeathTest, SaysThatItsThreadCannotStart) {
  const auto serve = [] {
    testing::allow_threads(0);
    try {
      const TcpStoreServer server({});
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      _exit(3);
    }
    _exit(0);
  };
  EXPECT_EXIT(serve(), ::testing::ExitedWithCode(3),
              "cannot start the thread of the store's server: .*raise the process limit");
}

TEST(TcpStoreAbuse, NoDescriptorsLeft) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const auto files = open_files();
  {
    const rlimit few{static_cast<rlim_t>(files + 100), before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
    TcpStoreServer server({});
    TcpStore bystander(options_for(server));
    std::list<RawClient> flood;
    try {
      for (;;) {
        const auto socket = ::dup(STDERR_FILENO);  // connect_to would keep trying
        if (socket < 0) break;
        ::close(socket);
        flood.emplace_back(server.port());
      }
    } catch (const Error&) {
    }
    EXPECT_GT(flood.size(), 30u);
    for (int i = 0; i < 10; ++i) expect_served(bystander);
    flood.clear();
    setrlimit(RLIMIT_NOFILE, &before);
    TcpStore late(options_for(server));
    expect_served(late);
  }
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(open_files(), files);
}

// Clients that send a greeting and then stay idle. In an open store, any client may do so.
TEST(TcpStoreAbuse, IdleClientsMakeRoom) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  for (const std::string token : {"", "secret"}) {
    const rlimit few{100, before.rlim_max};  // room for 60 clients
    setrlimit(RLIMIT_NOFILE, &few);
    TcpStoreServer::Options options{.token = token};
    options.idle_time = 500ms;
    TcpStoreServer server(options);
    setrlimit(RLIMIT_NOFILE, &before);
    TcpStore waiting(options_for(server, 10s, token));
    std::thread waiter([&] { EXPECT_NO_THROW(waiting.wait({"key"})); });
    std::list<TcpStore> idle;
    for (int i = 0; i < 59; ++i) idle.emplace_back(options_for(server, 10s, token));
    EXPECT_NE(testing::error_of([&] { TcpStore(options_for(server, 100ms, token)); }), "");
    std::this_thread::sleep_for(600ms);
    idle.back().set("back", "");
    const auto come_late = [&] { TcpStore(options_for(server, 1s, token)).set("key", ""); };
    if (token.empty()) EXPECT_NO_THROW(come_late());
    else EXPECT_THROW(come_late(), Error);
    EXPECT_TRUE(idle.back().check({"back"}));  // this client was not idle
    if (!token.empty()) idle.back().set("key", "");
    waiter.join();
  }
}

// The queries of one client may cost far more than their bytes. Meanwhile, the server answers other clients, and it can
// still stop at once.
void expect_others_served(const std::string& query, const std::function<void(RawClient&)>& flood) {
  auto server = std::make_unique<TcpStoreServer>(TcpStoreServer::Options{});
  TcpStore bystander(options_for(*server, 60s));
  for (int i = 0; i < 2000; ++i) bystander.set(std::string(100, 'k') + std::to_string(i), "");
  expect_served(bystander);
  std::string queries = hello;
  while (queries.size() < (256 << 10)) queries += query;
  RawClient client(server->port());
  client.send(queries);
  std::thread flooding([&] { flood(client); });
  std::this_thread::sleep_for(50ms);
  auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::steady_clock::now() - start; };
  for (int i = 0; i < 20; ++i) bystander.add("asked", 1);
  EXPECT_LT(elapsed(), 20 * 50ms);
  start = std::chrono::steady_clock::now();
  server.reset();
  EXPECT_LT(elapsed(), 1s);
  flooding.join();
}

TEST(TcpStoreAbuse, AFloodOfSmallQueriesWhoseRepliesAreLarge) {
  for (const auto& query : {"\x11"s, "\x0a"s + u64(1000) + std::string(1000 * 8, '\0'), "\x07"s}) {
    SCOPED_TRACE(query.size());
    expect_others_served(query, [](RawClient& client) {  // reads all replies
      EXPECT_THROW(for (;;) client.receive(1), Error);
    });
    expect_others_served(query, [](RawClient&) {});  // reads none
    expect_others_served(query, [](RawClient& client) { [[maybe_unused]] const auto gone = std::move(client); });
  }
}

// The server does not answer a client that reads nothing, so the client's replies take little memory. None of them is
// lost.
TEST(TcpStoreAbuse, AClientThatReadsLate) {
  TcpStoreServer server({});
  TcpStore bystander(options_for(server, 60s));
  bystander.set("large", std::string(std::size_t{8} << 20, 'x'));
  bystander.get("large");
  const auto before = resident_bytes();
  RawClient late(server.port());
  std::string query = hello;
  for (int i = 0; i < 40; ++i) query.append("\x03").append(text("/large"));
  late.send(query);
  std::this_thread::sleep_for(200ms);
  expect_served(bystander);
  EXPECT_LT(resident_bytes(), before + (40 << 20));
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(late.receive(8), u64(std::size_t{8} << 20));
    late.receive(8 << 20);
  }
  EXPECT_TRUE(bystander.check({"large"}));
}

// Each query is within the limit of one query. Together, they are too large.
TEST(TcpStoreAbuse, ManyUnfinishedQueries) {
  TcpStoreServer server({});
  TcpStore bystander(options_for(server, 60s));
  expect_served(bystander);
  const auto before = resident_bytes();
  std::int64_t most = 0;
  {
    std::list<RawClient> flood;
    const std::string megabytes = text("/k") + text(std::string(std::size_t{8} << 20, 'x'));
    for (int i = 0; i < 30; ++i) {
      auto& client = flood.emplace_back(server.port());
      try {
        client.send(hello + "\x0b"s + u64(100));
        for (int j = 0; j < 2; ++j) client.send(megabytes);
      } catch (const Error&) {  // this client held the most memory
      }
      most = std::max(most, resident_bytes());
    }
    expect_served(bystander);
    EXPECT_GT(std::count_if(flood.begin(), flood.end(), [](auto& client) { return client.is_closed(0); }), 0);
  }
#ifdef __SANITIZE_THREAD__
  constexpr std::int64_t factor = 3;  // the sanitizer's shadow memory counts too
#else
  constexpr std::int64_t factor = 1;
#endif
  EXPECT_LT(most, before + factor * (std::int64_t{640} << 20));
  // The allocator keeps some of the memory for a while.
  EXPECT_TRUE(eventually([&] { return resident_bytes() < before + (200 << 20); })) << resident_bytes() - before;
}

TEST(TcpStoreAbuse, WaitingForTooMuch) {
  TcpStoreServer server({});
  TcpStore bystander(options_for(server));
  RawClient greedy(server.port());
  std::string query = hello;
  for (int i = 0; i < 5; ++i) {
    query += "\x06"s + u64(1000);
    for (int j = 0; j < 1000; ++j) query += text("/" + std::to_string(1000 * i + j) + std::string(8000, 'k'));
  }
  try {
    greedy.send(query);
  } catch (const Error&) {
  }
  EXPECT_TRUE(greedy.is_closed());
  expect_served(bystander);
}

TEST(TcpStoreAbuse, TwoBarriersAtOnce) {
  TcpStoreServer server({});
  TcpStore bystander(options_for(server));
  RawClient client(server.port());
  client.send(hello + "\x12"s + text("/a") + u64(2) + "\x12"s + text("/b") + u64(2));
  for (const std::string key : {"/a", "/b"}) {
    EXPECT_TRUE(client.is_silent());
    RawClient other(server.port());
    other.send(hello + "\x12"s + text(key) + u64(2));
    EXPECT_EQ(other.receive(1), "\0"s);
  }
  EXPECT_EQ(client.receive(1), "\0"s);
  expect_served(bystander);
}

TEST(TcpStoreAbuse, RandomBytes) {
  TcpStoreServer server({});
  TcpStore bystander(options_for(server));
  const auto before = resident_bytes();
  for (unsigned seed = 1; seed <= 1000; ++seed) {
    std::mt19937 random(seed);
    RawClient client(server.port());
    std::string bytes = hello;
    // Most queries are well-formed and short, so the random bytes pass the first check.
    for (int i = 0; i < 50; ++i) {
      bytes += static_cast<char>(random() % 20);
      for (int argument = 0; argument < 3; ++argument) {
        const auto size = random() % 6;
        bytes += u64(random() % 50 ? size : (std::uint64_t{random()} << (random() % 33)));
        for (unsigned j = 0; j < size; ++j) bytes += static_cast<char>(random());
      }
    }
    try {
      client.send(bytes);
    } catch (const Error&) {  // the server closed the connection before the end
    }
  }
  expect_served(bystander);
  EXPECT_LT(resident_bytes(), before + (32 << 20));
}

TEST(TcpStoreAbuse, AReplyIsBounded) {
  TcpStoreServer server({});
  TcpStore bystander(options_for(server, 60s));
  bystander.set("large", std::string(std::size_t{8} << 20, 'x'));
  bystander.get("large");
  RawClient greedy(server.port());
  std::string query = hello + "\x0a"s + u64(1000);
  for (int i = 0; i < 1000; ++i) query += text("/large");
  greedy.send(query);  // asks for 8 GB
  EXPECT_TRUE(greedy.is_closed());
  EXPECT_TRUE(bystander.check({"large"}));
}

// Clients that have proved the token learn the reason. Other clients could take the reason for a reply.
TEST(TcpStoreAbuse, ADroppedClientLearnsWhy) {
  for (const std::string token : {"", "secret"}) {
    TcpStoreServer server({"127.0.0.1", 0, token});
    TcpStore greedy(options_for(server, 10s, token)), bystander(options_for(server, 10s, token));
    const std::string value(std::size_t{8} << 20, 'x');
    for (int i = 0; i < 2; ++i) greedy.append("log", value);
    EXPECT_EQ(greedy.add("n", 1), 1);
    greedy.append("log", "x");
    // A client must recognise the server's farewell whatever reply it is waiting for. Here it waits for the number that
    // add() returns.
    const auto error = testing::error_of([&] { greedy.add("n", 1); });
    const auto later = testing::error_of([&] { greedy.check({"log"}); });
    const std::string reason =
        token.empty() ? "may have ended" : "the server ended the connection: the value is too long";
    testing::expect_parts(error, {"add: ", reason});
    testing::expect_parts(later, {"check: the connection was lost earlier: ", reason});
    expect_served(bystander);
  }
}

}  // namespace
}  // namespace tandem::distributed
