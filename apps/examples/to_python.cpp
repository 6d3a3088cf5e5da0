// Saves a network and its outputs as files for Python.
//
//   to_python FOLDER    writes net.safetensors, net.pth and numbers.safetensors into the folder
//
// In Python:
//   net = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
//   net.load_state_dict(torch.load("net.pth"))    # or safetensors.torch.load_file("net.safetensors")
//   numbers = safetensors.torch.load_file("numbers.safetensors")
//   print(net(numbers["x"]) - numbers["y"])
#include <tandem/tandem.h>

#include <filesystem>
#include <iostream>

using namespace tandem;

int main(int argc, char** argv) {
  return distributed::run_program(argc, argv, {"to_python", "FOLDER", 1}, [&] {
    if (argc != 2) throw distributed::UsageError("expected a folder for the files; see -h");
    const std::filesystem::path folder = argv[1];
    manual_seed(0);
    // The network learns the sum of the squares of three numbers.
    nn::Sequential net{nn::Linear(3, 16), nn::ReLU(), nn::Linear(16, 1)};
    optim::Adam optimizer(net.parameters(), {.lr = 0.01});
    for (int step = 0; step < 200; ++step) {
      const Tensor x = rand({64, 3});
      optimizer.zero_grad();
      mse_loss(net(x), sum(x * x, {1}, true)).backward();
      optimizer.step();
    }
    save_arrays(folder / "net.safetensors", net.state_dict());
    save_arrays(folder / "net.pth", net.state_dict());

    const NoGrad no_grad;
    const Tensor x = rand({5, 3});
    const std::vector<NamedArray> numbers = {{"x", x.value()}, {"y", net(x).value()}};
    save_arrays(folder / "numbers.safetensors", numbers, {{"about", "the output of net.pth for x"}});
    for (const auto& [name, array] : net.state_dict()) std::cout << name << ' ' << array.shape() << '\n';
  });
}
