#include <tandem/core/base/check.h>
#include <tandem/core/io/event_file.h>

#include <gtest/gtest.h>
#include <support/process.h>
#include <support/temporary_folder.h>
#include <support/torch_python.h>

#include <limits>
#include <vector>

namespace tandem {
namespace {

using testing::expect_parts;
using testing::read_bytes;
using testing::TemporaryFolder;

// An image of one pixel.
const std::string png(
    "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\2\0\0\0\x90wS\xde\0\0\0\x0cIDATx\x9c"
    "c\xf8\xcf\xc0\0\0\3\1\1\0\xc9\xfe\x92\xef\0\0\0\0IEND\xae"
    "B`\x82",
    69);

void write_one_of_each(EventFile& file) {
  file.add_scalar("train/loss", 1, 0.1);
  file.add_scalar("train/loss", 300, 0);
  file.add_image("a picture", std::int64_t{1} << 40, png, 1, 1);
  file.add_text("text", 0, "**words** \u00fc");
  file.add_histogram("weights", -1, std::vector<float>{15, 2, std::numeric_limits<float>::quiet_NaN(), 31, 1});
}

// The expected bytes are those of TensorBoard's own classes (tests/golden/event_file.py).
TEST(EventFile, writes_tensorboards_bytes) {
  TemporaryFolder folder;
  double now = 1234567889.5;
  EventFile file(folder / "a/b", [&now] { return now += 1; });
  EXPECT_EQ(file.path().filename().string().rfind("events.out.tfevents.1234567890.", 0), 0u) << file.path();
  EXPECT_EQ(file.path().parent_path(), folder / "a/b");
  now = 1234567890.5;
  const std::string golden = read_bytes(std::string(TANDEM_SOURCE_DIR) + "/tests/golden/events.tfevents");
  const std::string first = read_bytes(file.path());
  EXPECT_GT(first.size(), 24u);
  write_one_of_each(file);
  EXPECT_EQ(read_bytes(file.path()), first);  // nothing is written before flush()
  file.flush();
  const std::string found = read_bytes(file.path());
  // The first record is not compared, because its time comes from a different call of the clock.
  ASSERT_EQ(found.size(), golden.size());
  EXPECT_EQ(found.substr(first.size()), golden.substr(first.size()));
}

TEST(EventFile, takes_the_next_name_where_another_container_has_the_first) {
  TemporaryFolder folder;
  const auto clock = [] { return 5.0; };
  std::string name;
  {
    const EventFile file(folder.path(), clock);
    name = file.path().string();
  }
  const auto dot = name.rfind('.') + 1;
  const std::string next = name.substr(0, dot) + std::to_string(std::stoi(name.substr(dot)) + 1);
  testing::write_bytes(next, "of another process with this one's number");
  const EventFile file(folder.path(), clock);
  EXPECT_EQ(folder.names().size(), 3u);
  EXPECT_EQ(read_bytes(next), "of another process with this one's number");
}

TEST(EventFile, files_of_one_folder_have_different_names) {
  TemporaryFolder folder;
  const auto clock = [] { return 5.0; };
  { EventFile a(folder.path(), clock), b(folder.path(), clock); }
  const auto names = folder.names();
  ASSERT_EQ(names.size(), 2u);
  expect_parts(names[0], {"events.out.tfevents.0000000005."});
  EXPECT_EQ(read_bytes(folder / names[0]), read_bytes(folder / names[1]));
}

TEST(EventFile, says_what_it_cannot_write) {
  TemporaryFolder folder;
  testing::write_bytes(folder / "file", "");
  expect_parts(testing::error_of([&] { EventFile((folder / "file").string()); }), {(folder / "file").string()});
  expect_parts(testing::error_of([&] { EventFile((folder / "file/below").string()); }),
               {"file/below", "can't create", "for event files"});
}

TEST(EventFile, tensorboard_reads_it) {
  TANDEM_NEEDS_TENSORBOARD();
  TemporaryFolder folder;
  {
    EventFile file(folder.path());
    write_one_of_each(file);
    file.add_scalar("train/loss", 301, 0.25);
  }
  const std::string program = R"(
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util
events = EventAccumulator(sys.argv[1]).Reload()
assert [(e.step, e.value) for e in events.Scalars("train/loss")] == [(1, 0.10000000149011612), (300, 0), (301, 0.25)]
image = events.Images("a picture")[0]
assert image.width == image.height == 1 and image.encoded_image_string.startswith(b"\x89PNG")
assert events.Histograms("weights")[0].histogram_value.num == 4
assert tensor_util.make_ndarray(events.Tensors("text")[0].tensor_proto)[0] == "**words** \u00fc".encode()
assert events.summary_metadata["text"].plugin_data.plugin_name == "text"
)";
  const auto outcome =
      testing::run_process({"/usr/bin/env", testing::torch_python(), "-c", program, folder.path().string()});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
}

// A job that is killed after step 3 resumes from step 2.
TEST(EventFile, tensorboard_leaves_out_what_a_restart_repeats) {
  TANDEM_NEEDS_TENSORBOARD();
  TemporaryFolder folder;
  double now = 5;
  const auto clock = [&now] { return now; };
  {
    EventFile file(folder.path(), clock);
    for (int step = 1; step <= 3; ++step) file.add_scalar("train/loss", step, step);
  }
  now = 9;
  {
    EventFile file(folder.path(), clock);
    file.add_restart(3);
    for (int step = 3; step <= 4; ++step) file.add_scalar("train/loss", step, 10 * step);
  }
  const std::string program = R"(
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1]).Reload()
found = [(e.step, e.value) for e in events.Scalars("train/loss")]
assert found == [(1, 1), (2, 2), (3, 30), (4, 40)], found
)";
  const auto outcome =
      testing::run_process({"/usr/bin/env", testing::torch_python(), "-c", program, folder.path().string()});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
}

// Protobuf requires UTF-8. A single tag that is not UTF-8 makes the whole file unreadable.
TEST(EventFile, a_tag_of_other_bytes_is_escaped) {
  TemporaryFolder folder;
  EventFile file(folder.path());
  file.add_scalar("caf\xe9", 1, 0.5);
  file.flush();
  const auto bytes = read_bytes(file.path());
  EXPECT_NE(bytes.find("caf\\xe9"), std::string::npos);
  EXPECT_EQ(bytes.find("caf\xe9"), std::string::npos);
}

}  // namespace
}  // namespace tandem
