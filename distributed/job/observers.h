// The observers that init() gives to every process group of a job, with the flight recorder of this process
// (flight_folder.h). To add one, change the list in observers.cpp.
#pragma once

#include <tandem/distributed/groups/operation_observer.h>

#include <memory>

namespace tandem::distributed {

class FlightRecorder;

// The profile, the watchdog, and the flight recorder where there is one: `recorder` may be null.
Observers usual_observers(std::shared_ptr<FlightRecorder> recorder = nullptr);

}  // namespace tandem::distributed
