// Tests Tandem's store and PyTorch's: the client of each with the server of the other.
#include <tandem/core/base/check.h>
#include <tandem/distributed/store/pytorch_tcp_store.h>

#include <gtest/gtest.h>
#include <support/process.h>
#include <support/torch_python.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace tandem::distributed {
namespace {

using namespace std::chrono_literals;

// The script is first a client of Tandem's server that uses every operation, and then a server. Operations that an
// older PyTorch lacks are omitted.
const char* const script = R"(
import sys, threading, torch.distributed as dist
from datetime import timedelta

def client(port):
    return dist.TCPStore('127.0.0.1', port, None, False, timedelta(seconds=30), wait_for_workers=False)

def refuses(error, action):
    try:
        action()
    except error:
        return True
    return False

ours = client(int(sys.argv[1]))
assert ours.get('from us') == bytes([0, 255]) + b'bytes'
ours.set('from python', 'hello')
assert ours.add('n', 5) == 5 and ours.add('n', -7) == -2 and ours.get('n') == b'-2'
assert ours.compare_set('c', 'old', 'new') == b'old' and not ours.check(['c'])
assert ours.compare_set('c', '', 'one') == b'one' and ours.compare_set('c', 'two', 'three') == b'one'
ours.append('log', 'a'); ours.append('log', 'b')
assert ours.multi_get(['log', 'n']) == [b'ab', b'-2']
ours.multi_set(['x', 'y'], ['1', '2'])
assert ours.get('y') == b'2' and ours.check(['x', 'y']) and not ours.check(['x', 'z'])
assert ours.delete_key('x') and not ours.delete_key('x')
ours.set('large', 'x' * (8 << 20))
assert len(ours.get('large')) == 8 << 20
assert refuses(dist.DistStoreError, lambda: ours.wait(['never'], timedelta(milliseconds=100)))
assert ours.get('n') == b'-2'
assert ours.num_keys() >= 6

second = client(int(sys.argv[1]))
late = threading.Thread(target=lambda: second.set('late', 'value'))
late.start()
ours.wait(['late'], timedelta(seconds=30))
late.join()
if hasattr(ours, 'queue_push'):
    assert ours.queue_len('q') == 0
    ours.queue_push('q', '1'); ours.queue_push('q', '2')
    assert ours.queue_len('q') == 2 and ours.check(['q'])
    assert second.queue_pop('q') == b'1' and ours.queue_pop('q') == b'2'
    assert refuses(dist.QueueEmptyError, lambda: ours.queue_pop('q', False))
    late = threading.Thread(target=lambda: second.queue_push('q', '3'))
    late.start()
    assert ours.queue_pop('q') == b'3'
    late.join()
if hasattr(ours, 'list_keys'):
    assert {'from us', 'from python', 'n', 'log', 'y'} <= set(ours.list_keys())
if hasattr(ours, 'barrier'):
    for round in range(3):
        other = threading.Thread(target=lambda: second.barrier('b', 2))
        other.start()
        ours.barrier('b', 2)
        other.join()
    assert refuses(dist.DistStoreError, lambda: ours.barrier('alone', 2, timedelta(milliseconds=100)))
    assert ours.get('n') == b'-2'

theirs = dist.TCPStore('127.0.0.1', 0, None, True, timedelta(seconds=30), wait_for_workers=False)
theirs.set('from python', 'hello')
ours.set('new operations', str(int(hasattr(ours, 'barrier'))))
ours.set('port', str(theirs.port))
assert theirs.get('from us') == b'good day'
if hasattr(ours, 'barrier'):
    theirs.barrier('b', 2)
    assert theirs.queue_pop('q') == b'item'
ours.get('done')
)";

TEST(TcpStoreAndPyTorch, EachIsTheOthersClient) {
  TANDEM_NEEDS_TORCH();
  TcpStoreServer server({});
  PyTorchTcpStore ours({"127.0.0.1", server.port(), 60s, ""});
  ours.set("from us", std::string("\0\xff", 2) + "bytes");
  testing::Outcome outcome;
  std::thread python([&] {
    outcome =
        testing::run_process({"/usr/bin/env", testing::torch_python(), "-c", script, std::to_string(server.port())});
  });
  try {
    PyTorchTcpStore theirs({"127.0.0.1", std::stoi(ours.get("port")), 30s, ""});
    EXPECT_EQ(theirs.get("from python"), "hello");
    theirs.set_when_gone("it does not do that");
    theirs.set("k", "v");
    EXPECT_EQ(theirs.add("n", 3), 3);
    theirs.append("k", "w");
    EXPECT_EQ(theirs.multi_get({"k", "n"}), (std::vector<std::string>{"vw", "3"}));
    theirs.multi_set({{"x", "1"}, {"y", "2"}});
    EXPECT_TRUE(theirs.check({"x", "y"}));
    EXPECT_EQ(theirs.compare_set("x", "1", "3"), "3");
    EXPECT_TRUE(theirs.delete_key("x"));
    EXPECT_THROW(theirs.wait({"never"}, 50ms), Error);
    const std::string large(std::size_t{8} << 20, 'x');
    theirs.set("large", large);
    EXPECT_EQ(theirs.get("large"), large);
    EXPECT_GE(theirs.key_count(), 5);
    theirs.set("from us", "good day");
    if (ours.get("new operations") == "1") {
      theirs.barrier("b", 2);
      theirs.queue_push("q", "item");
      theirs.queue_push("other", "1");
      EXPECT_EQ(theirs.queue_length("other"), 1);
      EXPECT_EQ(theirs.queue_pop("other"), "1");
      const auto keys = theirs.keys();
      EXPECT_NE(std::find(keys.begin(), keys.end(), "k"), keys.end());
    }
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  ours.set("done", "");
  python.join();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

}  // namespace
}  // namespace tandem::distributed
