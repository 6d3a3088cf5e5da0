#include <tandem/core/base/standard_output.h>
#include <tandem/distributed/job/failure_report.h>
#include <tandem/distributed/job/program.h>
#include <tandem/distributed/system/version.h>

#include <iostream>
#include <string_view>

namespace tandem::distributed {

int run_program(int argc, const char* const* argv, const ProgramInfo& info, const std::function<void()>& body) {
  prepare_standard_streams();
  const std::string usage = "Usage: " + info.name + " " + info.usage + "\n";
  const std::string_view first = argc > 1 ? argv[1] : "";
  try {
    if (first == "--help" || first == "-h") {
      std::cout << usage;
    } else if (first == "--version") {
      std::cout << version_text(info.name);
    } else if (argc > 1 + info.most_arguments) {
      std::cerr << info.name << ": " << argv[1 + info.most_arguments] << ": unknown argument\n" << usage;
      return 2;
    } else {
      body();
    }
    flush_standard_output();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << info.name << ": " << error.what() << "\n";
    report_failure(error, true);
    return dynamic_cast<const UsageError*>(&error) ? 2 : 1;
  }
}

}  // namespace tandem::distributed
