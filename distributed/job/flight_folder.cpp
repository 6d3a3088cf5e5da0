#include <tandem/core/base/check.h>
#include <tandem/core/io/file_system.h>
#include <tandem/distributed/job/flight_folder.h>
#include <tandem/distributed/system/random_text.h>
#include <tandem/distributed/system/temporary_folder.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <iostream>

namespace tandem::distributed {
namespace {

namespace fs = std::filesystem;

constexpr const char* prefix = "tandem-flight-";

bool is_ours(const fs::path& folder) {
  struct stat about {};
  return ::lstat(folder.c_str(), &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == ::geteuid();
}

}  // namespace

fs::path flight_folder(const std::string& name) {
  const auto temporary = fs::temp_directory_path();
  const auto folder = temporary / (prefix + name);
  if (::mkdir(folder.c_str(), 0700) == 0) {
    remove_old_folders(temporary, prefix);
    return folder;
  }
  TANDEM_CHECK(errno == EEXIST, "cannot make the folder ", folder.string(), ": ", explain_file_error(errno));
  TANDEM_CHECK(is_ours(folder), folder.string(), " is no folder of this user's");
  return folder;
}

std::shared_ptr<FlightRecorder> open_flight_recorder(const Environment& environment, Store& store) {
  // Equal for the ranks of this attempt to run the job, because the store's keys are.
  const auto job = store.compare_set("flight", "", random_text(2));
  const char* given = std::getenv("TANDEM_FLIGHT_DIR");
  const bool is_temporary = !given || !*given;
  try {
    const fs::path folder = is_temporary ? flight_folder(job) : fs::path(given);
    if (!is_temporary) create_folder(folder, "for flight records");
    return std::make_shared<FlightRecorder>(FlightRecorder::Options{.folder = folder,
                                                                    .rank = environment.rank,
                                                                    .world_size = environment.world_size,
                                                                    .job = job,
                                                                    .is_temporary = is_temporary});
  } catch (const std::exception& error) {
    std::cerr << "note: rank " << environment.rank << " does not record what it does: " << error.what() << std::endl;
    return nullptr;
  }
}

}  // namespace tandem::distributed
