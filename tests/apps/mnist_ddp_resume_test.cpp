// Checkpoints of mnist_ddp: jobs that resume from them bit for bit, and checkpoints that are rejected.
#include <tandem/core/io/safetensors.h>

#include <gtest/gtest.h>
#include <support/running_process.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>

#include "support/mnist_ddp_fixture.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using testing::expect_parts;
using testing::MnistDdp;
using testing::read_bytes;
using testing::run_mnist_ddp;
using testing::total_losses;
using testing::write_bytes;
using testing::write_subset;

// A job that is stopped and resumed, in the middle of an epoch or between two epochs, ends with the same bits as an
// uninterrupted job.
TEST_F(MnistDdp, resumes_to_the_bit) {
  for (const int processes : {1, 2}) {
    const std::string id = std::to_string(processes);
    const auto train = [&](std::vector<std::string> more) {
      const std::vector<std::string> common = {"--epochs",   "4",   "--lr",           "0.05",
                                               "--momentum", "0.9", "--weight-decay", "0.01"};
      more.insert(more.end(), common.begin(), common.end());
      const auto outcome = run_mnist_ddp(processes, with_data(more));
      EXPECT_EQ(outcome.code, 0) << outcome.err;
      return outcome;
    };
    const auto through = train({"--save", path("through.safetensors")});
    const auto expected_losses = total_losses(through.out);
    ASSERT_EQ(expected_losses.size(), 4u);
    for (const int stop : {1, 3, 4}) {  // steps; an epoch has 4 on one process, 2 on two
      const auto folder_name = path("c" + id + "-" + std::to_string(stop));
      train({"--checkpoint", folder_name, "--max-steps", std::to_string(stop)});
      const auto rest = train({"--checkpoint", folder_name, "--resume", "--save", path("resumed.safetensors")});
      expect_parts(rest.err, {"resumed from", std::to_string(stop) + " step"});
      EXPECT_TRUE(read_bytes(folder / "resumed.safetensors") == read_bytes(folder / "through.safetensors"))
          << processes << " processes, stopped after " << stop;
      const auto losses = total_losses(rest.out);
      EXPECT_EQ(losses,
                std::vector<double>(expected_losses.end() - static_cast<long>(losses.size()), expected_losses.end()));
    }
  }
}

// A job resumes from shards as from a whole checkpoint: bitwise identical on the same ranks, and with the same result
// on others.
TEST_F(MnistDdp, resumes_from_shards) {
  const auto train = [&](int processes, const std::string& strategy, std::vector<std::string> more) {
    const std::vector<std::string> common{"--epochs", "4", "--lr", "0.05", "--momentum", "0.9", "--strategy", strategy};
    more.insert(more.end(), common.begin(), common.end());
    if (strategy == "diloco") more.insert(more.end(), {"--inner-steps", "2"});
    const auto outcome = run_mnist_ddp(processes, with_data(more));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome;
  };
  const auto weights = [&](const std::string& name) { return read_bytes(folder / (name + ".safetensors")); };
  for (const std::string strategy : {"zero1", "zero2", "diloco"}) {
    train(2, strategy, {"--save", path("through.safetensors")});
    for (const std::string stop : {"3", "4"}) {
      const std::vector<std::string> shards{"--checkpoint", path(strategy + stop), "--checkpoint-shards"};
      auto first = shards, rest = shards;
      first.insert(first.end(), {"--max-steps", stop});
      rest.insert(rest.end(), {"--resume", "--save", path("resumed.safetensors")});
      train(2, strategy, first);
      std::filesystem::copy(path(strategy + stop), path("copy-" + strategy + stop));
      const auto outcome = train(2, strategy, rest);
      expect_parts(outcome.err, {"resumed from", ".safetensors.index.json", stop + " steps in all"});
      EXPECT_TRUE(weights("resumed") == weights("through")) << strategy << " stopped after " << stop;
    }
  }
  // Whole and in shards, to other ranks and to other strategies, with and without the option.
  train(2, "zero1", {"--checkpoint", path("whole"), "--max-steps", "4"});
  for (const auto& [processes, strategy] :
       std::vector<std::pair<int, std::string>>{{1, "zero1"}, {3, "zero2"}, {2, "ddp"}, {3, "ddp"}, {2, "zero2"}}) {
    std::vector<std::string> results;
    for (const std::string from : {"whole", "copy-zero14"}) {
      const std::string copied = path(from + strategy + std::to_string(processes));
      std::filesystem::copy(path(from), copied);
      std::vector<std::string> more{"--checkpoint", copied, "--resume", "--save", path("resumed.safetensors")};
      if (strategy != "ddp" && from == "whole") more.push_back("--checkpoint-shards");
      train(processes, strategy, more);
      results.push_back(weights("resumed"));
    }
    EXPECT_TRUE(!results[0].empty() && results[0] == results[1]) << processes << " " << strategy;
  }
}

TEST_F(MnistDdp, keeps_checkpoints_in_shards_as_told) {
  auto outcome = run_mnist_ddp(
      2, with_data({"--epochs", "4", "--checkpoint", path("c"), "--checkpoint-shards", "--strategy", "zero2",
                    "--keep-last", "1", "--keep-best", "max:total_loss", "--lr", "0.001", "--momentum", "0.9"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path("c")))
    names.push_back(entry.path().filename().string());
  EXPECT_EQ(names.size(), 7u);  // the best one, the newest one, and a link
  EXPECT_EQ(std::filesystem::read_symlink(path("c/best.safetensors.index.json")),
            "checkpoint-0001-00000002.safetensors.index.json");
  // Without its second file, the newest one is left out, and so is the best one.
  for (const auto& name : names)
    if (name.find("-00002-of-") != std::string::npos) std::filesystem::remove(path("c/" + name));
  outcome = run_mnist_ddp(2, with_data({"--epochs", "5", "--checkpoint", path("c"), "--resume"}));
  EXPECT_EQ(outcome.code, 1);
  expect_parts(outcome.err, {"warning: skipped the checkpoint", "-00002-of-00002.safetensors is missing",
                             "none of the 2 checkpoints"});
}

TEST_F(MnistDdp, shards_need_a_strategy_that_divides_something) {
  auto outcome = run_mnist_ddp(1, with_data({"--checkpoint-shards", "--strategy", "zero1"}));
  EXPECT_EQ(outcome.code, 2);
  expect_parts(outcome.err, {"--checkpoint-shards: needs --checkpoint DIR"});
  for (const std::string strategy : {"ddp", "ring", "ps", "dp", "hierarchical"}) {
    outcome = run_mnist_ddp(1, with_data({"--checkpoint", path("c"), "--checkpoint-shards", "--strategy", strategy}));
    EXPECT_EQ(outcome.code, 2);
    expect_parts(outcome.err, {"--checkpoint-shards: with --strategy " + strategy, "zero1, zero2, localsgd or diloco"});
  }
}

// Rank 0 writes for longer than the timeout of the other ranks.
TEST_F(MnistDdp, outlives_a_slow_disk_under_its_checkpoints) {
  const auto arguments = with_data(
      {"--timeout", "3", "--checkpoint", path("slow"), "--save-every-steps", "1", "--max-steps", "2", "--epochs", "2"});
  std::vector<std::string> command = {testing::tandemrun,
                                      "--nproc-per-node",
                                      "2",
                                      "env",
                                      "LD_PRELOAD=" TANDEM_PROGRAM_DIR "/slow_fsync.so",
                                      "SLOW_FSYNC=4",
                                      "ASAN_OPTIONS=verify_asan_link_order=0",
                                      testing::mnist_ddp};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const auto outcome = testing::run_process(command, {{"OMP_NUM_THREADS", "1"}});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_GT(outcome.seconds, 8);
}

// The first steps overflow, because the initial scale is large. A job that resumed with the initial scale would skip
// different steps.
TEST_F(MnistDdp, resumes_in_f16_with_its_loss_scale) {
  const auto train = [&](std::vector<std::string> more) {
    const std::vector<std::string> common = {"--epochs", "1", "--lr", "0.05", "--momentum", "0.9", "--dtype", "f16"};
    more.insert(more.end(), common.begin(), common.end());
    const auto outcome = run_mnist_ddp(1, with_data(more));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  };
  train({"--save", path("through.safetensors")});
  train({"--checkpoint", path("c"), "--max-steps", "2"});
  double scale = 0;
  for (const auto& [name, array] : read_safetensors(path("c") + "/checkpoint-0000-00000002.safetensors").arrays)
    if (name == "optimizer/grad_scaler/scale") scale = array.item();
  EXPECT_GT(scale, 0);
  EXPECT_LT(scale, 65536);
  train({"--checkpoint", path("c"), "--resume", "--save", path("resumed.safetensors")});
  EXPECT_TRUE(read_bytes(folder / "resumed.safetensors") == read_bytes(folder / "through.safetensors"));
}

TEST_F(MnistDdp, keeps_checkpoints_as_told) {
  ASSERT_EQ(run_mnist_ddp(1, with_data({"--epochs", "5", "--checkpoint", path("a"), "--keep-last", "2"})).code, 0);
  const auto names = [&](const std::string& name) {
    std::vector<std::string> result;
    for (const auto& entry : fs::directory_iterator(folder / name)) result.push_back(entry.path().filename());
    std::sort(result.begin(), result.end());
    return result;
  };
  EXPECT_EQ(names("a"),
            (std::vector<std::string>{"checkpoint-0004-00000016.safetensors", "checkpoint-0005-00000020.safetensors"}));
  ASSERT_EQ(run_mnist_ddp(1, with_data({"--epochs", "3", "--checkpoint", path("b"), "--save-every", "2"})).code, 0);
  EXPECT_EQ(names("b"),
            (std::vector<std::string>{"checkpoint-0002-00000008.safetensors", "checkpoint-0003-00000012.safetensors"}));
  ASSERT_EQ(run_mnist_ddp(2, with_data({"--epochs", "2", "--checkpoint", path("c"), "--save-every-steps", "3",
                                        "--keep-last", "9"}))
                .code,
            0);
  EXPECT_EQ(names("c"),
            (std::vector<std::string>{"checkpoint-0001-00000002.safetensors", "checkpoint-0001-00000003.safetensors",
                                      "checkpoint-0002-00000004.safetensors"}));
}

TEST_F(MnistDdp, keep_last_spares_the_whole_checkpoint_beside_a_damaged_one) {
  const auto train = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--epochs", "5", "--checkpoint", path("c")});
    const auto outcome = run_mnist_ddp(1, with_data(more));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.err;
  };
  train({"--save-every-steps", "2", "--max-steps", "6"});
  const auto damaged = folder / "c/checkpoint-0001-00000006.safetensors";
  write_bytes(damaged, read_bytes(damaged).substr(0, 1000));
  expect_parts(train({"--resume", "--save-every-steps", "1", "--keep-last", "1", "--max-steps", "5"}),
               {"checkpoint-0001-00000006.safetensors, which is damaged", "checkpoint-0001-00000004.safetensors"});
  EXPECT_TRUE(fs::exists(folder / "c/checkpoint-0001-00000005.safetensors"));
  expect_parts(train({"--resume", "--max-steps", "6"}),
               {"checkpoint-0001-00000005.safetensors: 1 epoch and a part of the next done, 5 steps in all"});
}

TEST_F(MnistDdp, resume_says_what_it_found) {
  const auto fresh = run_mnist_ddp(1, with_data({"--epochs", "1", "--checkpoint", path("c"), "--resume"}));
  EXPECT_EQ(fresh.code, 0);
  expect_parts(fresh.err, {"WARNING: --resume found no checkpoint in " + path("c"), "starts from the beginning"});

  // If the newest checkpoint is damaged, the job uses the one before it.
  ASSERT_EQ(run_mnist_ddp(1, with_data({"--epochs", "2", "--checkpoint", path("c"), "--resume"})).code, 0);
  write_bytes(folder / "c/checkpoint-0002-00000008.safetensors", "x");
  const auto second = run_mnist_ddp(2, with_data({"--epochs", "2", "--checkpoint", path("c"), "--resume"}));
  EXPECT_EQ(second.code, 0) << second.err;
  expect_parts(second.err, {"warning: skipped the checkpoint", "checkpoint-0002-00000008.safetensors, which is damaged",
                            "resumed from " + path("c/checkpoint-0001-00000004.safetensors"),
                            "1 process, continuing with 2 processes"});

  // In the middle of an epoch, a different seed would mean a different order of the samples.
  ASSERT_EQ(run_mnist_ddp(1, with_data({"--epochs", "2", "--checkpoint", path("m"), "--max-steps", "1"})).code, 0);
  const auto outcome =
      run_mnist_ddp(1, with_data({"--epochs", "2", "--checkpoint", path("m"), "--resume", "--seed", "1"}));
  EXPECT_EQ(outcome.code, 1);
  expect_parts(outcome.err, {"in the middle of an epoch", "--seed 0, but this run has --seed 1"});
}

// The first step takes 100 of the 330 images. The rest of the epoch has as many steps as the other 230 images need.
TEST_F(MnistDdp, goes_on_in_the_middle_of_an_epoch_with_other_ranks_and_batches) {
  ASSERT_EQ(run_mnist_ddp(1, with_data({"--epochs", "2", "--checkpoint", path("m"), "--max-steps", "1"})).code, 0);
  const std::string rest = ": the remaining samples are redistributed, and the bits differ";
  for (const auto& [processes, more, part, first, second] :
       {std::tuple<int, std::vector<std::string>, std::string, int, int>{
            2, {}, "1 process, continuing with 2 processes", 1 + 2, 1 + 2 + 2},
        {1, {"--batch-size", "50"}, "--batch-size 100, continuing with --batch-size 50", 1 + 5, 1 + 5 + 7},
        {1, {"--accumulate", "2"}, "--accumulate 1, continuing with --accumulate 2", 1 + 2, 1 + 2 + 2},
        {3, {"--batch-size", "20"}, "1 process, continuing with 3 processes", 1 + 4, 1 + 4 + 6}}) {
    const auto name = path("c" + std::to_string(processes) + (more.empty() ? "" : more[0]));
    fs::copy(folder / "m", name);
    auto arguments = with_data({"--epochs", "2", "--checkpoint", name, "--resume", "--metrics", path("lines")});
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto outcome = run_mnist_ddp(processes, arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    expect_parts(outcome.err, {part + rest, "resumed from", "a part of the first epoch done, 1 step in all"});
    for (const auto& [epoch, step] : {std::pair(1, first), {2, second}}) {
      const auto whole = std::to_string(100000000 + step).substr(1);
      EXPECT_TRUE(
          fs::exists(fs::path(name) / ("checkpoint-000" + std::to_string(epoch) + "-" + whole + ".safetensors")))
          << part << ", epoch " << epoch;
    }
    EXPECT_EQ(total_losses(outcome.out).size(), 2u);
  }
}

TEST_F(MnistDdp, resume_says_which_options_have_changed) {
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--checkpoint", path("c"), "--epochs", "2"});
    return run_mnist_ddp(1, with_data(more));
  };
  ASSERT_EQ(run({"--lr", "0.1", "--unused", "zero", "--max-steps", "4", "--workers", "1"}).code, 0);
  const auto outcome = run({"--lr", "0.05", "--weight-decay", "1e-4", "--resume"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  expect_parts(outcome.err, {"note: the checkpoint was written with --lr 0.1, continuing with --lr 0.05",
                             "note: the checkpoint was written with --unused zero, continuing without --unused",
                             "note: the checkpoint was written without --weight-decay, continuing with --weight-decay "
                             "1e-4"});
  EXPECT_EQ(outcome.err.find("--workers 1"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("--epochs"), std::string::npos) << outcome.err;
}

// The unreadable checkpoint may be complete. A job that continued from an older one would eventually remove it.
TEST_F(MnistDdp, resume_does_not_pass_by_a_checkpoint_that_it_cannot_read) {
  ASSERT_EQ(run_mnist_ddp(1, with_data({"--epochs", "2", "--checkpoint", path("c")})).code, 0);
  const auto newest = folder / "c/checkpoint-0002-00000008.safetensors";
  const auto file = read_safetensors(newest);
  auto metadata = file.metadata;
  metadata["format"] = "2";
  write_safetensors(newest, file.arrays, metadata, Checksums::crc32);
  for (const int processes : {1, 2}) {
    const auto outcome = run_mnist_ddp(processes, with_data({"--epochs", "3", "--checkpoint", path("c"), "--resume"}));
    EXPECT_EQ(outcome.code, 1);
    expect_parts(outcome.err, {"the newest checkpoint can't be read, though it may be intact", newest.string(),
                               "its format is 2, but this program reads 1", "move this file out of the folder"});
    EXPECT_EQ(outcome.err.find("damaged"), std::string::npos) << outcome.err;
  }
  // A symbolic link to itself can't be opened.
  fs::remove(newest);
  fs::create_symlink(newest.filename(), newest);
  const auto outcome = run_mnist_ddp(1, with_data({"--epochs", "3", "--checkpoint", path("c"), "--resume"}));
  EXPECT_EQ(outcome.code, 1);
  expect_parts(outcome.err, {"can't be read", "cannot be opened"});
}

// The checkpoint of the last step is written after the evaluation and its figures. So a job that has this checkpoint
// has lost neither, even if it was killed right afterwards.
TEST_F(MnistDdp, the_last_checkpoint_comes_after_the_figures) {
  const auto outcome = run_mnist_ddp(1, with_data({"--max-steps", "2", "--save-every-steps", "1", "--checkpoint",
                                                   path("c"), "--metrics", path("figures")}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_LE(fs::last_write_time(folder / "c/checkpoint-0000-00000001.safetensors"),
            fs::last_write_time(folder / "figures"));
  EXPECT_LE(fs::last_write_time(folder / "figures"),
            fs::last_write_time(folder / "c/checkpoint-0000-00000002.safetensors"));
}

// A full disk for the metrics loses no computed result: the training continues, and the job reports the failure at its
// end.
TEST_F(MnistDdp, a_full_disk_of_the_metrics_ends_no_training) {
  for (const int processes : {1, 2}) {
    const std::string checkpoints = path("c" + std::to_string(processes)), net = checkpoints + "-net.safetensors";
    const auto outcome = run_mnist_ddp(processes, with_data({"--max-steps", "2", "--checkpoint", checkpoints, "--save",
                                                             net, "--log-every", "1", "--metrics", "/dev/full"}));
    EXPECT_EQ(outcome.code, 1);
    expect_parts(outcome.err, {"error: can't write the metrics file /dev/full: ", "No space left on device",
                               "the training continues without it, and ends with this error", "saved the model to"});
    EXPECT_TRUE(fs::exists(net));
    EXPECT_FALSE(fs::is_empty(checkpoints));
  }
}

TEST_F(MnistDdp, ranks_with_different_options_are_an_error) {
  const auto arguments = with_data({"--epochs", "1", "--lr", "0.1", "--quiet"});
  const auto run = [&](const std::string& of_rank_1) {
    std::string words;
    for (const auto& word : arguments) words += " " + word;
    return testing::run_process(
        {testing::tandemrun, "--nproc-per-node", "2", "sh", "-c",
         "if [ $RANK = 1 ]; then more='" + of_rank_1 + "'; fi; exec " + testing::mnist_ddp + words + " $more"},
        {{"OMP_NUM_THREADS", "1"}});
  };
  for (const auto& [more, has] :
       {std::pair<std::string, std::string>{"--lr 0.5", "rank 1 has --lr 0.5; rank 0 has --lr 0.1"},
        {"--seed 9", "rank 1 has --seed 9; rank 0 has no other options"},
        {"--batch-size 40", "rank 1 has --batch-size 40"},
        {"--dtype bf16", "rank 1 has --dtype bf16"}}) {
    const auto outcome = run(more);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    expect_parts(outcome.err, {"the ranks were given different options: " + has});
  }
  const auto outcome = run("--backend gloo");
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_LT(outcome.seconds, 60) << "--timeout is 300";
  expect_parts(outcome.err, {"the ranks were given different backends: rank 0 (", " has auto; rank 1 (", " has gloo"});
  const auto fine = run("--workers 1 --metrics " + path("m"));
  EXPECT_EQ(fine.code, 0) << fine.err;
}

TEST_F(MnistDdp, resume_leaves_out_a_checkpoint_with_a_flipped_bit) {
  ASSERT_EQ(run_mnist_ddp(1, with_data({"--epochs", "2", "--checkpoint", path("c")})).code, 0);
  const auto newest = folder / "c/checkpoint-0002-00000008.safetensors";
  auto bytes = read_bytes(newest);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  write_bytes(newest, bytes);
  const auto outcome = run_mnist_ddp(2, with_data({"--epochs", "1", "--checkpoint", path("c"), "--resume"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  expect_parts(outcome.err, {"checkpoint-0002-00000008.safetensors, which is damaged", "should have the CRC-32",
                             "resumed from " + path("c/checkpoint-0001-00000004.safetensors")});
}

TEST_F(MnistDdp, a_checkpoint_of_another_model_or_program_is_an_error) {
  fs::create_directory(folder / "c");
  const auto file = folder / "c/checkpoint-0001-00000004.safetensors";
  std::map<std::string, std::string> metadata{{"format", "1"},      {"program", "mnist_ddp"}, {"epoch", "1"},
                                              {"step", "4"},        {"position", "0"},        {"seed", "0"},
                                              {"world_size", "1"},  {"batch_size", "1"},      {"accumulate", "1"},
                                              {"before", "0"},      {"dataset_size", "330"},  {"options", ""},
                                              {"best_of", ""},      {"best", "0x0p+0 -1 0"},  {"kept_steps", ""},
                                              {"losses", "0x0p+0"}, {"generator", "?"},       {"generator_now", ""}};
  write_safetensors(file,
                    std::vector<NamedArray>{{"model/other.weight", Array::from<float>(std::vector<float>{1}, {1})}},
                    metadata, Checksums::crc32);
  for (const int processes : {1, 2}) {
    const auto outcome = run_mnist_ddp(processes, with_data({"--checkpoint", path("c"), "--resume"}));
    EXPECT_EQ(outcome.code, 1);
    expect_parts(outcome.err, {"does not fit this program", "other.weight"});
  }
  metadata["program"] = "voc_ddp";
  write_safetensors(file, std::vector<NamedArray>{}, metadata, Checksums::crc32);
  expect_parts(run_mnist_ddp(1, with_data({"--checkpoint", path("c"), "--resume"})).err, {"was written by voc_ddp"});
  write_bytes(file, "damaged");
  expect_parts(run_mnist_ddp(1, with_data({"--checkpoint", path("c"), "--resume"})).err,
               {"none of the 1 checkpoints", "remove them"});
}

TEST_F(MnistDdp, a_fresh_run_spares_the_checkpoints_of_an_earlier_one) {
  EXPECT_EQ(run_mnist_ddp(1, with_data({"--checkpoint", path("c"), "--epochs", "2"})).code, 0);
  const auto before = fs::file_size(folder / "c/checkpoint-0002-00000008.safetensors");
  for (const int processes : {1, 2}) {
    const auto outcome = run_mnist_ddp(processes, with_data({"--checkpoint", path("c"), "--epochs", "1"}));
    EXPECT_EQ(outcome.code, 1);
    expect_parts(outcome.err, {"holds the checkpoints of an earlier run", "--resume"});
  }
  EXPECT_EQ(fs::file_size(folder / "c/checkpoint-0002-00000008.safetensors"), before);
}

TEST_F(MnistDdp, the_model_may_lie_beside_its_checkpoints) {
  const auto outcome = run_mnist_ddp(
      1, with_data({"--epochs", "1", "--checkpoint", path("new/c"), "--save", path("new/c/net.safetensors")}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(fs::exists(folder / "new/c/net.safetensors"));
}

// Training continues, as under tandemrun, and saves its model.
TEST_F(MnistDdp, goes_on_when_nobody_reads_its_output) {
  const auto code = path("code");
  const auto script = "(" + testing::mnist_ddp + " --data " + path("data") + " --epochs 30 --checkpoint " + path("c") +
                      "; echo $? > " + code + ") 2>" + path("err") + " | head -n 9";  // a few epochs
  testing::RunningProcess pipeline({"sh", "-c", script}, {{"OMP_NUM_THREADS", "1"}});
  EXPECT_EQ(pipeline.finish(), 0);
  EXPECT_EQ(read_bytes(code), "0\n");
  EXPECT_EQ(read_bytes(path("err")).find("standard output"), std::string::npos);
  const auto next =
      run_mnist_ddp(1, with_data({"--checkpoint", path("c"), "--resume", "--epochs", "0", "--save", path("n.pth")}));
  EXPECT_EQ(next.code, 0) << next.err;
  expect_parts(next.err, {"resumed from " + path("c/checkpoint-0030-00000120.safetensors")});
}

TEST_F(MnistDdp, two_jobs_do_not_share_a_folder_of_checkpoints) {
  const std::map<std::string, std::string> one_thread = {{"OMP_NUM_THREADS", "1"}};
  const auto long_job = with_data(
      {"--epochs", "1000000", "--checkpoint", path("c"), "--resume", "--save-every", "10", "--keep-last", "1000000"});
  std::vector<std::string> command = {testing::mnist_ddp};
  command.insert(command.end(), long_job.begin(), long_job.end());
  testing::RunningProcess first(command, one_thread);
  ASSERT_TRUE(testing::eventually([&] { return fs::exists(folder / "c/checkpoint-0010-00000040.safetensors"); }));

  for (const int processes : {1, 2}) {
    const auto second = run_mnist_ddp(processes, with_data({"--checkpoint", path("c"), "--resume"}));
    EXPECT_EQ(second.code, 1);
    expect_parts(second.err, {"another job is writing checkpoints into " + path("c") + ": process ", " on host ",
                              ", which began ", " s ago", "give another --checkpoint folder"});
  }
  // A process that only reads the checkpoints is allowed.
  const auto reader = run_mnist_ddp(
      1, with_data({"--checkpoint", path("c"), "--resume", "--epochs", "0", "--save", path("now.safetensors")}));
  EXPECT_EQ(reader.code, 0) << reader.err;
  EXPECT_TRUE(fs::exists(folder / "now.safetensors"));

  first.send(SIGKILL);
  EXPECT_EQ(first.finish(), 128 + SIGKILL);
  const auto next = run_mnist_ddp(1, with_data({"--checkpoint", path("c"), "--resume", "--epochs", "1"}));
  EXPECT_EQ(next.code, 0) << next.err;
  EXPECT_FALSE(fs::exists(folder / "c/checkpoint.lock"));
}

TEST_F(MnistDdp, another_number_of_images_is_noticed_on_resume) {
  const auto resumed = [&](const std::string& data, const std::string& checkpoints) {
    return run_mnist_ddp(1, {"--data", path(data), "--checkpoint", path(checkpoints), "--epochs", "2", "--resume"});
  };
  fs::create_directory(folder / "few");
  write_subset(folder / "few", 110, 64);
  EXPECT_EQ(run_mnist_ddp(1, with_data({"--checkpoint", path("middle"), "--max-steps", "3"})).code, 0);
  const auto in_the_middle = resumed("few", "middle");
  EXPECT_EQ(in_the_middle.code, 1);
  expect_parts(in_the_middle.err, {"with 330 samples", "this run has 110 samples"});

  EXPECT_EQ(run_mnist_ddp(1, with_data({"--checkpoint", path("end"), "--epochs", "1"})).code, 0);
  const auto at_the_end = resumed("few", "end");
  EXPECT_EQ(at_the_end.code, 0) << at_the_end.err;
  expect_parts(at_the_end.err, {"330 samples, continuing with 110"});
}

}  // namespace
}  // namespace tandem
