// Runs the built voc_ddp, alone and through tandemrun, on the pictures of tests/data/voc_sample.
#pragma once

#include <gtest/gtest.h>
#include <support/process.h>
#include <support/temporary_folder.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tandem::testing {

// The names in a folder, sorted.
inline std::vector<std::string> files_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

inline const std::string voc_sample = TANDEM_SOURCE_DIR "/tests/data/voc_sample";

class VocDdp : public ::testing::Test {
 protected:
  TemporaryFolder folder;
  std::string path(const std::string& name) const { return (folder / name).string(); }

  static std::vector<std::string> command(int processes, const std::vector<std::string>& arguments) {
    std::vector<std::string> command;
    if (processes > 1) command = {TANDEM_PROGRAM_DIR "/tandemrun", "--nproc-per-node", std::to_string(processes)};
    command.push_back(TANDEM_PROGRAM_DIR "/voc_ddp");
    command.insert(command.end(), arguments.begin(), arguments.end());
    return command;
  }
  static Outcome run(int processes, const std::vector<std::string>& arguments,
                     std::map<std::string, std::string> variables = {}) {
    variables.emplace("OMP_NUM_THREADS", "1");
    return run_process(command(processes, arguments), variables);
  }
  // Three small images. Batches of one image per process need --sync-bn, because batch norm fails on a single value.
  static std::vector<std::string> small_training(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"--data",   voc_sample, "--image-set",        "trainval", "--val-set",
                                          "trainval", "--model",  "deeplabv3_resnet18", "--crop",   "33",
                                          "--base",   "33",       "--workers",          "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  static Outcome train(int processes, const std::vector<std::string>& more) {
    return run(processes, small_training(more));
  }
  std::vector<nlohmann::json> lines(const std::string& name) const {
    std::vector<nlohmann::json> result;
    std::ifstream file(folder / name);
    for (std::string line; std::getline(file, line);) result.push_back(nlohmann::json::parse(line));
    return result;
  }
};

}  // namespace tandem::testing
