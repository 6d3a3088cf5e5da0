#include <tandem/core/check.h>
#include <tandem/distributed/socket.h>
#include <tandem/distributed/tcp_store.h>

#include <gtest/gtest.h>
#include <support/raw_client.h>
#include <support/temporary_folder.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
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
using testing::hello;
using testing::RawClient;
using testing::text;
using testing::u64;

TcpStore::Options options_for(const TcpStoreServer& server, Store::Timeout timeout = 10s,
                              std::string token = "") {
  return {"127.0.0.1", server.port(), timeout, std::move(token)};
}

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
  a.get("log");  // b's append has arrived
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
    for (int i = 0; i < 100; ++i) other->set_when_gone(std::to_string(i));  // more than the server remembers
    EXPECT_EQ(other->add("n", 1), 1);
    EXPECT_FALSE(store.check({"other/0"}));
  }
  store.wait({"other/0", "other/63"});
  EXPECT_EQ(store.get("other/0"), "");
  EXPECT_FALSE(store.check({"other/64"}));
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
  EXPECT_EQ(store.compare_set("k", "old", "new"), "old");  // missing, and stays so
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
  expect_parts(error, {"nobody set \"absent\", \"gone\""});
  expect_parts(error, {"1 of 3"});
  expect_parts(error_of([&] { store.get("absent"); }), {"\"absent\""});
  store.set("absent", "now");
  EXPECT_EQ(store.get("absent"), "now");
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
  expect_parts(error_of([&] { store.set("a", "b"); }), {"lost earlier"});
  ender.join();
}

TEST(TcpStore, TakenPortIsAnError) {
  TcpStoreServer server({});
  expect_parts(error_of([&] { TcpStoreServer second({"127.0.0.1", server.port(), ""}); }), {"in use"});
}

TEST(TcpStore, AnotherMachinesAddressIsAnError) {
  expect_parts(error_of([&] {
                 TcpStoreServer server({"192.0.2.1", 0, ""});
               }),
               {"not an address of this machine"});
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
  expect_parts(error_of([&] { TcpStore store(options_for(server, 300ms, "secreT")); }),
               {"another job's token"});
  EXPECT_GE(server.refused_clients(), 2);
}

TEST(TcpStoreToken, DoesNotTroubleAServerWithoutOne) {
  TcpStoreServer server({});
  TcpStore store(options_for(server, 10s, "secret"));
  EXPECT_FALSE(store.check({"tandem/token"}));
}

// The exact bytes of the protocol, against both ends.

TEST(TcpStoreBytes, ServerAnswersEachQuery) {
  TcpStoreServer server({});
  RawClient client(server.port());
  client.send(hello + "\x0d\x04\x03\x02\x01"s);  // ping
  EXPECT_EQ(client.receive(4), "\x04\x03\x02\x01");
  client.send("\x01"s + text("/a") + text("xyz") + "\x03"s + text("/a"));  // set, get
  EXPECT_EQ(client.receive(11), text("xyz"));
  client.send("\x02"s + text("/a") + text("xyz") + text("q"));  // compare_set
  EXPECT_EQ(client.receive(9), text("q"));
  client.send("\x02"s + text("/a") + text("xyz") + text("r"));
  EXPECT_EQ(client.receive(9), text("q"));
  client.send("\x02"s + text("/b") + text("gone") + text("r"));
  EXPECT_EQ(client.receive(12), text("gone"));
  client.send("\x04"s + text("init/") + u64(7));  // add
  EXPECT_EQ(client.receive(8), u64(7));
  client.send("\x03"s + text("init/"));
  EXPECT_EQ(client.receive(9), text("7"));
  client.send("\x05"s + u64(2) + text("/a") + text("init/"));  // check
  EXPECT_EQ(client.receive(1), "\x00"s);
  client.send("\x05"s + u64(2) + text("/a") + text("/b"));
  EXPECT_EQ(client.receive(1), "\x01");
  client.send("\x06"s + u64(1) + text("/a"));  // wait
  EXPECT_EQ(client.receive(1), "\x00"s);
  client.send("\x07"s);  // number of keys
  EXPECT_EQ(client.receive(8), u64(2));
  client.send("\x08"s + text("init/"));  // delete
  EXPECT_EQ(client.receive(8), u64(1));
  client.send("\x08"s + text("init/"));
  EXPECT_EQ(client.receive(8), u64(0));
  client.send("\x09"s + text("/a") + text("!") + "\x0a"s + u64(2) + text("/a") +
              text("/a"));  // append, multi_get
  EXPECT_EQ(client.receive(20), text("q!") + text("q!"));
  client.send("\x0b"s + u64(2) + text("/m") + text("1") + text("/n") + text("2"));  // multi_set
  client.send("\x0a"s + u64(2) + text("/n") + text("/m"));
  EXPECT_EQ(client.receive(18), text("2") + text("1"));
  client.send("\x0f"s + text("/queue"));  // queues: pop, push, length
  EXPECT_EQ(client.receive(8), u64(0));
  client.send("\x0e"s + text("/queue") + text("first") + "\x0e"s + text("/queue") + text("second") + "\x10"s +
              text("/queue"));
  EXPECT_EQ(client.receive(8), u64(2));
  client.send("\x0f"s + text("/queue"));
  EXPECT_EQ(client.receive(21), u64(2) + text("first"));
  client.send("\x08"s + text("/m") + "\x08"s + text("/n") + "\x11"s);  // list of keys
  EXPECT_EQ(client.receive(16 + 8 + 10), u64(1) + u64(1) + u64(1) + text("/a"));
}

TEST(TcpStoreBytes, WaitsAreCanceledAndBarriersOpen) {
  TcpStoreServer server({});
  RawClient a(server.port()), b(server.port());
  a.send(hello + "\x06"s + u64(2) + text("/x") + text("/y"));
  EXPECT_TRUE(a.is_silent());
  a.send("\x0c"s);
  EXPECT_EQ(a.receive(1), "\x01");
  b.send(hello + "\x01"s + text("/x") + text("") + "\x01"s + text("/y") + text("") + "\x07"s);
  EXPECT_EQ(b.receive(8), u64(2));
  EXPECT_TRUE(a.is_silent());
  a.send("\x06"s + u64(1) + text("/queue"));
  EXPECT_TRUE(a.is_silent());
  b.send("\x0e"s + text("/queue") + text("item"));
  EXPECT_EQ(a.receive(1), "\x00"s);
  a.send("\x12"s + text("/barrier") + u64(2));
  EXPECT_TRUE(a.is_silent());
  b.send("\x12"s + text("/barrier") + u64(2));
  EXPECT_EQ(a.receive(1), "\x00"s);
  EXPECT_EQ(b.receive(1), "\x00"s);
}

TEST(TcpStoreBytes, QueriesMayComeInAnyPieces) {
  TcpStoreServer server({});
  const auto queries = hello + "\x01"s + text("/a") + text("value") + "\x03"s + text("/a") + "\x0d"s + "1234";
  const auto replies = text("value") + "1234";
  RawClient at_once(server.port());
  at_once.send(queries + queries.substr(hello.size()));
  EXPECT_EQ(at_once.receive(2 * replies.size()), replies + replies);
  RawClient by_bytes(server.port());
  for (const char byte : queries) {
    by_bytes.send(std::string(1, byte));
    std::this_thread::sleep_for(200us);
  }
  EXPECT_EQ(by_bytes.receive(replies.size()), replies);
}

TEST(TcpStoreBytes, ClientSendsWhatTheProtocolSays) {
  const auto listener = listen_on("127.0.0.1", 0);
  std::thread server([&] {
    EXPECT_TRUE(wait_readable(listener, steady_clock::now() + 10s));
    const FileDescriptor socket(accept(listener.get(), nullptr, nullptr));
    const auto deadline = steady_clock::now() + 10s;
    const auto expect = [&](const std::string& bytes) {
      std::string got(bytes.size(), '\0');
      receive_all(socket, got.data(), got.size(), deadline);
      EXPECT_EQ(got, bytes);
    };
    const auto reply = [&](const std::string& bytes) { send_all(socket, bytes, deadline); };
    expect(hello + "\x0d"s);
    std::string nonce(4, '\0');
    receive_all(socket, nonce.data(), 4, deadline);
    reply(nonce);
    expect("\x04"s + text("init/") + u64(1));
    reply(u64(1));
    expect("\x01"s + text("/k") + text("v"));
    expect("\x06"s + u64(1) + text("/k"));
    reply("\x00"s);
    expect("\x03"s + text("/k"));
    reply(text("v"));
    expect("\x04"s + text("/n") + u64(static_cast<std::uint64_t>(-2)));
    reply(u64(static_cast<std::uint64_t>(-2)));
    expect("\x02"s + text("/k") + text("v") + text("w"));
    reply(text("w"));
    expect("\x05"s + u64(2) + text("/k") + text("/n"));
    reply("\x01"s);
    expect("\x08"s + text("/k"));
    reply(u64(1));
    expect("\x09"s + text("/k") + text("+"));
    expect("\x06"s + u64(2) + text("/k") + text("/z") + "\x0c"s);
    reply("\x01"s);
    expect("\x05"s + u64(1) + text("/k"));
    reply("\x00"s);
    expect("\x05"s + u64(1) + text("/z"));
    reply("\x01"s);
  });
  TcpStore store({"127.0.0.1", local_port(listener), 10s, ""});
  store.set("k", "v");
  EXPECT_EQ(store.get("k"), "v");
  EXPECT_EQ(store.add("n", -2), -2);
  EXPECT_EQ(store.compare_set("k", "v", "w"), "w");
  EXPECT_FALSE(store.check({"k", "n"}));
  EXPECT_TRUE(store.delete_key("k"));
  store.append("k", "+");
  expect_parts(error_of([&] { store.wait({"k", "z"}, 50ms); }), {"nobody set \"z\" (1 of 2"});
  server.join();
}

TEST(TcpStoreBytes, BadClientsLoseTheirConnectionAndNobodyElse) {
  TcpStoreServer server({});
  TcpStore bystander(options_for(server));
  bystander.set("text", "abc");
  bystander.get("text");
  const std::string bad[] = {
      "GET / HTTP/1.1\r\n\r\n",
      "\x01"s + text("/a") + text("b"),                    // no greeting
      "\x00\xCE\xF7\x85\x3D"s,                             // wrong magic
      hello + hello,                                       // greeting twice
      hello + "\x63"s,                                     // no such query
      hello + "\x01"s + u64(8193),                         // key too long
      hello + "\x01"s + text("/a") + u64((8u << 20) + 1),  // value too long
      hello + "\x01"s + u64(~std::uint64_t{0}),            // a length that overflows
      hello + "\x05"s + u64(131073),                       // too many keys
      hello + "\x04"s + text("/text") + u64(1),            // adding to text
      hello + "\x04"s + text("/big") + u64(INT64_MAX) + "\x04"s + text("/big") + u64(1) + "\x63"s,
  };
  for (const auto& bytes : bad) {
    RawClient client(server.port());
    client.send(bytes);
    if (bytes.find("/big") != std::string::npos) client.receive(8);
    EXPECT_TRUE(client.is_closed()) << ::testing::PrintToString(bytes);
  }
  EXPECT_EQ(bystander.get("text"), "abc");
  EXPECT_FALSE(bystander.check({"a"}));
}

TEST(TcpStoreBytes, AStrangerLearnsNothing) {
  TcpStoreServer server({"127.0.0.1", 0, "secret"});
  TcpStore member(options_for(server, 10s, "secret"));
  member.set("k", "v");
  for (const auto& query : {"\x0d"s + "1234"s, "\x03"s + text("/k"), "\x07"s, "\x11"s,
                            "\x02"s + text("tandem/token") + text("") + text(""),
                            "\x02"s + text("tandem/token") + text("secret") + text("other"),
                            "\x02"s + text("/k") + text("v") + text("w"), std::string(5000, '\x02')}) {
    RawClient client(server.port());
    client.send(hello + query);
    EXPECT_TRUE(client.is_closed());
  }
  EXPECT_EQ(member.get("k"), "v");
}

// The rest of the protocol in our client's words.

TEST(TcpStore, ManyKeysInOneExchange) {
  TcpStoreServer server({});
  TcpStore a(options_for(server)), b(options_for(server));
  a.multi_set({{"x", "1"}, {"y", ""}, {"z", "3"}});
  EXPECT_EQ(a.multi_get({"z", "none", "x"}), (std::vector<std::string>{"3", "", "1"}));
  EXPECT_EQ(b.key_count(), 4);  // with the protocol's own
  auto keys = b.keys();
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(keys, (std::vector<std::string>{"x", "y", "z"}));
}

TEST(TcpStore, AnItemIsForOneClient) {
  TcpStoreServer server({});
  TcpStore giver(options_for(server));
  constexpr int takers = 4, items = 25;
  std::vector<std::thread> threads;
  std::atomic<int> sum{0};
  for (int i = 0; i < takers; ++i) {
    threads.emplace_back([&] {
      TcpStore taker(options_for(server));
      for (int j = 0; j < items; ++j) sum += std::stoi(taker.queue_pop("queue"));
    });
  }
  for (int i = 0; i < takers * items; ++i) giver.queue_push("queue", std::to_string(i));
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(sum, takers * items * (takers * items - 1) / 2);
  EXPECT_EQ(giver.queue_length("queue"), 0);
  TcpStore hasty(options_for(server, 50ms));
  expect_parts(error_of([&] { hasty.queue_pop("queue"); }), {"nobody set \"queue\""});
  giver.queue_push("queue", "late");
  EXPECT_EQ(hasty.queue_pop("queue"), "late");
}

TEST(TcpStore, BarriersOpenForAll) {
  TcpStoreServer server({});
  std::atomic<int> arrived{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      TcpStore store(options_for(server));
      for (int round = 1; round <= 10; ++round) {
        ++arrived;
        store.barrier("round " + std::to_string(round), 4);
        EXPECT_GE(arrived, 4 * round);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  TcpStore lonely(options_for(server, 50ms));
  expect_parts(error_of([&] { lonely.barrier("lonely", 2); }), {"not all 2 clients"});
  lonely.set("k", "in step");
  EXPECT_EQ(lonely.get("k"), "in step");
}

}  // namespace
}  // namespace tandem::distributed
