// Who observes the operations of a job's process groups: decided here, for all programs.
#pragma once

#include <tandem/distributed/groups/operation_observer.h>
#include <tandem/distributed/job/environment.h>

#include <memory>

namespace tandem::distributed {

class FlightRecorder;

// The profile, the watchdog, and the flight recorder where there is one: `recorder` may be null.
Observers usual_observers(std::shared_ptr<FlightRecorder> recorder = nullptr);

// The same, with the flight recorder of this process (flight_folder.h). `store` is that of connect_store().
Observers observers_of_job(const Environment& environment, Store& store);

}  // namespace tandem::distributed
