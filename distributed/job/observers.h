// Who observes the operations of a job's process groups: decided here, for all programs. init() has them, with the
// flight recorder of this process (flight_folder.h).
#pragma once

#include <tandem/distributed/groups/operation_observer.h>

#include <memory>

namespace tandem::distributed {

class FlightRecorder;

// The profile, the watchdog, and the flight recorder where there is one: `recorder` may be null.
Observers usual_observers(std::shared_ptr<FlightRecorder> recorder = nullptr);

}  // namespace tandem::distributed
