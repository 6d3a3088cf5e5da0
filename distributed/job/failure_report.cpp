#include <tandem/distributed/job/failure_report.h>
#include <tandem/distributed/job/together.h>

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tandem::distributed {

void report_failure(const std::string& message, std::chrono::system_clock::time_point when, bool is_of_peer,
                    bool is_printed) noexcept try {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (!path || !*path) return;
  // Renaming a file to the name of a device would remove the device for all programs.
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) return;
  const auto now = when.time_since_epoch();
  // torchrun reads whole seconds. tandemrun reads the nanoseconds to order failures within one second.
  const nlohmann::json report = {
      {"message",
       {{"message", message},
        {"extraInfo",
         {{"py_callstack", message},  // what torchrun shows
          {"timestamp", std::to_string(std::chrono::duration_cast<std::chrono::seconds>(now).count())},
          {"is_of_peer", is_of_peer ? "1" : "0"},
          {"is_printed", is_printed ? "1" : "0"},
          {"timestamp_ns", std::to_string(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count())}}}}}};
  // Write a temporary file and rename it, because the launcher may read the report at any moment.
  const auto temporary = std::string(path) + "." + std::to_string(getpid());
  std::ofstream file(temporary);
  file << report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::flush;
  file.close();
  if (!file || std::rename(temporary.c_str(), path) != 0) std::remove(temporary.c_str());
} catch (...) {
}

void report_failure(const std::exception& error, bool is_printed) noexcept {
  auto when = std::chrono::system_clock::now();
  if (const auto* earlier = dynamic_cast<const EarlierFailure*>(&error)) when = earlier->when;
  const bool is_of_peer = dynamic_cast<const PeerError*>(&error) != nullptr;
  if (is_of_peer) when += std::chrono::seconds(1);
  report_failure(error.what(), when, is_of_peer, is_printed);
}

}  // namespace tandem::distributed
