// The options of tandemrun, which are those of torchrun, and the command line that sets them.
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

// A choice of output streams, by rank. Bit 0 of a number selects stdout, and bit 1 selects stderr.
struct StreamChoice {
  int otherwise = 0;  // for ranks that are not in by_local_rank
  std::map<int, int> by_local_rank;

  bool is_any() const { return otherwise != 0 || !by_local_rank.empty(); }
  int of(int local_rank) const {
    const auto found = by_local_rank.find(local_rank);
    return found == by_local_rank.end() ? otherwise : found->second;
  }
};
// Parses "3" (for all ranks) or "0:1,1:2" (by local rank): 0 means nothing, 1 stdout, 2 stderr, 3 both. Throws an Error
// that names `option` for any other text.
StreamChoice parse_stream_choice(const std::string& option, const std::string& text);

struct LaunchOptions {
  using Duration = std::chrono::milliseconds;

  int processes = 1;  // how many ranks this host starts
  // If max_nodes is above 1, the job runs on several hosts ("nodes"), each with its own launcher.
  int min_nodes = 1;
  int max_nodes = 1;
  // The number of this node, if set. Node 0 then serves the store. If not set, nodes are numbered in the order of
  // arrival, and the host with the address master_addr serves the store.
  std::optional<int> node_rank;
  // The address at which the nodes and ranks meet. With one node, the store listens only at this address of the host.
  std::string master_addr = "127.0.0.1";
  int master_port = 0;               // 0: any free port, only for a job on one node
  std::optional<bool> serves_store;  // if set, decides whether this node serves the store, whatever node_rank says
  // These times are torchrun's defaults.
  Duration join_timeout = std::chrono::minutes(10);            // how long the job waits for min_nodes
  Duration last_call = std::chrono::seconds(30);               // how long it then waits for further nodes
  Duration monitor_interval = std::chrono::milliseconds(100);  // between two checks of the other nodes
  Duration silence_allowed = std::chrono::seconds(15);         // a node that is silent for longer counts as lost
  int max_restarts = 0;                                        // of all ranks together
  // If set, a rank that fails restarts alone, this many times, and the job goes on without a rank that does not. If
  // only suspended ranks are left, the job ends after twice silence_allowed.
  std::optional<int> elastic_restarts;

  std::string run_id;  // empty: a random one on one node, "none" on several
  std::string role = "default";
  std::string log_dir;                             // empty: a temporary folder, kept only if it contains logs
  StreamChoice redirects;                          // streams that go to files only
  StreamChoice tee;                                // streams that go to files and to the launcher's streams
  std::optional<std::set<int>> shown_local_ranks;  // the ranks whose output appears; not set: all
  // The time between SIGTERM and SIGKILL. In 5 s, a rank has time to end in order, and a user who stops a job does not
  // wait long (torchrun: 30 s).
  Duration grace = std::chrono::seconds(5);
  bool open_store = false;  // whether the store asks for no token, which lets Python programs join
  bool bind_cores = false;  // whether each rank gets its own share of the cores
};

struct LaunchCommand {
  LaunchOptions options;
  std::vector<std::string> program;  // its path or name, then its arguments
  std::optional<std::string> text;   // if set: the answer to --help, --version or a question, instead of a job
};

// An option with which tandemrun answers a question instead of launching a job: --explain FOLDER.
struct LaunchQuestion {
  std::string option, value_name, help;
  std::function<std::string(const std::string& value)> answer;
};
inline constinit AnnexList<LaunchQuestion> launch_questions{add_distributed_annexes};

// Parses the arguments of a command line, without the program's own name. If an option is missing, an environment
// variable such as PET_NNODES may set it. Throws an Error that names the option, its value and the allowed values.
LaunchCommand parse_launch_command(std::vector<std::string> arguments);

}  // namespace tandem::distributed
