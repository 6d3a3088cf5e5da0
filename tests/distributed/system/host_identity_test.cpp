#include <tandem/distributed/system/host_identity.h>

#include <gtest/gtest.h>

namespace tandem::distributed {
namespace {

TEST(HostIdentity, KnowsTheNamesAndAddressesOfThisHostAlone) {
  for (const auto* host :
       {"localhost", "LOCALHOST", "localhost.", "a.localhost", "127.0.0.1", "127.1", "::1", "0:0:0:0:0:0:0:1"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const auto* host :
       {"", "127.example.com", "localhost.example.com", "mylocalhost", "10.0.0.1", "128.0.0.1", "::2"})
    EXPECT_FALSE(is_loopback(host)) << host;
}

}  // namespace
}  // namespace tandem::distributed
