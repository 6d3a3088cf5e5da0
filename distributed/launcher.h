// Launcher: starts the processes of a job on this host, serves their store, passes their output on, and ends
// them together.
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
  int processes = 1;
  std::string master_addr = "127.0.0.1";  // an address of this host, where the store listens; nowhere else
  int master_port = 0;                    // 0: a free one
  std::string run_id;                     // empty: a random one
  std::string role = "default";
  std::string log_dir;     // empty: a temporary one, kept only if there are logs in it
  StreamChoice redirects;  // streams that go to files alone
  StreamChoice tee;        // streams that go to files too
  std::optional<std::set<int>> shown_local_ranks;             // whose output appears; all, unless set
  std::chrono::milliseconds grace = std::chrono::seconds(5);  // between SIGTERM and SIGKILL
  bool open_store = false;  // the store asks for no token: workers that are not ours (Python's) may join
  bool bind_cores = false;  // each rank gets its own share of the cores
};

// Runs `command` options.processes times, with torchrun's variables set, and returns the exit code for the
// launcher: 0 when all succeeded, that of the rank that failed first (128 + signal), or 128 + signal when one
// of SIGINT, SIGTERM, SIGHUP and SIGQUIT stopped it. A failure ends the other ranks and is explained on
// stderr. No process of the job outlives the call, nor the calling process, however that ends. Rank 0
// inherits stdin, stdout and stderr; of other ranks whole lines are passed on, with "[rank1] " in front.
// Files: log_dir/<run id>/attempt_0/<local rank>/{stdout.log,stderr.log,error.json}.
// Error when the job cannot be started. Takes over the signals above and SIGCHLD while it runs; one call at a
// time.
int launch(const LaunchOptions& options, const std::vector<std::string>& command);

}  // namespace tandem::distributed
