// --version of every program with a command line, and --help of those that have no other options.
#include <gtest/gtest.h>

#include "support/process.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::expect_parts;
using testing::run_process;

const std::string programs = TANDEM_PROGRAM_DIR "/";

TEST(Version, EveryProgramSaysWhatItIs) {
  for (const std::string program : {"mnist_ddp", "voc_ddp", "tandemrun", "hello_world", "multi_init"}) {
    SCOPED_TRACE(program);
    const auto outcome = run_process({programs + program, "--version"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    EXPECT_TRUE(outcome.out.starts_with(program + " " TANDEM_VERSION " (Tandem, commit ")) << outcome.out;
    expect_parts(outcome.out, {"\ndevices: cpu", "\ntransports: shm, gloo", "\nprocessor: ", "\nbuilt for: "});
    EXPECT_EQ(outcome.out.back(), '\n');
  }
}

TEST(Help, OfProgramsWithoutOptionsIsALine) {
  for (const std::string program : {"hello_world", "multi_init", "examples/mnist"}) {
    SCOPED_TRACE(program);
    const auto outcome = run_process({programs + program, "--help"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    EXPECT_TRUE(outcome.out.starts_with("Usage: " + program.substr(program.find('/') + 1))) << outcome.out;
  }
}

TEST(Help, HasAShortName) {
  for (const std::string program : {"mnist_ddp", "voc_ddp", "voc_ddp predict", "line_fit", "tandemrun", "hello_world",
                                    "multi_init", "examples/mnist", "examples/custom_operation"}) {
    SCOPED_TRACE(program);
    const auto whole = run_process({"sh", "-c", programs + program + " --help"});
    const auto outcome = run_process({"sh", "-c", programs + program + " -h"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, whole.out);
  }
}

TEST(Help, NamesUnknownArguments) {
  const auto greeting = run_process({programs + "hello_world", "--nonsense"});
  EXPECT_EQ(greeting.code, 2);
  EXPECT_EQ(greeting.out, "");
  expect_parts(greeting.err, {"hello_world: --nonsense: unknown argument"});
  const auto job = run_process({programs + "multi_init", "3", "5"});
  EXPECT_EQ(job.code, 2);
  EXPECT_EQ(job.out, "");
  expect_parts(job.err, {"multi_init: 5: unknown argument"});
}

// /dev/full rejects all writes. The requested output is lost, so the program has failed.
TEST(StandardOutput, ThatTakesNothingIsAnError) {
  const testing::TemporaryFolder folder;
  for (const std::string command :
       {"mnist_ddp --help", "mnist_ddp --version", "voc_ddp --help", "voc_ddp predict --help", "line_fit --help",
        "tandemrun --help", "tandemrun --version", "hello_world", "hello_world --help", "hello_world --version",
        "multi_init --help", "multi_init --version", "multi_init 2", "line_fit --epochs 1",
        "tandemrun --nproc-per-node 2 sh -c 'test $RANK = 0 || echo hello'", "examples/custom_operation"}) {
    SCOPED_TRACE(command);
    const auto outcome =
        run_process({"sh", "-c", "cd " + folder.path().string() + "; " + programs + command + " > /dev/full"},
                    {{"OMP_NUM_THREADS", "1"}});
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    expect_parts(outcome.err, {"could not", "to standard output"});
  }
}

// The reader has gone away, which is not a failure of the launcher.
TEST(StandardOutput, ThatIsClosedEarlyEndsNoJob) {
  const auto outcome =
      run_process({"bash", "-c",
                   programs + "tandemrun --nproc-per-node 2 sh -c "
                              "'test $RANK = 0 || yes | head -n 100000' | head -n 1; exit ${PIPESTATUS[0]}"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST(Version, OfAJobIsSaidOnce) {
  const auto outcome =
      run_process({programs + "tandemrun", "--nproc-per-node", "2", programs + "mnist_ddp", "--version"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out.find("mnist_ddp " TANDEM_VERSION), outcome.out.rfind("mnist_ddp " TANDEM_VERSION))
      << outcome.out;
  expect_parts(outcome.out, {"mnist_ddp " TANDEM_VERSION});
}

}  // namespace
}  // namespace tandem
