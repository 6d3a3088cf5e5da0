// Failures of mnist_ddp: bad data, dead ranks, full disks and wrong options. Each must be reported once and in time.
#include <gtest/gtest.h>

#include <filesystem>

#include "support/idx_files.h"
#include "support/mnist_ddp_fixture.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using testing::expect_parts;
using testing::mnist_ddp;
using testing::MnistDdp;
using testing::read_bytes;
using testing::run_mnist_ddp;
using testing::tandemrun;
using testing::write_bytes;

// Each wrong input has its error message. No input may hang, and every process must end.
TEST_F(MnistDdp, bad_data_ends_every_process_with_one_clear_message) {
  const auto images = read_bytes(folder / "data/train-images-idx3-ubyte");
  const auto labels = read_bytes(folder / "data/train-labels-idx1-ubyte");
  auto bad_label = labels;
  bad_label[100] = 11;
  const struct {
    std::string file, bytes, part;
  } cases[] = {
      {"train-images-idx3-ubyte", images.substr(0, 5000), "train-images-idx3-ubyte"},
      {"train-images-idx3-ubyte", images + "more", "train-images-idx3-ubyte"},
      {"train-images-idx3-ubyte", "nonsense" + images, "train-images-idx3-ubyte"},
      {"train-images-idx3-ubyte", "", "train-images-idx3-ubyte"},
      {"train-labels-idx1-ubyte", bad_label, "train-labels-idx1-ubyte"},
      {"train-labels-idx1-ubyte", testing::idx_bytes({329}, labels.substr(8, 329)), "329"},
      {"train-labels-idx1-ubyte", testing::gzip(labels).substr(0, 40), "train-labels-idx1-ubyte"},
  };
  for (const auto& [file, bytes, part] : cases) {
    const auto before = read_bytes(folder / "data" / file);
    write_bytes(folder / "data" / file, bytes);
    for (const int processes : {1, 2}) {
      const auto outcome = run_mnist_ddp(processes, with_data({"--epochs", "1"}));
      EXPECT_EQ(outcome.code, 1) << outcome.err;
      EXPECT_LT(outcome.seconds, 20);
      expect_parts(outcome.err, {part});
      EXPECT_TRUE(outcome.out.empty()) << outcome.out;
    }
    write_bytes(folder / "data" / file, before);
  }
  const auto missing = run_mnist_ddp(2, {"--data", path("nowhere")});
  EXPECT_EQ(missing.code, 1);
  expect_parts(missing.err, {path("nowhere")});
}

TEST_F(MnistDdp, a_rank_that_cannot_load_its_data_ends_all) {
  // The data folder is relative, and rank 1 runs in a folder that does not contain it.
  fs::create_directory(folder / "nowhere");
  const std::string script = "if [ $RANK = 1 ]; then cd " + path("nowhere") + "; else cd " + folder.path().string() +
                             "; fi; exec " + mnist_ddp + " --data data";
  const auto outcome =
      testing::run_process({tandemrun, "--nproc-per-node", "3", "sh", "-c", script}, {{"OMP_NUM_THREADS", "1"}});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_LT(outcome.seconds, 20);
  expect_parts(outcome.err, {"[rank1]", "MNIST folder data does not exist", "rank 1 failed first"});
  EXPECT_EQ(outcome.err.find("[rank0]: "), std::string::npos) << outcome.err;
}

TEST_F(MnistDdp, says_which_rank_was_killed) {
  // Rank 1 dies once training has begun.
  const std::string script = "if [ $RANK = 1 ]; then (sleep 3; kill -9 $$) & fi; exec " + mnist_ddp + " --data " +
                             path("data") + " --epochs 100000";
  const auto outcome =
      testing::run_process({tandemrun, "--nproc-per-node", "2", "sh", "-c", script}, {{"OMP_NUM_THREADS", "1"}});
  EXPECT_EQ(outcome.code, 128 + 9) << outcome.err;
  EXPECT_LT(outcome.seconds, 20);
  expect_parts(outcome.err, {"rank 1 failed first", "rank 1 ("});
}

TEST_F(MnistDdp, a_peer_that_never_comes_is_named_within_the_timeout) {
  const auto outcome = run_mnist_ddp(1, with_data({"--timeout", "1", "--init-method", "tcp://127.0.0.1:29871"}),
                                     {{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_LT(outcome.seconds, 10);
  expect_parts(outcome.err, {"[rank0]: ", "rank 1 of 2 has not arrived within 1 s"});
}

// Work that grows with the number of ranks must not outlast the timeout.
TEST_F(MnistDdp, a_huge_world_size_is_named_within_the_timeout) {
  const auto started = [&](const std::string& size) {
    return run_mnist_ddp(1, with_data({"--timeout", "1", "--init-method", "tcp://127.0.0.1:29873"}),
                         {{"RANK", "0"}, {"WORLD_SIZE", size}});
  };
  const auto most = started("1048576");
  EXPECT_EQ(most.code, 1);
  EXPECT_LT(most.seconds, 10);
  expect_parts(most.err, {"[rank0]: ", "of 1048576", "within 1 s"});
  expect_parts(started("1048577").err, {"WORLD_SIZE", "1048577", "1048576"});
}

TEST_F(MnistDdp, places_that_cannot_be_written_are_named_before_training) {
  write_bytes(folder / "file", "");
  fs::create_directory(folder / "pipes");
  ASSERT_EQ(::mkfifo((folder / "pipes/metrics").c_str(), 0600), 0);
  for (const int processes : {1, 2}) {
    for (const auto& [flag, value] :
         {std::pair{"--save", path("file/net.safetensors")}, std::pair{"--save", path("missing/net.safetensors")},
          std::pair{"--checkpoint", path("file/c")}, std::pair{"--checkpoint", path("file")},
          std::pair{"--checkpoint", std::string("/proc/checkpoints")},
          std::pair{"--metrics", path("missing/metrics.json")}, std::pair{"--metrics", path("pipes/metrics")},
          std::pair{"--log-dir", path("file/logs")}}) {
      const auto outcome = run_mnist_ddp(processes, with_data({flag, value}));
      EXPECT_EQ(outcome.code, 1) << flag << ' ' << value;
      EXPECT_TRUE(outcome.out.empty()) << outcome.out;
      expect_parts(outcome.err, {value.substr(0, value.rfind('/'))});
    }
  }
}

// A limit on file sizes simulates the full disk: the write fails partway.
TEST_F(MnistDdp, a_full_disk_leaves_no_partial_file) {
  const auto limited = [&](const std::string& arguments, const std::string& launcher = "", int epochs = 1) {
    const std::string script = "ulimit -f 64; exec " + launcher + mnist_ddp + " --data " + path("data") + " --epochs " +
                               std::to_string(epochs) + ' ' + arguments;
    return testing::run_process({"sh", "-c", script}, {{"OMP_NUM_THREADS", "1"}});
  };
  fs::create_directory(folder / "full");
  const auto save = limited("--save " + path("full/net.safetensors"));
  EXPECT_EQ(save.code, 1);
  expect_parts(save.err, {"full/net.safetensors"});
  EXPECT_TRUE(fs::is_empty(folder / "full"));
  // The launcher does not report that the other rank ended too early.
  const auto two =
      limited("--save " + path("full/net.safetensors") + " --backend gloo", tandemrun + " --nproc-per-node 2 ");
  EXPECT_EQ(two.code, 1);
  expect_parts(two.err, {"rank 0 failed first", "full/net.safetensors"});
  EXPECT_EQ(two.err.find("ended (exit code 0)"), std::string::npos) << two.err;
  const auto checkpoint = limited("--checkpoint " + path("full"));
  EXPECT_EQ(checkpoint.code, 1);
  expect_parts(checkpoint.err, {"full/checkpoint-0001-00000004.safetensors"});
  EXPECT_TRUE(fs::is_empty(folder / "full"));
  // A thread writes while the training continues. Its error ends the job, long before the last epoch.
  const auto endless = limited("--checkpoint " + path("full") + " --save-every-steps 1 --backend gloo",
                               tandemrun + " --nproc-per-node 2 ", 1000000);
  EXPECT_EQ(endless.code, 1);
  expect_parts(endless.err, {"rank 0 failed first", "full/checkpoint-0000-00000001.safetensors"});
  EXPECT_TRUE(fs::is_empty(folder / "full"));
}

TEST_F(MnistDdp, usage_errors_end_with_2) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{{"--nonsense"},
                                                                                         {"--batch-size", "0"},
                                                                                         {"--lr", "nan"},
                                                                                         {"--lr", "-1"},
                                                                                         {"--quiet=false"},
                                                                                         {"--epochs", "-3"},
                                                                                         {"--device", "cuda"}}) {
    for (const int processes : {1, 2}) {
      const auto outcome = run_mnist_ddp(processes, with_data(arguments));
      EXPECT_EQ(outcome.code, 2) << arguments[0];
      expect_parts(outcome.err, {"mnist_ddp: " + arguments[0].substr(0, arguments[0].find('='))});
      EXPECT_TRUE(outcome.out.empty()) << outcome.out;
    }
  }
  EXPECT_EQ(run_mnist_ddp(1, {"--help"}).code, 0);
}

// The launcher starts the job again after an error of a different kind, because a missing folder may come back.
TEST_F(MnistDdp, a_usage_error_is_not_started_again) {
  const auto run = [](const std::vector<std::string>& arguments) {
    std::vector<std::string> command = {testing::tandemrun, "--nproc-per-node", "2", "--max-restarts", "3",
                                        testing::mnist_ddp};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return testing::run_process(command, {{"OMP_NUM_THREADS", "1"}});
  };
  const auto outcome = run({"--epoch", "3"});
  EXPECT_EQ(outcome.code, 2);
  expect_parts(outcome.err,
               {"did you mean --epochs?", "tandemrun: no restart: exit code 2", " failed first: exit code 2"});
  EXPECT_EQ(outcome.err.find("start again:"), std::string::npos) << outcome.err;
  const auto other = run({"--data", path("nowhere")});
  EXPECT_EQ(other.code, 1);
  expect_parts(other.err, {"all ranks start again: restart 3 of 3"});
}

// Daemons and some batch systems close standard descriptors. The next file or socket would get such a number and
// receive printed text.
TEST_F(MnistDdp, closed_descriptors_are_not_taken_for_files) {
  const auto closed = [&](const std::string& arguments, const std::string& which) {
    return testing::run_process({"sh", "-c", "exec " + arguments + " " + which}, {{"OMP_NUM_THREADS", "1"}});
  };
  const auto train = mnist_ddp + " --data " + path("data") + " --epochs 2 --log-every 1 ";
  for (const std::string which : {"1>&-", "0<&-", "2>&-", "0<&- 1>&- 2>&-"}) {
    SCOPED_TRACE(which);
    const auto one = closed(train + "--log-dir " + path("tb"), which);
    EXPECT_EQ(one.code, 0) << one.err;
    for (const auto& entry : fs::directory_iterator(folder / "tb"))
      EXPECT_EQ(read_bytes(entry.path()).find("Epoch"), std::string::npos);
    fs::remove_all(folder / "tb");
    const auto two = closed(tandemrun + " --nproc-per-node 2 " + train + "--backend gloo", which);
    EXPECT_EQ(two.code, 0) << two.err;
  }
  const auto by_hand = testing::run_process(
      {"sh", "-c",
       "for r in 0 1; do RANK=$r WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29481 " + train +
           "--backend gloo --timeout 20 >&- & all=\"$all $!\"; done; for one in $all; do wait $one || exit 1; done"},
      {{"OMP_NUM_THREADS", "1"}});
  EXPECT_EQ(by_hand.code, 0) << by_hand.err;
}

TEST_F(MnistDdp, metrics_that_nobody_reads_any_more_cost_no_result) {
  const auto pipe = path("pipe"), net = path("net.safetensors");
  const auto script = "mkfifo " + pipe + "; head -n 1 " + pipe + " >&2 & sleep 0.3; exec " + mnist_ddp + " --data " +
                      path("data") + " --epochs 40 --metrics " + pipe + " --save " + net;
  const auto outcome = testing::run_process({"sh", "-c", script}, {{"OMP_NUM_THREADS", "1"}});
  EXPECT_EQ(outcome.code, 1);
  expect_parts(outcome.err, {"can't write the metrics file " + pipe, "the training continues without it"});
  EXPECT_TRUE(fs::exists(net));
}

// The trace is larger than the limit, and the model is smaller.
TEST_F(MnistDdp, a_full_disk_for_the_trace_costs_no_model) {
  const auto net = path("net.safetensors");
  for (const std::string steps : {"", " --profile-steps 2:60"}) {
    const auto script = "ulimit -f 400; exec " + mnist_ddp + " --data " + path("data") + " --epochs 20 --profile " +
                        path("trace.json") + steps + " --save " + net;
    const auto outcome = testing::run_process({"sh", "-c", script}, {{"OMP_NUM_THREADS", "1"}});
    EXPECT_EQ(outcome.code, 1);
    expect_parts(outcome.err, {"the profile " + path("trace.json") + " contains only the ranges before this error",
                               "the training continues without it"});
    expect_parts(outcome.out, {"Epoch 20/20"});
    EXPECT_TRUE(fs::exists(net)) << outcome.err;
    fs::remove(net);
  }
}

TEST_F(MnistDdp, paths_of_any_bytes_can_be_trained_on_and_saved_to) {
  const auto data = path("caf\xe9"), checkpoints = path("ck\xe9\nck");
  fs::create_symlink(folder / "data", data);
  for (int epochs = 1; epochs <= 2; ++epochs) {
    const auto outcome =
        run_mnist_ddp(1, {"--data", data, "--epochs", std::to_string(epochs), "--checkpoint", checkpoints, "--resume",
                          "--metrics", path("m\xe9"), "--log-dir", path("tb\xe9"), "--profile", path("p\xe9.json")});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    if (epochs == 2) expect_parts(outcome.err, {"resumed from"});
  }
  EXPECT_TRUE(fs::exists(fs::path(checkpoints) / "checkpoint-0002-00000008.safetensors"));
}

// Without the message, the program would just crash with these settings.
TEST_F(MnistDdp, settings_of_threads_that_cannot_work_are_named) {
  const auto with = [&](const std::string& setting) {
    return testing::run_process(
        {"sh", "-c", setting + "; exec " + mnist_ddp + " --data " + path("data") + " --epochs 1"});
  };
  for (const auto& [setting, part] : {std::pair("export OMP_NUM_THREADS=100000", "OMP_NUM_THREADS is 100000"),
                                      {"export OMP_STACKSIZE=16k", "OMP_STACKSIZE is 16k"},
                                      {"ulimit -s 64", "the stack has at most 64 KiB"}}) {
    const auto outcome = with(setting);
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    expect_parts(outcome.err, {part});
  }
  const auto least = with("ulimit -s 512; export OMP_NUM_THREADS=3");
  EXPECT_EQ(least.code, 0) << least.err;
}

TEST_F(MnistDdp, one_image_on_several_ranks_is_no_mistake) {
  fs::create_directory(folder / "one");
  testing::write_subset(folder / "one", 1, 1);
  const auto outcome = run_mnist_ddp(2, {"--data", path("one"), "--epochs", "1"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err.find("warning"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace tandem
