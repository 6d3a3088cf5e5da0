#include <tandem/distributed/groups/observers/flight_recorder.h>
#include <tandem/distributed/groups/observers/trace_ranges.h>
#include <tandem/distributed/groups/observers/watchdog.h>
#include <tandem/distributed/job/flight_folder.h>
#include <tandem/distributed/job/init.h>
#include <tandem/distributed/job/observers.h>

#include <string_view>

namespace tandem::distributed {

Observers usual_observers(std::shared_ptr<FlightRecorder> recorder) {
  using Observer = std::unique_ptr<OperationObserver>;
  return {
      [](const ObservedGroup& group) -> Observer {
        if (group.backend == std::string_view("nccl")) return nullptr;
        return std::make_unique<TraceRanges>();
      },
      [recorder](const ObservedGroup& group) -> Observer {
        if (!recorder) return nullptr;
        return std::make_unique<FlightLane>(group, recorder);
      },
      [recorder](const ObservedGroup& group) -> Observer { return std::make_unique<Watchdog>(group, recorder); },
  };
}

}  // namespace tandem::distributed

namespace tandem {

void add_observers() {
  using namespace distributed;
  job_observers.add([](const Environment& environment, Store& store) {
    return usual_observers(open_flight_recorder(environment, store));
  });
}

}  // namespace tandem
