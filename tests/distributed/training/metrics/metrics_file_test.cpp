#include <tandem/core/base/thread.h>
#include <tandem/distributed/training/metrics/metric.h>
#include <tandem/distributed/training/metrics/metrics_file.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <support/process.h>
#include <support/temporary_folder.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

namespace tandem::distributed {
namespace {

using testing::read_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;

TEST(Metric, IsShownByItsKind) {
  EXPECT_EQ(shown({{"test_accuracy", 0.98, Metric::Kind::fraction}, {"val_loss", 2.3}}),
            "test accuracy 98.00 %, val loss 2.3");
  EXPECT_EQ(shown({{"class_iou", std::vector<double>{1, 2}}, {"pause", 1.5, Metric::Kind::seconds}}), "pause 1.50 s");
}

TEST(Metric, ATableHasAValueForEachRowAndColumn) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Table table{{"cat", "dog"}, {"IoU", "accuracy"}, {{0.5, nan}, {1, 0.25}}};
  EXPECT_EQ(markdown(table, Metric::Kind::fraction),
            "| | IoU | accuracy |\n|---|---:|---:|\n| cat | 50.00 % | 100.00 % |\n| dog | - | 25.00 % |\n");
  EXPECT_EQ(shown({{"classes", table}, {"loss", 2.0}}), "loss 2");
  EXPECT_THROW(markdown({{"cat"}, {"IoU"}, {}}, Metric::Kind::number), Error);
  EXPECT_THROW(markdown({{"cat"}, {"IoU"}, {{1, 2}}}, Metric::Kind::number), Error);
  const TemporaryFolder folder;
  MetricsFile file;
  file.open((folder / "m").string());
  file.write("evaluation", {}, {{"classes", table}});
  EXPECT_EQ(read_bytes(folder / "m"),
            "{\"kind\":\"evaluation\",\"classes\":{\"rows\":[\"cat\",\"dog\"],"
            "\"columns\":{\"IoU\":[0.5,null],\"accuracy\":[1.0,0.25]}}}\n");
}

TEST(MetricsFile, CutsBackWhatCameAfterACheckpoint) {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.json";
  MetricsFile file;
  file.open(path.string());
  const auto step = [&](std::int64_t number) { file.write("step", {{"epoch", std::int64_t{0}}, {"step", number}}); };
  step(1);
  file.write("epoch", {{"epoch", std::int64_t{0}}}, {{"test_accuracy", 0.5}});
  step(2);
  const std::string kept = read_bytes(path);
  EXPECT_EQ(kept,
            "{\"kind\":\"step\",\"epoch\":0,\"step\":1}\n{\"kind\":\"epoch\",\"epoch\":0,\"test_accuracy\":0.5}\n"
            "{\"kind\":\"step\",\"epoch\":0,\"step\":2}\n");
  step(3);
  file.write("epoch", {{"epoch", std::int64_t{1}}});
  write_bytes(path, read_bytes(path) + "{\"kind\":\"st");  // the job was killed during this write

  MetricsFile again;
  again.open(path.string());
  again.cut_back(1, 2);
  EXPECT_EQ(read_bytes(path), kept);
  again.write("step", {{"step", std::int64_t{3}}});
  EXPECT_EQ(read_bytes(path), kept + "{\"kind\":\"step\",\"step\":3}\n");
}

TEST(MetricsFile, KeepsWhatAnotherProgramWrote) {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.json";
  write_bytes(path, "notes\n{\"kind\":\"step\",\"step\":9}\nmore notes\n");
  MetricsFile file;
  file.open(path.string());
  file.cut_back(0, 1);
  EXPECT_EQ(read_bytes(path), "notes\n{\"kind\":\"step\",\"step\":9}\nmore notes\n");
}

TEST(MetricsFile, TakesAnyLineOfAnotherProgram) {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.json";
  for (const std::string theirs : {"{\"kind\":5}\n", "{\"kind\":\"step\",\"step\":\"nine\"}\n",
                                   "{\"kind\":\"epoch\",\"epoch\":null}\n", "[1]\n", "half a line"}) {
    write_bytes(path, theirs);
    MetricsFile file;
    file.open(path.string());
    file.cut_back(0, 1);
    EXPECT_EQ(read_bytes(path), theirs);
    file.write("step", {{"step", std::int64_t{2}}});
    EXPECT_EQ(read_bytes(path), theirs + (theirs.ends_with('\n') ? "" : "\n") + "{\"kind\":\"step\",\"step\":2}\n");
  }
}

// Each job would remove lines of the other one when it is resumed.
TEST(MetricsFile, HasOneWriter) {
  const TemporaryFolder folder;
  const auto path = (folder / "m").string();
  MetricsFile file, second;
  file.open(path);
  EXPECT_ERROR(second.open(path), path, "another job is writing it");
  file = MetricsFile();
  second.open(path);
}

// A reader that is slow gets every line. A reader that has stopped must not stop the training.
TEST(MetricsFile, APipeWhoseReaderStopsIsAnError) {
  const TemporaryFolder folder;
  const auto path = (folder / "pipe").string();
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const FileDescriptor reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK));
  MetricsFile file;
  file.open(path);
  constexpr std::int64_t lines = 10'000;  // more than a pipe holds
  std::string text;
  {
    const auto slow = start_thread<std::jthread>("slow reader", [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      std::string piece(4096, ' ');
      while (std::count(text.begin(), text.end(), '\n') < lines) {
        const auto count = ::read(reader.get(), piece.data(), piece.size());
        if (count > 0) text.append(piece, 0, static_cast<std::size_t>(count));
      }
    });
    for (std::int64_t i = 0; i < lines; ++i) file.write("step", {{"step", i}});
  }
  EXPECT_TRUE(text.ends_with("{\"kind\":\"step\",\"step\":9999}\n")) << text.substr(text.size() - 100);
  const auto write_lines = [&] {
    for (std::int64_t i = 0; i < lines; ++i) file.write("step", {{"step", i}});
  };
  EXPECT_ERROR(write_lines(), path, "its reader has read nothing for 5 s");
}

TEST(MetricsFile, NamesOfAnyBytesAreEscaped) {
  const TemporaryFolder folder;
  MetricsFile file;
  file.open((folder / "m").string());
  file.write("evaluation", {}, {{"caf\xe9", 1.0}, {"classes", Table{{"\xe9"}, {"\xe8"}, {{2}}}}});
  EXPECT_EQ(read_bytes(folder / "m"),
            "{\"kind\":\"evaluation\",\"caf\\\\xe9\":1.0,\"classes\":{\"rows\":[\"\\\\xe9\"],"
            "\"columns\":{\"\\\\xe8\":[2.0]}}}\n");
}

}  // namespace
}  // namespace tandem::distributed
