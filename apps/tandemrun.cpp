// Starts the processes of a training job on this host, with torchrun's options.
#include <tandem/core/base/standard_output.h>
#include <tandem/distributed/launch/launch_options.h>
#include <tandem/distributed/launch/launcher.h>

#include <signal.h>

#include <iostream>

int main(int argc, char** argv) {
  using namespace tandem::distributed;
  // When nobody reads stdout or stderr any more (`tandemrun ... | head`), the job goes on. A handler that does nothing
  // makes such a write fail; the ranks still start with the standard action, because exec removes handlers.
  struct sigaction on_closed_pipe {};
  if (sigaction(SIGPIPE, nullptr, &on_closed_pipe) == 0 && on_closed_pipe.sa_handler == SIG_DFL) {
    on_closed_pipe.sa_handler = [](int) {};
    sigaction(SIGPIPE, &on_closed_pipe, nullptr);
  }
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
