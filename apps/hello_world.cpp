// Greets one person per rank: tandemrun --nproc-per-node 4 hello_world
#include <tandem/distributed/job/environment.h>
#include <tandem/distributed/job/program.h>

#include <iostream>

int main(int argc, char** argv) {
  const std::string usage = "(greets one person per rank: tandemrun --nproc-per-node 4 hello_world)";
  return tandem::distributed::run_program(argc, argv, {"hello_world", usage}, [] {
    const std::vector<std::string> names{"Barry", "Alice", "Barbara", "Tom"};
    const auto rank = static_cast<std::size_t>(tandem::distributed::read_environment().rank);
    TANDEM_CHECK(rank < names.size(), "there are only ", names.size(), " names, and none for rank ", rank,
                 ": start at most ", names.size(), " processes");
    std::cout << "Hello " << names[rank] << "\n";
  });
}
