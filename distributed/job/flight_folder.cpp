#include <tandem/core/io/file_system.h>
#include <tandem/distributed/job/flight_folder.h>
#include <tandem/distributed/system/random_text.h>
#include <tandem/distributed/system/temporary_folder.h>

#include <cstdlib>
#include <iostream>

namespace tandem::distributed {

namespace fs = std::filesystem;

std::shared_ptr<FlightRecorder> open_flight_recorder(const Environment& environment, Store& store) {
  // Equal for the ranks of this generation of the job, because the store's keys are.
  const auto job = store.compare_set("flight", "", random_text(2));
  const char* given = std::getenv("TANDEM_FLIGHT_DIR");
  const bool is_temporary = !given || !*given;
  try {
    const fs::path folder = is_temporary ? shared_folder(flight_folders, job) : fs::path(given);
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
