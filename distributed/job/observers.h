// The observers that init() adds to every process group of a job, including the flight recorder of this process
// (flight_folder.h). To add an observer, extend the list in observers.cpp.
#pragma once

#include <tandem/distributed/groups/operation_observer.h>

#include <memory>

namespace tandem::distributed {

class FlightRecorder;

// Returns the profile and the watchdog, and also the flight recorder if `recorder` is not null.
Observers usual_observers(std::shared_ptr<FlightRecorder> recorder = nullptr);

}  // namespace tandem::distributed
