#include <tandem/core/io/file_system.h>
#include <tandem/distributed/job/flight_folder.h>
#include <tandem/distributed/system/random_text.h>
#include <tandem/distributed/system/temporary_folder.h>

#include <cstdlib>
#include <iostream>

namespace tandem::distributed {

namespace fs = std::filesystem;

std::shared_ptr<FlightRecorder> open_flight_recorder(const Environment& environment, Store& store) {
  // All ranks of one generation of the job use the same keys of the store, so they get the same text.
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
    std::cerr << "note: rank " << environment.rank << " does not record its operations: " << error.what() << std::endl;
    return nullptr;
  }
}

}  // namespace tandem::distributed
