#include <tandem/core/base/standard_output.h>
#include <tandem/core/base/thread.h>
#include <tandem/core/profile/profile.h>
#include <tandem/distributed/job/environment.h>
#include <tandem/distributed/job/failure_report.h>
#include <tandem/distributed/job/init.h>
#include <tandem/distributed/job/together.h>
#include <tandem/distributed/training/options/option_parser.h>
#include <tandem/distributed/training/options/program_end.h>
#include <tandem/distributed/training/options/stop_request.h>

#include <csignal>
#include <cstdlib>
#include <iostream>

namespace tandem::distributed {
namespace {

// How this process identifies itself in errors. This is known even if the launcher's variables contradict each other.
struct Speaker {
  std::string rank{};             // empty: it is the only process
  bool is_first_of_host = false;  // also true if it is unknown which processes share a host
};

Speaker find_speaker() {
  const char* rank = std::getenv("RANK");
  try {
    const auto environment = environment_for("file://anywhere");
    return {environment.world_size > 1 ? std::to_string(environment.rank) : "", environment.local_rank == 0};
  } catch (const Error&) {  // the body throws the same Error later
    return {rank ? rank : "", true};
  }
}

}  // namespace

int exit_code_of(const std::string& program, const std::function<void(bool is_rank_0)>& body) {
  prepare_standard_streams();
  // The errors below begin with the rank, so find it before anything can fail.
  const auto [rank, is_first_of_host] = find_speaker();
  const std::string speaker = rank.empty() ? program + ": " : "[rank" + rank + "]: ";
  const bool is_rank_0 = rank.empty() || rank == "0";
  try {
    body(is_rank_0);
    return 0;
  } catch (const StoppedBySignal& stop) {
    return stop.signal == SIGUSR1 ? 0 : 128 + stop.signal;
  } catch (const UsageError& error) {
    // The processes of a host have the same arguments, so only one of them prints the error.
    const bool speaks = is_rank_0 || is_first_of_host;
    if (speaks) std::cerr << (is_rank_0 ? program + ": " : speaker) << error.what() << std::endl;
    report_failure(error, speaks);
    return 2;
  } catch (const PeerError& error) {
    // Under a launcher, one message is enough: the message of the failed rank.
    const bool other_speaks = dynamic_cast<const PeerFailure*>(&error) && std::getenv("TORCHELASTIC_RUN_ID");
    if (!other_speaks) std::cerr << speaker << error.what() << std::endl;
    report_failure(error, !other_speaks);
    return 1;
  } catch (const std::exception& error) {
    std::cerr << speaker << error.what() << std::endl;
    report_failure(error, true);
    return 1;
  } catch (...) {
    std::cerr << speaker << unknown_exception << std::endl;
    report_failure(Error(unknown_exception), true);
    return 1;
  }
}

ProfileOfRun::ProfileOfRun(const std::string& path, int rank) {
  name_thread("compute");
  if (!path.empty()) Profile::start(path, rank);
}

// TrainingOptions::run() itself stops the profile when its body returns. If the profile is still running here, the body
// has thrown. Its error is the one to report, so an error of stop() is ignored.
ProfileOfRun::~ProfileOfRun() {
  try {
    Profile::stop();
  } catch (const Error&) {
  }
}

}  // namespace tandem::distributed
