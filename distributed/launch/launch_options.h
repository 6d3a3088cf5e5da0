// What a launcher is to do: the options of tandemrun, which are those of torchrun, and the command line that sets them.
#pragma once

#include <tandem/distributed/system/annexes.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tandem::distributed {

// Which output streams of which ranks are chosen. A number chooses streams: bit 0 is stdout, bit 1 is stderr.
struct StreamChoice {
  int otherwise = 0;  // for ranks that by_local_rank does not name
  std::map<int, int> by_local_rank;

  bool is_any() const { return otherwise != 0 || !by_local_rank.empty(); }
  int of(int local_rank) const {
    const auto found = by_local_rank.find(local_rank);
    return found == by_local_rank.end() ? otherwise : found->second;
  }
};
// Reads "3" (for all ranks) or "0:1,1:2" (by local rank): 0 is none, 1 stdout, 2 stderr, 3 both. Throws an Error that
// names `option` for anything else.
StreamChoice parse_stream_choice(const std::string& option, const std::string& text);

struct LaunchOptions {
  using Duration = std::chrono::milliseconds;

  int processes = 1;  // how many ranks this host starts
  // If max_nodes is above 1, the job runs on several hosts ("nodes"), each with a launcher of its own.
  int min_nodes = 1;
  int max_nodes = 1;
  // If set: the number of this node; node 0 serves the store. If not set: nodes are numbered as they arrive, and the
  // host with the address master_addr serves the store.
  std::optional<int> node_rank;
  // Where the nodes and ranks meet. With one node, the store listens at this address of the host and at no other.
  std::string master_addr = "127.0.0.1";
  int master_port = 0;               // 0: a free port, which only a job of one node can take
  std::optional<bool> serves_store;  // if set, decides whether this node serves the store, whatever node_rank says
  // These times are torchrun's defaults.
  Duration join_timeout = std::chrono::minutes(10);            // how long the job waits for min_nodes
  Duration last_call = std::chrono::seconds(30);               // how long it then waits for further nodes
  Duration monitor_interval = std::chrono::milliseconds(100);  // between two looks at the other nodes
  Duration silence_allowed = std::chrono::seconds(15);         // a node that is silent for longer counts as lost
  int max_restarts = 0;

  std::string run_id;  // empty: a random one on one node, "none" on several
  std::string role = "default";
  std::string log_dir;                             // empty: a temporary folder, kept only if it is to have logs
  StreamChoice redirects;                          // streams that go to files only
  StreamChoice tee;                                // streams that go to files and to the launcher's streams
  std::optional<std::set<int>> shown_local_ranks;  // the ranks whose output appears; not set: all
  // Between SIGTERM and SIGKILL. Chosen: a rank has time to end in order, and a user who stops a job does not wait long
  // (torchrun: 30 s).
  Duration grace = std::chrono::seconds(5);
  bool open_store = false;  // the store asks for no token, so that Python programs may join
  bool bind_cores = false;  // each rank gets its own share of the cores
};

struct LaunchCommand {
  LaunchOptions options;
  std::vector<std::string> program;  // its path or name, then its arguments
  std::optional<std::string> text;   // if set: the answer to --help, --version or a question; nothing is to be launched
};

// An option of tandemrun with which it answers a question, and launches nothing: --explain FOLDER.
struct LaunchQuestion {
  std::string option, value_name, help;
  std::function<std::string(const std::string& value)> answer;
};
AnnexList<LaunchQuestion>& launch_questions();

// Reads the arguments of a command line, without the program's own name. An option that is not given may come from an
// environment variable such as PET_NNODES. An Error names the option, what was given and what is allowed.
LaunchCommand parse_launch_command(std::vector<std::string> arguments);

}  // namespace tandem::distributed
