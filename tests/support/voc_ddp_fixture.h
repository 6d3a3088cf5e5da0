// Runs the built voc_ddp, alone and through tandemrun, on the pictures of tests/data/voc_sample.
#pragma once

#include <gtest/gtest.h>
#include <support/process.h>

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tandem::testing {

extern const std::string voc_sample;

class VocDdp : public ::testing::Test {
 protected:
  TemporaryFolder folder;
  std::string path(const std::string& name) const;

  static std::vector<std::string> command(int processes, const std::vector<std::string>& arguments);
  static Outcome run(int processes, const std::vector<std::string>& arguments,
                     std::map<std::string, std::string> variables = {});
  // Three small images. Batches of one image per process need --sync-bn, because batch norm fails on a single value.
  static std::vector<std::string> small_training(const std::vector<std::string>& more);
  static Outcome train(int processes, const std::vector<std::string>& more);
  std::vector<nlohmann::json> lines(const std::string& name) const;
};

}  // namespace tandem::testing
