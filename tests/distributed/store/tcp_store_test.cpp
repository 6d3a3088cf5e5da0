// Tests the store over TCP: what its clients do together, and what happens when a client or the server is missing.
#include <tandem/core/base/check.h>
#include <tandem/distributed/store/tcp_store.h>
#include <tandem/distributed/system/socket.h>

#include <gtest/gtest.h>
#include <support/store_client.h>
#include <support/temporary_folder.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace tandem::distributed {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using std::chrono::steady_clock;
using testing::error_of;
using testing::expect_parts;
using testing::options_for;

TEST(TcpStore, KeepsValues) {
  TcpStoreServer server({});
  TcpStore a(options_for(server)), b(options_for(server));
  const std::string bytes("a\0b\n\xff", 5);
  a.set("key", bytes);
  EXPECT_EQ(b.get("key"), bytes);
  a.set("key", "");
  EXPECT_EQ(a.get("key"), "");
  b.append("log", "one,");
  b.append("log", "two");
  EXPECT_EQ(b.get("log"), "one,two");
  EXPECT_TRUE(a.check({"key"}));
  a.get("log");  // b's append has arrived by then
  EXPECT_TRUE(a.check({"key", "log"}));
  EXPECT_FALSE(a.check({"key", "other"}));
  EXPECT_TRUE(a.delete_key("key"));
  EXPECT_FALSE(a.delete_key("key"));
  EXPECT_FALSE(a.check({"key"}));
}

TEST(TcpStore, SetsWhatAClientWantsSetWhenItIsGone) {
  TcpStoreServer server({});
  TcpStore store(options_for(server));
  {
    const auto other = prefix_store("other", std::make_shared<TcpStore>(options_for(server)));
    for (int i = 0; i < 100; ++i) other->set_when_gone(std::to_string(i));
    EXPECT_EQ(other->add("n", 1), 1);
    EXPECT_FALSE(store.check({"other/0"}));
  }
  store.wait({"other/0", "other/99"});
  EXPECT_EQ(store.get("other/0"), "");
}

// If a client sets such a key itself, as a group does at its end, there is room for another. One key too many is an
// error.
TEST(TcpStore, KeysToSetAtTheEndAreBounded) {
  TcpStoreServer server({});
  TcpStore store(options_for(server));
  for (int i = 0; i < 5000; ++i) {
    store.set_when_gone("group " + std::to_string(i));
    store.set("group " + std::to_string(i), "");
  }
  for (int i = 0; i < 4096; ++i) store.set_when_gone(std::to_string(i));
  store.set_when_gone("0");
  expect_parts(error_of([&] { store.set_when_gone("4096"); }), {"no room for another key", "\"4096\""});
  EXPECT_EQ(store.add("n", 1), 1);
}

TEST(TcpStore, AddsAsDecimalText) {
  TcpStoreServer server({});
  TcpStore store(options_for(server));
  EXPECT_EQ(store.add("n", 5), 5);
  EXPECT_EQ(store.add("n", -12), -7);
  EXPECT_EQ(store.get("n"), "-7");
}

TEST(TcpStore, ComparesAndSets) {
  TcpStoreServer server({});
  TcpStore store(options_for(server));
  EXPECT_EQ(store.compare_set("k", "old", "new"), "old");  // the key is missing, and remains so
  EXPECT_FALSE(store.check({"k"}));
  EXPECT_EQ(store.compare_set("k", "", "one"), "one");
  EXPECT_EQ(store.compare_set("k", "wrong", "two"), "one");
  EXPECT_EQ(store.compare_set("k", "one", "two"), "two");
  EXPECT_EQ(store.get("k"), "two");
}

TEST(TcpStore, TakesTheLargestValueAndRefusesALargerOne) {
  TcpStoreServer server({});
  TcpStore store(options_for(server));
  const std::string largest(std::size_t{8} << 20, 'x');
  store.set("large", largest);
  EXPECT_EQ(store.get("large"), largest);
  expect_parts(error_of([&] { store.set("large", largest + "x"); }), {"8388609 bytes"});
  expect_parts(error_of([&] { store.set(std::string(8192, 'k'), ""); }), {"8191"});
  EXPECT_TRUE(store.check({"large"}));
}

TEST(TcpStore, GetWaitsForAnotherRank) {
  TcpStoreServer server({});
  TcpStore reader(options_for(server));
  std::thread writer([&] {
    TcpStore store(options_for(server));
    std::this_thread::sleep_for(50ms);
    store.set("late", "value");
  });
  EXPECT_EQ(reader.get("late"), "value");
  writer.join();
}

TEST(TcpStore, EveryKindOfWriteWakesAWait) {
  TcpStoreServer server({});
  TcpStore waiter(options_for(server)), writer(options_for(server));
  std::thread thread([&] { waiter.wait({"set", "add", "append", "compare_set"}); });
  writer.set("set", "");
  writer.add("add", 0);
  writer.append("append", "");
  writer.compare_set("compare_set", "", "x");
  thread.join();
}

TEST(TcpStore, TimeoutNamesTheMissingKeysAndTheConnectionGoesOn) {
  TcpStoreServer server({});
  TcpStore store(options_for(server, 100ms));
  store.set("here", "1");
  const auto start = steady_clock::now();
  const auto error = error_of([&] { store.wait({"here", "absent", "gone"}); });
  EXPECT_LT(steady_clock::now() - start, 5s);
  expect_parts(error, {"127.0.0.1:" + std::to_string(server.port())});
  expect_parts(error, {"no process set \"absent\", \"gone\""});
  expect_parts(error, {"1 of 3"});
  expect_parts(error_of([&] { store.get("absent"); }), {"\"absent\""});
  store.set("absent", "now");
  EXPECT_EQ(store.get("absent"), "now");
}

// A group's watchdog uses the connection like this while its program waits for a key.
TEST(TcpStore, OtherThreadsUseTheConnectionDuringAWait) {
  TcpStoreServer server({});
  TcpStore store(options_for(server));
  std::thread waiting([&] { EXPECT_NO_THROW(store.wait({"late"}, 20s)); });
  std::this_thread::sleep_for(50ms);
  const auto start = steady_clock::now();
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(store.check({"other"}));
  EXPECT_LT(steady_clock::now() - start, 10s);
  TcpStore(options_for(server)).set("late", "");
  waiting.join();
}

TEST(TcpStore, AWaitThatTimesOutAsTheKeyArrivesStaysInStep) {
  TcpStoreServer server({});
  TcpStore reader(options_for(server)), writer(options_for(server));
  for (int i = 0; i < 200; ++i) {
    const auto key = std::to_string(i);
    std::thread thread([&] { writer.set(key, key); });
    try {
      reader.wait({key}, Store::Timeout(i % 2));
    } catch (const Error&) {
    }
    thread.join();
    ASSERT_EQ(reader.get(key), key);
  }
}

TEST(TcpStore, ConnectsToAServerThatComesLater) {
  int port;
  {
    TcpStoreServer server({});
    port = server.port();
  }
  std::unique_ptr<TcpStoreServer> server;
  std::thread starter([&] {
    std::this_thread::sleep_for(200ms);
    server = std::make_unique<TcpStoreServer>(TcpStoreServer::Options{"127.0.0.1", port, ""});
  });
  TcpStore store({"127.0.0.1", port, 10s, ""});
  store.set("a", "b");
  EXPECT_EQ(store.get("a"), "b");
  starter.join();
}

TEST(TcpStore, NobodyThereIsAnErrorThatNamesTheAddress) {
  int port;
  {
    TcpStoreServer server({});
    port = server.port();
  }
  const auto error = error_of([&] { TcpStore store({"127.0.0.1", port, 300ms, ""}); });
  expect_parts(error, {"cannot connect to 127.0.0.1:" + std::to_string(port)});
  expect_parts(error, {"refused"});
}

TEST(TcpStore, AProgramThatDoesNotAnswerIsAnError) {
  const auto silent = listen_on("127.0.0.1", 0);
  expect_parts(error_of([&] {
                 TcpStore store({"127.0.0.1", local_port(silent), 300ms, ""});
               }),
               {"does not answer as a store"});
}

TEST(TcpStore, AServerThatEndsWakesAWaitingClient) {
  auto server = std::make_unique<TcpStoreServer>(TcpStoreServer::Options{});
  TcpStore store(options_for(*server));
  std::thread ender([&] {
    std::this_thread::sleep_for(50ms);
    server.reset();
  });
  expect_parts(error_of([&] { store.get("never"); }), {"may have ended"});
  expect_parts(error_of([&] { store.set("a", "b"); }), {"lost earlier: ", "may have ended"});
  ender.join();
}

TEST(TcpStore, TakenPortIsAnError) {
  TcpStoreServer server({});
  expect_parts(error_of([&] { TcpStoreServer second({"127.0.0.1", server.port(), ""}); }), {"in use"});
}

TEST(TcpStore, AnotherMachinesAddressIsAnError) {
  expect_parts(error_of([&] { TcpStoreServer server({"192.0.2.1", 0, ""}); }), {"not an address of this machine"});
}

TEST(TcpStore, ListensWhereItIsToldOnly) {
  TcpStoreServer loopback({});
  EXPECT_THROW(TcpStore({"127.0.0.2", loopback.port(), 100ms, ""}), Error);
  TcpStoreServer everywhere({"", 0, ""});
  TcpStore store({"127.0.0.2", everywhere.port(), 10s, ""});
}

TEST(TcpStore, PrefixKeepsUsersApart) {
  TcpStoreServer server({});
  auto store = std::make_shared<TcpStore>(options_for(server, 100ms));
  const auto one = prefix_store("run", store), two = prefix_store("run2", store);
  one->set("k", "1");
  two->set("k", "2");
  EXPECT_EQ(one->get("k"), "1");
  EXPECT_EQ(store->get("run2/k"), "2");
  EXPECT_EQ(one->add("n", 3), 3);
  EXPECT_FALSE(two->check({"n"}));
  EXPECT_EQ(one->compare_set("c", "", "x"), "x");
  one->append("c", "y");
  EXPECT_EQ(store->get("run/c"), "xy");
  EXPECT_TRUE(one->delete_key("c"));
  expect_parts(error_of([&] { prefix_store("a", one)->wait({"z"}); }), {"\"run/a/z\""});
}

TEST(TcpStore, ManyClientsAtOnce) {
  TcpStoreServer server({});
  constexpr int ranks = 16;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      TcpStore store(options_for(server));
      store.set("rank" + std::to_string(rank), std::to_string(rank));
      for (int i = 0; i < 50; ++i) store.add("sum", rank);
      for (int peer = 0; peer < ranks; ++peer) {
        EXPECT_EQ(store.get("rank" + std::to_string(peer)), std::to_string(peer));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  TcpStore store(options_for(server));
  EXPECT_EQ(store.get("sum"), std::to_string(50 * ranks * (ranks - 1) / 2));
}

TEST(TcpStoreToken, IsAskedFor) {
  TcpStoreServer server({"127.0.0.1", 0, "secret"});
  TcpStore friendly(options_for(server, 10s, "secret"));
  friendly.set("k", "v");
  EXPECT_EQ(friendly.get("k"), "v");
  EXPECT_EQ(server.refused_clients(), 0);
  expect_parts(error_of([&] { TcpStore store(options_for(server, 300ms)); }), {"--open-store"});
  expect_parts(error_of([&] { TcpStore store(options_for(server, 300ms, "secreT")); }), {"another job's token"});
  EXPECT_GE(server.refused_clients(), 2);
}

TEST(TcpStoreToken, IsProvedByTheServerToo) {
  TcpStoreServer server({"127.0.0.1", 0, "secret"}), stranger({});
  EXPECT_TRUE(TcpStore(options_for(server, 10s, "secret")).is_proved());
  expect_parts(error_of([&] { TcpStore store(options_for(stranger, 300ms, "secret")); }),
               {"does not prove that it knows the job's token"});
}

// The store of PyTorch's launcher knows no tokens.
TEST(TcpStoreToken, DoesNotTroubleAServerWithoutOne) {
  TcpStoreServer server({});
  auto options = options_for(server, 10s, "secret");
  options.needs_proof = false;
  TcpStore store(options);
  EXPECT_FALSE(store.is_proved());
  EXPECT_FALSE(store.check({"tandem/token"}));
}

}  // namespace
}  // namespace tandem::distributed
