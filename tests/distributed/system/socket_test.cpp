#include <tandem/core/base/check.h>
#include <tandem/distributed/system/socket.h>

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <netdb.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace tandem::distributed {
namespace {

std::atomic<int> resolver_seconds{0}, resolver_calls{0};

// /etc/hosts has no names below localhost, so this test behaves as on a machine without that file.
TEST(Socket, LocalhostNeedsNoResolver) {
  for (const std::string host : {"localhost", "store.localhost", "Store.LocalHost", "store.localhost."}) {
    SCOPED_TRACE(host);
    const auto deadline = RunningTime::now() + std::chrono::seconds(10);
    const auto listener = listen_on(host, 0);
    EXPECT_TRUE(connect_to(host, local_port(listener), deadline).is_open());
    EXPECT_TRUE(connect_to("127.0.0.1", local_port(listener), deadline).is_open());
  }
}

TEST(Socket, OtherNamesAreNotLocalhost) {
  // A label may have at most 63 characters, so the resolver rejects these names without asking a server.
  EXPECT_THROW(listen_on(std::string(60, 'x') + "localhost", 0), Error);
  EXPECT_THROW(listen_on("localhost." + std::string(64, 'x'), 0), Error);
}

TEST(Socket, SaysWhyNobodyAnswers) {
  using namespace std::chrono_literals;
  const auto error_at = [](const std::string& host, int port) -> std::string {
    try {
      connect_to(host, port, RunningTime::now() + 300ms);
      return "";
    } catch (const CannotConnect& error) {
      return error.what();
    }
  };
  auto listener = listen_on("127.0.0.1", 0);
  const int port = local_port(listener);
  // The system drops new connections if the queue is full.
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  std::vector<FileDescriptor> waiting;
  std::string said;
  for (int i = 0; i < 10 && said.empty(); ++i) {
    try {
      waiting.push_back(connect_to("127.0.0.1", port, RunningTime::now() + 300ms));
    } catch (const CannotConnect& error) {
      said = error.what();
    }
  }
  const auto name = "cannot connect to 127.0.0.1:" + std::to_string(port) + " (tried for 0.";
  EXPECT_NE(said.find(name), std::string::npos) << said;
  EXPECT_NE(said.find("Connection timed out: nothing answers there"), std::string::npos) << said;
  waiting.clear();
  listener.close();
  EXPECT_NE(
      error_at("127.0.0.1", port).find("Connection refused: the host answers, but no program listens at that port"),
      std::string::npos);
}

// The resolver needs two seconds.
TEST(Socket, ASlowResolverDoesNotOutlastTheDeadline) {
  using std::chrono::steady_clock;
  using namespace std::chrono_literals;
  const auto listener = listen_on("127.0.0.1", 0);
  const auto connect = [&](std::chrono::milliseconds time) {
    return connect_to("host.test", local_port(listener), RunningTime::now() + time);
  };
  resolver_seconds = 2;
  resolver_calls = 0;
  const auto start = steady_clock::now();
  std::string text;
  try {
    connect(200ms);
  } catch (const Error& error) {
    text = error.what();
  }
  EXPECT_NE(text.find("the resolver (DNS) has not answered in time"), std::string::npos) << text;
  EXPECT_LT(steady_clock::now() - start, 1500ms);
  // A second call gets the answer to the first request.
  EXPECT_TRUE(connect(20s).is_open());
  EXPECT_EQ(resolver_calls, 1);
  resolver_seconds = 0;
  EXPECT_TRUE(connect(20s).is_open());
  EXPECT_EQ(resolver_calls, 2);
}

}  // namespace
}  // namespace tandem::distributed

// Replaces the system's function. "host.test" resolves to this machine, after a while.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** found) {
  using Function = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  static const auto next = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "getaddrinfo"));
  if (node && std::string(node) == "host.test" && !(hints && (hints->ai_flags & AI_NUMERICHOST))) {
    ++tandem::distributed::resolver_calls;
    std::this_thread::sleep_for(std::chrono::seconds(tandem::distributed::resolver_seconds));
    node = "127.0.0.1";
  }
  return next(node, service, hints, found);
}
