// Tests tandemrun --elastic with small shell commands as its ranks: which failures the job survives, and its exit code.
#include <tandem/distributed/elastic/elastic_training.h>  // a build without this annex has no such tests

#include <support/launcher_fixture.h>
#include <support/process.h>

#include <string>

namespace tandem::distributed {
namespace {

using testing::expect_parts;

class ElasticLauncher : public testing::LauncherTest {};

// The failed rank may be the one that saves the result.
TEST_F(ElasticLauncher, fails_if_a_rank_fails_after_the_end) {
  const auto at = folder_.string();
  EXPECT_EQ(run_shell(3,
                      "case $RANK in 0) sleep 1; exit 7;; 1) sleep 2; touch " + at +
                          "/saved;; 2) "
                          "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 3;; esac",
                      {"--elastic", "--max-restarts", "1"}),
            7);
  EXPECT_TRUE(std::filesystem::exists(at + "/saved"));  // the others are not stopped
  expect_parts(err(), {"rank 2 ", "failed: exit code 3; the others continue, and it starts again",
                       "rank 0 failed first: exit code 7"});
  EXPECT_EQ(err().find("then rank"), std::string::npos) << err();
  EXPECT_EQ(err().find("without it"), std::string::npos) << err();
  EXPECT_EQ(err().find("join(ddp"), std::string::npos) << err();
}

TEST_F(ElasticLauncher, ends_if_only_suspended_ranks_are_left) {
  EXPECT_EQ(run_shell(2, "if [ $RANK = 0 ]; then sleep 0.5; exit 5; fi; kill -STOP $$",
                      {"--elastic", "--rdzv-conf", "keep_alive_interval=1,keep_alive_max_attempt=1"}),
            5);
  expect_parts(err(), {"only suspended ranks are left, and are killed", "rank 0 failed first: exit code 5"});
}

TEST_F(ElasticLauncher, waits_for_ranks_that_are_suspended_briefly) {
  EXPECT_EQ(
      run_shell(2, "if [ $RANK = 0 ]; then sleep 0.5; exit 5; fi; (sleep 1.5; kill -CONT $$) & kill -STOP $$; wait",
                {"--elastic", "--rdzv-conf", "keep_alive_interval=1,keep_alive_max_attempt=1"}),
      0)
      << err();
}

TEST_F(ElasticLauncher, continues_without_a_rank_that_cannot_start_again) {
  const auto program = (folder_ / "program").string();
  std::filesystem::copy_file("/bin/sh", program);
  EXPECT_EQ(run({"--elastic", "--max-restarts", "3", "--nproc-per-node", "2", program, "-c",
                 "if [ $RANK = 0 ]; then sleep 0.5; rm " + program + "; exit 3; fi; sleep 1.5"}),
            0);
  expect_parts(err(), {"rank 0 ", "failed: exit code 3",
                       "the others continue without rank 0, which can't start again: ", program});
}

TEST_F(ElasticLauncher, the_verdict_has_the_report_of_the_first_process) {
  EXPECT_EQ(run_shell(2,
                      R"(if [ $RANK = 0 ]; then sleep 1; exit 9; fi
                         [ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 8
                         printf '{"message":{"message":"the true reason"}}' > $TORCHELASTIC_ERROR_FILE
                         exit 7)",
                      {"--elastic", "--max-restarts", "1"}),
            7);
  expect_parts(err(), {"rank 1 failed first: exit code 7", "the true reason"});
}

}  // namespace
}  // namespace tandem::distributed
