#include <tandem/core/base/scope.h>
#include <tandem/core/device/math_mode.h>
#include <tandem/distributed/training/options/training_options.h>

#include <gtest/gtest.h>
#include <support/temporary_folder.h>
#include <support/trace.h>
#include <sys/stat.h>

#include <cstdlib>
#include <stdexcept>

namespace tandem::distributed {
namespace {

using testing::expect_parts;

struct Result {
  int code;
  bool ran = false;
  std::string out, err;
};

struct Program {
  TrainingOptions options{"trainer", "Trains."};
  std::string name = "default";
  double rate = 0.5, speed = 1;
  std::int64_t count = 3;

  Result run(
      std::vector<const char*> arguments, const std::function<void()>& body = [] {}) {
    options.epochs = 5;
    options.batch_size = 100;
    options.add("--name", name, "a name");
    options.add("--rate", rate, "a rate", {.min = 0, .max = 1});
    options.add("--speed", speed, "a speed", {.min = 0});
    options.add("--count", count, "a count", {.min = 1});
    arguments.insert(arguments.begin(), "trainer");
    Result result{};
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    result.code = options.run(static_cast<int>(arguments.size()), arguments.data(), [&] {
      result.ran = true;
      body();
    });
    result.out = ::testing::internal::GetCapturedStdout();
    result.err = ::testing::internal::GetCapturedStderr();
    return result;
  }
};

TEST(TrainingOptions, defaults_are_the_programs) {
  Program program;
  const auto result = program.run({});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(result.ran);
  EXPECT_EQ(program.options.epochs, 5);
  EXPECT_EQ(program.options.batch_size, 100);
  EXPECT_EQ(program.options.seed, 0u);
  EXPECT_EQ(program.options.keep_last, 3);
  EXPECT_GE(program.options.threads, 1);
  EXPECT_EQ(program.name, "default");
  EXPECT_EQ(program.options.init_options().timeout, std::chrono::seconds(300));
  EXPECT_EQ(program.options.bucket_sizes().first_bytes, 1u << 20);
  EXPECT_EQ(program.options.bucket_sizes().bytes, 25u << 20);
  EXPECT_EQ(program.options.unused, Unused::error);
  EXPECT_FALSE(program.options.communication_hook());
}

TEST(TrainingOptions, takes_every_option) {
  Program program;
  const auto result = program.run({"--name",
                                   "x",
                                   "--rate=0.25",
                                   "--count",
                                   "7",
                                   "--device",
                                   "cpu",
                                   "--backend",
                                   "gloo",
                                   "--init-method",
                                   "tcp://localhost:1234",
                                   "--local-rank=0",
                                   "--timeout",
                                   "1.5",
                                   "--interface",
                                   "lo",
                                   "--seed",
                                   "18446744073709551615",
                                   "--deterministic",
                                   "--dtype",
                                   "bf16",
                                   "--threads",
                                   "2",
                                   "--workers",
                                   "4",
                                   "--epochs",
                                   "0",
                                   "--batch-size",
                                   "1",
                                   "--max-steps",
                                   "10",
                                   "--bucket-cap-mb",
                                   "0.5",
                                   "--sync-bn",
                                   "--checkpoint",
                                   "c",
                                   "--accumulate",
                                   "4",
                                   "--unused",
                                   "skip",
                                   "--compress",
                                   "bf16",
                                   "--save-every",
                                   "2",
                                   "--save-every-steps",
                                   "100",
                                   "--keep-last",
                                   "1",
                                   "--resume",
                                   "--no-graph",
                                   "--save",
                                   "m.safetensors",
                                   "--metrics",
                                   "m.json",
                                   "--log-dir",
                                   "logs",
                                   "--log-every",
                                   "10",
                                   "--quiet"});
  EXPECT_EQ(result.code, 0) << result.err;
  const auto& o = program.options;
  EXPECT_EQ(program.name, "x");
  EXPECT_EQ(program.rate, 0.25);
  EXPECT_EQ(program.count, 7);
  EXPECT_EQ(o.init_method, "tcp://localhost:1234");
  EXPECT_EQ(o.init_options().timeout, std::chrono::milliseconds(1500));
  EXPECT_EQ(o.init_options().interface, "lo");
  EXPECT_EQ(o.seed, 18446744073709551615u);
  EXPECT_TRUE(o.deterministic && o.sync_bn && o.resume && o.quiet);
  EXPECT_FALSE(o.graph);
  EXPECT_EQ(o.dtype, DType::bf16);
  EXPECT_EQ(o.threads, 2);
  EXPECT_EQ(o.workers, 4);
  EXPECT_EQ(o.epochs, 0);
  EXPECT_EQ(o.max_steps, 10);
  EXPECT_EQ(o.bucket_sizes().first_bytes, 1u << 19);
  EXPECT_EQ(o.bucket_sizes().bytes, 1u << 19);
  EXPECT_EQ(o.accumulate, 4);
  EXPECT_EQ(o.unused, Unused::skip);
  EXPECT_EQ(o.compress, Compression::bf16);
  EXPECT_TRUE(o.communication_hook());
  EXPECT_EQ(o.checkpoint, "c");
  EXPECT_EQ(o.save_every, 2);
  EXPECT_EQ(o.save_every_steps, 100);
  EXPECT_EQ(o.keep_last, 1);
  EXPECT_EQ(o.save, "m.safetensors");
  EXPECT_EQ(o.metrics, "m.json");
  EXPECT_EQ(o.log_dir, "logs");
  EXPECT_EQ(o.log_every, 10);
}

TEST(TrainingOptions, deterministic_reaches_the_gpu_libraries) {
  const auto before = math_mode();
  Program program;
  EXPECT_EQ(program.run({"--deterministic"}).code, 0);
  EXPECT_TRUE(math_mode().deterministic);
  EXPECT_FALSE(math_mode().tf32_conv || math_mode().tf32_matmul);
  set_deterministic(before.deterministic);
  set_tf32(before.tf32_matmul, before.tf32_conv);
}

TEST(TrainingOptions, exact_convolutions_reach_the_cpu) {
  Program plain, exact;
  EXPECT_EQ(plain.run({}).code, 0);
  EXPECT_FALSE(math_mode().exact_convolutions);
  EXPECT_EQ(exact.run({"--exact-convolutions"}).code, 0);
  EXPECT_TRUE(math_mode().exact_convolutions);
  set_exact_convolutions(false);
}

TEST(TrainingOptions, underscores_are_dashes_and_the_last_of_two_counts) {
  Program program;
  EXPECT_EQ(program.run({"--batch_size=7", "--local_rank=3", "--max_steps", "4", "--max-steps", "5"}).code, 0);
  EXPECT_EQ(program.options.batch_size, 7);
  EXPECT_EQ(program.options.local_rank, 3);
  EXPECT_EQ(program.options.max_steps, 5);
}

TEST(TrainingOptions, help_names_every_option_in_its_group_and_trains_nothing) {
  Program program;
  const auto result = program.run({"--help"});
  EXPECT_EQ(result.code, 0);
  EXPECT_FALSE(result.ran);
  expect_parts(result.out, {"trainer:", "Every training program:", "--rate", "--batch-size", "a rate (0.5)"});
}

TEST(TrainingOptions, usage_errors_name_the_flag_what_was_given_and_what_is_allowed) {
  const struct {
    std::vector<const char*> arguments;
    std::vector<std::string> parts;
  } cases[] = {
      {{"--nonsense"}, {"--nonsense: unknown", "--help"}},
      {{"--nonsense=3"}, {"--nonsense=3: unknown"}},
      {{"stray"}, {"stray: unknown"}},
      {{"--epochs"}, {"--epochs: expected a value"}},
      {{"--epochs", "-3"}, {"--epochs -3: expected a whole number from 0 to"}},
      {{"--epochs=2.5"}, {"--epochs 2.5: expected a whole number"}},
      {{"--epochs", "99999999999999999999"}, {"--epochs 99999999999999999999: expected a whole number"}},
      {{"--batch-size", "0"}, {"--batch-size 0: expected a whole number from 1 to 1000000000"}},
      {{"--batch-size", "ten"}, {"--batch-size ten: expected a whole number from 1"}},
      {{"--rate", "nan"}, {"--rate nan: expected a number from 0 to 1"}},
      {{"--rate", "inf"}, {"--rate inf: expected a number from 0 to 1"}},
      {{"--rate", "1.5"}, {"--rate 1.5: expected a number from 0 to 1"}},
      {{"--rate", "0.5x"}, {"--rate 0.5x: expected a number from 0 to 1"}},
      {{"--rate", ""}, {"--rate", "expected a number from 0 to 1"}},
      {{"--count", "0"}, {"--count 0: expected a whole number from 1 to 9223372036854775807"}},
      {{"--seed", "-1"}, {"--seed -1: expected a whole number from 0 to 18446744073709551615"}},
      {{"--seed", "18446744073709551616"}, {"--seed 18446744073709551616: expected a whole number from 0 to 184467"}},
      {{"--speed", "inf"}, {"--speed inf: expected a finite number of at least 0"}},
      {{"--speed", "1e400"}, {"--speed 1e400: expected a finite number of at least 0"}},
      {{"--speed", "-1"}, {"--speed -1: expected a finite number of at least 0"}},
      {{"--help=1"}, {"--help: takes no value"}},
      {{"--version=1"}, {"--version: takes no value"}},
      {{"--quiet=1"}, {"--quiet: takes no value"}},
      {{"--timeout", "0"}, {"--timeout 0: expected a number from 0.001"}},
      {{"--threads", "0"}, {"--threads 0: expected a whole number from 1"}},
      {{"--workers", "-1"}, {"--workers -1: expected a whole number from 0"}},
      {{"--max-steps", "0"}, {"--max-steps 0: expected a whole number from 1"}},
      {{"--bucket-cap-mb", "0"}, {"--bucket-cap-mb 0: expected a number from"}},
      {{"--accumulate", "0"}, {"--accumulate 0: expected a whole number from 1"}},
      {{"--unused", "ignore"}, {"--unused ignore: expected error, zero or skip"}},
      {{"--compress", "gzip"}, {"--compress gzip: expected none, bf16, f16, fp16 or powersgd"}},
      {{"--device", "tpu"}, {"--device tpu: expected auto, cpu or cuda"}},
      {{"--device", "cuda"}, {"--device cuda: ", "this build has no CUDA back-end"}},
      {{"--backend", "tcp"}, {"--backend tcp: expected auto, gloo, shm, mpi or nccl"}},
      {{"--dtype", "f64"}, {"--dtype f64: expected f32, bf16 or f16"}},
      {{"--init-method", "mpi://"}, {"--init-method mpi://", "env://, tcp://HOST:PORT and file://PATH"}},
      {{"--init-method", "tcp://host"}, {"--init-method tcp://host", "tcp://HOST:PORT"}},
      {{"--init-method", "tcp://host:99999"},
       {"--init-method tcp://host:99999", "the port 99999, expected a number from 1 to 65535"}},
      {{"--interface", "nonsense0"}, {"--interface nonsense0", "it has lo"}},
      {{"--resume"}, {"--resume: needs --checkpoint DIR"}},
      {{"--keep-last", "2"}, {"--keep-last: needs --checkpoint DIR"}},
      {{"--save-every", "2"}, {"--save-every: needs --checkpoint DIR"}},
      {{"--save-every-steps", "2"}, {"--save-every-steps: needs --checkpoint DIR"}},
      {{"--patience", "2"}, {"--patience: needs --keep-best"}},
      {{"--top-k", "2"}, {"--top-k: needs --keep-best"}},
      {{"--strategy", "zero"},
       {"--strategy zero: expected ddp, dp, ps, ring, hierarchical, localsgd, diloco, zero1 or zero2"}},
      {{"--strategy", "dp", "--sync-bn"}, {"--strategy dp has no --sync-bn: leave out one of the two"}},
      {{"--strategy", "dp", "--unused", "zero"}, {"--strategy dp has no --unused"}},
      {{"--strategy", "ps", "--bucket-cap-mb", "1"}, {"--strategy ps has no --bucket-cap-mb"}},
      {{"--strategy", "ps", "--dtype", "f16"}, {"--strategy ps can't use --dtype f16"}},
      {{"--strategy", "ps", "--find-lr", "a.svg"}, {"--strategy ps has no --find-lr"}},
      {{"--strategy", "ring", "--compress", "bf16"}, {"--strategy ring has no --compress"}},
      {{"--strategy", "hierarchical", "--compress", "bf16"}, {"--strategy hierarchical has no --compress"}},
      {{"--strategy", "localsgd", "--compress", "bf16"}, {"--strategy localsgd has no --compress: leave out one"}},
      {{"--strategy", "localsgd", "--bucket-cap-mb", "1"}, {"--strategy localsgd has no --bucket-cap-mb"}},
      {{"--strategy", "diloco", "--unused", "skip"}, {"--strategy diloco has no --unused"}},
      {{"--strategy", "diloco", "--sync-bn"}, {"--strategy diloco has no --sync-bn"}},
      {{"--inner-steps", "5"}, {"--inner-steps: needs --strategy localsgd or diloco"}},
      {{"--strategy", "diloco", "--inner-steps", "0"}, {"--inner-steps 0: expected a"}},
      {{"--strategy", "zero1", "--compress", "bf16"}, {"--strategy zero1 has no --compress"}},
      {{"--strategy", "zero2", "--compress", "bf16"}, {"--strategy zero2 has no --compress"}},
      {{"--strategy", "zero2", "--unused", "zero"}, {"--strategy zero2 has no --unused"}},
      {{"--find-lr", "a.png"}, {"--find-lr a.png: expected a file name that ends in .svg"}},
      {{"--find-lr", "a.svg", "--max-steps", "9"}, {"--find-lr: needs 10 steps or more, but --max-steps is 9"}},
      {{"--find-lr", "a.svg", "--checkpoint", "c", "--resume"}, {"--find-lr starts from", "leave out --resume"}},
      {{"--profile-steps", "2:3"}, {"--profile-steps: needs --profile FILE"}},
      {{"--profile", "p", "--profile-steps", "3"}, {"--profile-steps 3: expected the first step and the last"}},
      {{"--profile", "p", "--profile-steps", "0:3"}, {"--profile-steps 0:3"}},
      {{"--profile", "p", "--profile-steps", "4:3"}, {"--profile-steps 4:3"}},
      {{"--profile", "p", "--profile-steps", "4:5x"}, {"--profile-steps 4:5x"}},
      {{"--save", "model.bin"}, {"--save model.bin: expected a file name that ends in .safetensors or .pth"}},
      {{"--save", "c/best.safetensors", "--checkpoint", "./c"},
       {"--save c/best.safetensors: this name is a checkpoint's"}},
      {{"--save", "c/checkpoint-1.pth", "--checkpoint", "c"},
       {"--save c/checkpoint-1.pth: this name is a checkpoint's"}},
      {{"--save", "a.pth", "--metrics", "./a.pth"}, {"--metrics ./a.pth: this is also the file of --save"}},
      {{"--save=", "--epochs", "2"}, {"--save: expected a non-empty text"}},
      {{"--batch-size=", "5"}, {"--batch-size : expected a whole number"}},
      {{"--save", ".safetensors"}, {"--save .safetensors: expected a file name"}},
      {{"--checkpoint", ""}, {"--checkpoint"}},
  };
  for (const auto& [arguments, parts] : cases) {
    Program program;
    const auto result = program.run(arguments);
    EXPECT_EQ(result.code, 2) << arguments[0];
    EXPECT_FALSE(result.ran) << arguments[0];
    EXPECT_EQ(result.err.find("trainer: "), 0u) << result.err;
    for (const auto& part : parts) expect_parts(result.err, {part});
  }
}

TEST(TrainingOptions, profile_writes_a_trace_of_what_the_body_did) {
  const testing::TemporaryFolder folder;
  const auto path = (folder / "trace.json").string();
  for (const bool fails : {false, true}) {
    Program program;
    const auto result = program.run({"--profile", path.c_str()}, [&] {
      const Scope scope(fails ? "what failed" : "what went well");
      if (fails) throw std::runtime_error("it broke");
    });
    EXPECT_EQ(result.code, fails ? 1 : 0) << result.err;
    EXPECT_EQ(testing::read_trace(path).count("compute", fails ? "what failed" : "what went well"), 1);
  }
  Program program;
  const auto result = program.run({"--profile", (folder / "no" / "trace.json").c_str()});
  EXPECT_EQ(result.code, 1);
  EXPECT_FALSE(result.ran);
  expect_parts(result.err, {"trainer:", "no/trace.json", "No such file"});
}

TEST(TrainingOptions, a_profile_does_not_wait_for_the_reader_of_a_pipe) {
  const testing::TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  Program program;
  const auto result = program.run({"--profile", (folder / "pipe").c_str()});
  EXPECT_EQ(result.code, 1);
  expect_parts(result.err, {"can't write the profile", "it is a pipe without a reader"});
}

TEST(TrainingOptions, replicas_are_in_one_process) {
  setenv("RANK", "0", 1);
  setenv("WORLD_SIZE", "2", 1);
  Program program;
  const auto result = program.run({"--strategy", "dp", "--init-method", "tcp://localhost:1"});
  unsetenv("RANK");
  unsetenv("WORLD_SIZE");
  EXPECT_EQ(result.code, 2);
  EXPECT_FALSE(result.ran);
  expect_parts(result.err, {"--strategy dp runs its threads in a single process, but this job has 2 processes"});
}

TEST(TrainingOptions, an_exception_becomes_a_message_and_exit_code_1) {
  Program program;
  const auto result = program.run({}, [] { throw std::runtime_error("it broke"); });
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "trainer: it broke\n");
}

TEST(TrainingOptions, so_does_what_is_no_exception) {
  Program program;
  const auto result = program.run({}, [] { throw 42; });
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "trainer: an object that is not a std::exception was thrown\n");
}

// Hosts may have different options, so the first process of each host reports their errors.
TEST(TrainingOptions, a_usage_error_is_told_once_a_host) {
  const auto error_of_rank = [](const char* rank, const char* local_rank) {
    const std::pair<const char*, const char*> variables[] = {{"OMPI_COMM_WORLD_RANK", rank},
                                                             {"OMPI_COMM_WORLD_SIZE", "4"},
                                                             {"OMPI_COMM_WORLD_LOCAL_RANK", local_rank},
                                                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
    for (const auto& [name, value] : variables) setenv(name, value, 1);
    Program program;
    const auto result = program.run({"--nonsense"});
    for (const auto& [name, value] : variables) unsetenv(name);
    EXPECT_EQ(result.code, 2);
    return result.err;
  };
  EXPECT_EQ(error_of_rank("0", "0"), "trainer: --nonsense: unknown; --help lists all options\n");
  EXPECT_EQ(error_of_rank("1", "1"), "");
  EXPECT_EQ(error_of_rank("2", "0"), "[rank2]: --nonsense: unknown; --help lists all options\n");
  EXPECT_EQ(error_of_rank("3", "1"), "");
}

TEST(TrainingOptions, an_unknown_name_is_told_the_nearest) {
  Program program;
  const auto result = program.run({"--bacth_size=5"});
  EXPECT_EQ(result.code, 2);
  expect_parts(result.err, {"--bacth-size=5: unknown; did you mean --batch-size? --help lists all options"});
  Program launched;
  expect_parts(launched.run({"--nproc_per_node", "2"}).err, {"--nproc-per-node is an option of tandemrun"});
  // Python's argparse would accept these prefixes.
  Program prefix, two;
  expect_parts(prefix.run({"--batch=5"}).err, {"--batch=5: unknown; did you mean --batch-size? "});
  expect_parts(two.run({"--save-ev", "5"}).err, {"did you mean --save-every, --save-every-steps? "});
  Program other;
  const auto far = other.run({"--colour", "red"});
  EXPECT_EQ(far.code, 2);
  EXPECT_EQ(far.err.find("did you mean"), std::string::npos) << far.err;
}

}  // namespace
}  // namespace tandem::distributed
