// Greets one person per rank: tandemrun --nproc-per-node 4 hello_world
#include <tandem/core/base/standard_output.h>
#include <tandem/distributed/job/environment.h>
#include <tandem/distributed/job/failure_report.h>
#include <tandem/distributed/system/version.h>

#include <exception>
#include <iostream>

int main(int argc, char** argv) try {
  const char* const usage = "Usage: hello_world (greets one person per rank: tandemrun --nproc-per-node 4 hello_world)";
  if (const auto code = tandem::distributed::answer_options(argc, argv, "hello_world", usage)) return *code;
  const char* const names[] = {"Barry", "Alice", "Barbara", "Tom"};
  const int rank = tandem::distributed::read_environment().rank;
  if (rank >= static_cast<int>(std::size(names))) {
    std::cerr << "hello_world: knows " << std::size(names) << " names, there is none for rank " << rank
              << ": start at most " << std::size(names) << " processes\n";
    return 1;
  }
  std::cout << "Hello " << names[rank] << "\n";
  tandem::flush_standard_output();
} catch (const std::exception& error) {
  std::cerr << "hello_world: " << error.what() << "\n";
  tandem::distributed::report_failure(error, true);
  return 1;
}
