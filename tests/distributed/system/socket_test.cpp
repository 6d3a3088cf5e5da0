#include <tandem/core/base/check.h>
#include <tandem/distributed/system/socket.h>

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace tandem::distributed {
namespace {

// No /etc/hosts holds the names below localhost, so this tries what happens on a machine without that file.
TEST(Socket, LocalhostNeedsNoResolver) {
  for (const std::string host : {"localhost", "store.localhost", "Store.LocalHost", "store.localhost."}) {
    SCOPED_TRACE(host);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    const auto listener = listen_on(host, 0);
    EXPECT_TRUE(connect_to(host, local_port(listener), deadline).is_open());
    EXPECT_TRUE(connect_to("127.0.0.1", local_port(listener), deadline).is_open());
  }
}

TEST(Socket, OtherNamesAreNotLocalhost) {
  // A label may have 63 characters: the resolver refuses this one without asking anybody.
  EXPECT_THROW(listen_on(std::string(60, 'x') + "localhost", 0), Error);
  EXPECT_THROW(listen_on("localhost." + std::string(64, 'x'), 0), Error);
}

}  // namespace
}  // namespace tandem::distributed
