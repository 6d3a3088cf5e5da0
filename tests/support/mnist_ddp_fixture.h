// Runs the built mnist_ddp, alone and through tandemrun, on a few images of the bundled sample.
#pragma once

#include <gtest/gtest.h>
#include <support/process.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tandem::testing {

extern const std::string mnist_ddp;

// Writes the first images of the bundled sample to separate files.
void write_subset(const std::filesystem::path& folder, std::int64_t train, std::int64_t test);

Outcome run_mnist_ddp(int processes, const std::vector<std::string>& arguments,
                      const std::map<std::string, std::string>& variables = {});

// Returns the numbers after "Total loss: ".
std::vector<double> total_losses(const std::string& out);

std::vector<nlohmann::json> json_lines(const std::filesystem::path& path);

class MnistDdp : public ::testing::Test {
 protected:
  // 330 images are batches of 100, 100, 100 and 30 on one process, and of 100 and 65 on each of two.
  void SetUp() override;
  std::vector<std::string> with_data(std::vector<std::string> arguments) const;
  std::string path(const std::string& name) const;

  TemporaryFolder folder;
};

}  // namespace tandem::testing
