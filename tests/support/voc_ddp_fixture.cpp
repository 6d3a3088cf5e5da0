#include <support/mnist_ddp_fixture.h>
#include <support/voc_ddp_fixture.h>

#include <nlohmann/json.hpp>

namespace tandem::testing {

const std::string voc_sample = TANDEM_SOURCE_DIR "/tests/data/voc_sample";

std::string VocDdp::path(const std::string& name) const { return (folder / name).string(); }

std::vector<std::string> VocDdp::command(int processes, const std::vector<std::string>& arguments) {
  std::vector<std::string> command;
  if (processes > 1) command = {tandemrun, "--nproc-per-node", std::to_string(processes)};
  command.push_back(TANDEM_PROGRAM_DIR "/voc_ddp");
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

Outcome VocDdp::run(int processes, const std::vector<std::string>& arguments,
                    std::map<std::string, std::string> variables) {
  variables.emplace("OMP_NUM_THREADS", "1");
  return run_process(command(processes, arguments), variables);
}

Outcome VocDdp::train(int processes, const std::vector<std::string>& more) {
  return run(processes, small_training(more));
}

std::vector<std::string> VocDdp::small_training(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"--data",   voc_sample, "--image-set",        "trainval", "--val-set",
                                        "trainval", "--model",  "deeplabv3_resnet18", "--crop",   "33",
                                        "--base",   "33",       "--workers",          "1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::vector<nlohmann::json> VocDdp::lines(const std::string& name) const { return json_lines(folder / name); }

}  // namespace tandem::testing
