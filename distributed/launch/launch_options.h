// What a launcher is to do, and how it is told: the options of tandemrun, which are those of torchrun.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tandem::distributed {

// Where the output streams of ranks go: bit 0 is stdout, bit 1 stderr.
struct StreamChoice {
  int otherwise = 0;
  std::map<int, int> by_local_rank;

  bool is_any() const { return otherwise != 0 || !by_local_rank.empty(); }
  int of(int local_rank) const {
    const auto found = by_local_rank.find(local_rank);
    return found == by_local_rank.end() ? otherwise : found->second;
  }
};
// "3", or by local rank "0:1,1:2", with 0 none, 1 stdout, 2 stderr, 3 both. Error for anything else,
// naming `option`.
StreamChoice parse_stream_choice(const std::string& option, const std::string& text);

struct LaunchOptions {
  using Duration = std::chrono::milliseconds;

  int processes = 1;  // on this host
  // A job runs on several hosts ("nodes"), each with a launcher of its own, if max_nodes is above 1.
  int min_nodes = 1;
  int max_nodes = 1;
  // The number of this node, and node 0 serves the store; none: numbers are given out as nodes arrive, and who owns
  // master_addr serves the store.
  std::optional<int> node_rank;
  // Where the nodes and ranks meet. On one node an address of this host, where the store listens; nowhere else.
  std::string master_addr = "127.0.0.1";
  int master_port = 0;                                         // 0: a free one, where there is one node
  std::optional<bool> serves_store;                            // overrides what was said of node_rank
  Duration join_timeout = std::chrono::minutes(10);            // until enough nodes are there
  Duration last_call = std::chrono::seconds(30);               // how long more than min_nodes are waited for
  Duration monitor_interval = std::chrono::milliseconds(100);  // between two looks at the other nodes
  Duration silence_allowed = std::chrono::seconds(15);         // of a node, before it counts as lost
  int max_restarts = 0;

  std::string run_id;  // empty: a random one on one node, "none" on several
  std::string role = "default";
  std::string log_dir;                             // empty: a temporary one, kept only if there are logs in it
  StreamChoice redirects;                          // streams that go to files alone
  StreamChoice tee;                                // streams that go to files too
  std::optional<std::set<int>> shown_local_ranks;  // whose output appears; all, unless set
  Duration grace = std::chrono::seconds(5);        // between SIGTERM and SIGKILL
  bool open_store = false;  // the store asks for no token: workers that are not ours (Python's) may join
  bool bind_cores = false;  // each rank gets its own share of the cores
};

struct LaunchCommand {
  LaunchOptions options;
  std::vector<std::string> program;  // its path or name, then its arguments
  std::optional<std::string> text;   // set: --help or --version asked for it; nothing is to be launched
};

// Understands the arguments of a command line (without the program's own name), with defaults from variables as
// PET_NNODES. Error that names the option, what was given and what is allowed.
LaunchCommand parse_launch_command(std::vector<std::string> arguments);

}  // namespace tandem::distributed
