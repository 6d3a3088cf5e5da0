// Tests the exact bytes of the store's protocol, for the client and for the server.
#include <tandem/core/base/check.h>
#include <tandem/distributed/store/tcp_store.h>
#include <tandem/distributed/store/tcp_store_protocol.h>
#include <tandem/distributed/system/socket.h>

#include <gtest/gtest.h>
#include <support/raw_client.h>
#include <support/store_client.h>
#include <support/temporary_folder.h>
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <thread>

namespace tandem::distributed {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using testing::error_of;
using testing::expect_parts;
using testing::hello;
using testing::options_for;
using testing::RawClient;
using testing::text;
using testing::u64;

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
  client.send("\x09"s + text("/a") + text("!") + "\x0a"s + u64(2) + text("/a") + text("/a"));  // append, multi_get
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
    EXPECT_TRUE(wait_readable(listener, RunningTime::now() + 10s));
    const FileDescriptor socket(accept(listener.get(), nullptr, nullptr));
    const auto deadline = RunningTime::now() + 10s;
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
  expect_parts(error_of([&] { store.wait({"k", "z"}, 50ms); }), {"no process set \"z\" (1 of 2"});
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
  for (const auto& query :
       {"\x0d"s + "1234"s, "\x03"s + text("/k"), "\x07"s, "\x11"s, "\x02"s + text("tandem/token") + text("") + text(""),
        "\x02"s + text("tandem/token") + text("secret") + text("other"), "\x02"s + text("/k") + text("v") + text("w"),
        "\x02"s + text("tandem/token") + text("secret") + text("secret"), std::string(5000, '\x02')}) {
    RawClient client(server.port());
    client.send(hello + query);
    EXPECT_TRUE(client.is_closed());
  }
  EXPECT_EQ(member.get("k"), "v");
}

// Both sides prove that they know the token, and neither sends it.
TEST(TcpStoreBytes, TheTokenDoesNotTravel) {
  const std::string secret = "secret of 29 bytes, not shown", nonce(protocol::nonce_bytes, 'a');
  const auto asking = [](const std::string& words) {
    return "\x02"s + text("tandem/token") + text(words) + text(words);
  };
  TcpStoreServer server({"127.0.0.1", 0, secret});
  RawClient client(server.port());
  client.send(hello + asking(nonce));
  const auto answer = client.receive(8 + 32 + 64).substr(8);
  const auto theirs = answer.substr(0, 32);
  EXPECT_EQ(answer.substr(32), keyed_hash(secret, "server " + nonce + theirs));
  const auto proof = keyed_hash(secret, "client " + nonce + theirs);
  client.send(asking(proof) + "\x0d"s + "1234"s);
  EXPECT_EQ(client.receive(8 + 64 + 4), text(proof) + "1234");

  // A proof is valid for only one connection. A recorded proof is useless, and a client can't use a server's proof.
  for (const std::string& recorded : {proof, answer.substr(32)}) {
    RawClient other(server.port());
    other.send(hello + asking(nonce));
    EXPECT_NE(other.receive(8 + 32 + 64).substr(8), answer);
    other.send(asking(recorded) + "\x0d"s + "1234"s);
    EXPECT_TRUE(other.is_closed());
  }
  EXPECT_EQ(server.refused_clients(), 2);
}

}  // namespace
}  // namespace tandem::distributed
