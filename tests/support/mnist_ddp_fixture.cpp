#include <tandem/data/idx.h>

#include <support/idx_files.h>
#include <support/mnist_ddp_fixture.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace tandem::testing {

const std::string mnist_ddp = TANDEM_PROGRAM_DIR "/mnist_ddp";

void write_subset(const std::filesystem::path& folder, std::int64_t train, std::int64_t test) {
  const std::filesystem::path sample = TANDEM_SOURCE_DIR "/data/sample";
  const auto write = [&](const std::string& name, std::int64_t count) {
    const Array all = data::read_idx(sample / (name + ".gz"));
    const Array first = all.slice(0, 0, count).contiguous();
    std::vector<std::uint32_t> dims(first.shape().begin(), first.shape().end());
    write_bytes(folder / name, idx_bytes(dims, {static_cast<const char*>(first.raw()), first.bytes()}));
  };
  write("train-images-idx3-ubyte", train);
  write("train-labels-idx1-ubyte", train);
  write("t10k-images-idx3-ubyte", test);
  write("t10k-labels-idx1-ubyte", test);
}

Outcome run_mnist_ddp(int processes, const std::vector<std::string>& arguments,
                      const std::map<std::string, std::string>& variables) {
  std::vector<std::string> command;
  if (processes > 1) command = {tandemrun, "--nproc-per-node", std::to_string(processes)};
  command.push_back(mnist_ddp);
  command.insert(command.end(), arguments.begin(), arguments.end());
  auto all = variables;
  all.emplace("OMP_NUM_THREADS", "1");
  return run_process(command, all);
}

std::vector<double> total_losses(const std::string& out) {
  std::vector<double> losses;
  std::istringstream lines(out);
  const std::string mark = "Total loss: ";
  for (std::string line; std::getline(lines, line);) {
    if (line.compare(0, mark.size(), mark) == 0) losses.push_back(std::stod(line.substr(mark.size())));
  }
  return losses;
}

std::vector<nlohmann::json> json_lines(const std::filesystem::path& path) {
  std::vector<nlohmann::json> result;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) result.push_back(nlohmann::json::parse(line));
  return result;
}

void MnistDdp::SetUp() {
  std::filesystem::create_directory(folder / "data");
  write_subset(folder / "data", 330, 64);
}

std::vector<std::string> MnistDdp::with_data(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), {"--data", path("data")});
  return arguments;
}

std::string MnistDdp::path(const std::string& name) const { return (folder / name).string(); }

}  // namespace tandem::testing
