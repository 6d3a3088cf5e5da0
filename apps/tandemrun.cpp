// Starts the processes of a training job on this host, with torchrun's options.
#include <tandem/core/base/standard_output.h>
#include <tandem/distributed/launch/launch_options.h>
#include <tandem/distributed/launch/launcher.h>

#include <iostream>

int main(int argc, char** argv) {
  using namespace tandem::distributed;
  tandem::prepare_standard_streams();
  LaunchCommand command;
  try {
    command = parse_launch_command({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "tandemrun: " << error.what() << "\n";
    return 2;
  }
  try {
    if (command.text) {
      std::cout << *command.text;
      tandem::flush_standard_output();
      return 0;
    }
    return launch(command.options, command.program);
  } catch (const std::exception& error) {
    std::cerr << "tandemrun: " << error.what() << "\n";
    return 1;
  }
}
