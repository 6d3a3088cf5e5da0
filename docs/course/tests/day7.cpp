// The tests of day 7. Each says what is wrong in words.
#include <sys/resource.h>

#include <chrono>
#include <thread>

#include "checkpoint.h"
#include "failures.h"

using course::expect;
using course::Training;

std::string shown(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return text.empty() ? "none" : text;
}

void the_late_are_named() {
  const auto is = [](std::vector<Progress> ranks, int operation, std::vector<int> expected, const char* what) {
    const auto found = behind(ranks, operation);
    expect(found == expected, "behind: ", what, ": named ", shown(found), ", expected ", shown(expected));
  };
  is({{7, 6, 0}, {0, 6, 0}, {7, 6, 0}}, 7, {1}, "ranks 0 and 2 wait in operation 7, rank 1 computes and has done 6");
  is({{7, 6, 0}, {6, 5, 0}, {5, 4, 0}}, 7, {1, 2}, "ranks 1 and 2 are still in operations 6 and 5");
  is({{7, 6, 0}, {0, 7, 0}, {8, 7, 0}}, 7, {},
     "rank 1 has already done operation 7, and rank 2 is in the next one: no rank is late");
  is({{3, 2, 0}, {0, 0, 9}, {3, 2, 0}}, 3, {1}, "rank 1 has done nothing and is silent");
  is({{1, 0, 9}, {1, 0, 0}}, 1, {}, "rank 0 is silent, but it has reached the operation");
}

void the_cause_is_found() {
  const auto is = [](std::vector<End> ends, int expected, const char* what) {
    const int found = cause(ends);
    expect(found == expected, "cause: ", what, ": named rank ", found, ", expected ", expected);
  };
  is({}, -1, "no rank has ended");
  is({{0, 5, 0, 0, false, false}, {1, 6, 0, 0, false, false}}, -1, "both ranks succeeded");
  is({{0, 5.2, 1, 0, false, true}, {1, 5.0, 3, 0, false, true}}, 1, "rank 1 failed a moment before rank 0");
  is({{0, 5.1, 1, 0, false, true}, {1, 5.3, 0, 9, false, false}}, 1,
     "rank 1 was killed; rank 0 saw the connection close and reported it before the launcher saw rank 1's end");
  is({{0, 9.0, 0, 15, true, false}, {1, 9.5, 1, 0, false, true}}, 1,
     "rank 0 was stopped by the launcher, without a report: it obeyed");
  is({{0, 9.0, 0, 15, true, true}, {1, 9.5, 1, 0, true, true}}, 0,
     "rank 0 had reported a failure before it was stopped");
  is({{2, 3.0, 0, 9, true, false}}, -1, "one rank was stopped, and none failed");
  is({{0, 5.0, 1, 0, false, true}, {1, 5.3, 0, 6, false, true}}, 0,
     "rank 1 was ended by a signal but has a report with its time");
}

std::filesystem::path folder() {
  char name[] = "/tmp/course-checkpoint-XXXXXX";
  expect(mkdtemp(name) != nullptr, "no folder");
  return name;
}

void files_are_whole() {
  const auto where = folder();
  const auto path = where / "checkpoint";
  const std::size_t size = 1 << 20;
  try {
    write_whole(path, "first");
    std::string text;
    std::getline(std::ifstream(path), text);
    expect(text == "first", "write_whole: wrote \"first\", the file has \"", text, "\"");
    write_whole(path, std::string(size, 'a'));
    const auto expect_whole = [&](const char* when) {
      std::string found(std::filesystem::file_size(path), ' ');
      std::ifstream(path).read(found.data(), found.size());
      expect(found.size() == size, "write_whole: after the process was killed ", when, " the file has ", found.size(),
             " bytes of ", size, ": the old file is lost, and the new one is incomplete");
      expect(found.find_first_not_of(found[0]) == std::string::npos, "write_whole: after the process was killed ", when,
             " the file begins with '", found[0], "' and continues with different bytes");
    };
    // The system kills a process that writes more to a file than its limit allows. Here that happens in the middle of
    // the second file.
    const pid_t limited = fork();
    if (limited == 0) {
      const rlimit half{size / 2, size / 2}, none{0, 0};
      setrlimit(RLIMIT_CORE, &none);
      setrlimit(RLIMIT_FSIZE, &half);
      signal(SIGXFSZ, SIG_DFL);
      write_whole(path, std::string(size, 'b'));
      _exit(0);
    }
    waitpid(limited, nullptr, 0);
    expect_whole("in the middle of writing");
    for (int round = 0; round < 15; ++round) {
      const pid_t child = fork();
      if (child == 0)
        for (char letter = 'b';; letter = letter == 'z' ? 'b' : letter + 1)
          write_whole(path, std::string(size, letter));
      std::this_thread::sleep_for(std::chrono::milliseconds(10 + 7 * round % 40));
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
      expect_whole("at some time");
    }
  } catch (...) {
    std::filesystem::remove_all(where);
    throw;
  }
  std::filesystem::remove_all(where);
}

void training_goes_on_to_the_bit() {
  for (const int before : {1, 3, 4, 10})
    for (const int after : {1, 2, 9}) {
      Training undisturbed;
      undisturbed.train(before);
      const Training at_the_stop = undisturbed;
      const auto bytes = to_bytes(undisturbed);
      undisturbed.train(after);
      Training resumed;
      from_bytes(bytes, resumed);
      const auto when = " (" + std::to_string(before) + " steps before, " + std::to_string(after) + " after)";
      expect(resumed.model.parameters == at_the_stop.model.parameters,
             "from_bytes: the weights differ from those at the stop. Text with "
             "six digits is not enough for a float",
             when);
      expect(resumed.momentum == at_the_stop.momentum,
             "from_bytes: the momentum was not kept: the first steps would be too small", when);
      expect(resumed.step == at_the_stop.step,
             "from_bytes: the number of the step was not kept: the learning rate would start again", when);
      expect(resumed.position == at_the_stop.position,
             "from_bytes: the position in the epoch was not kept: samples would be repeated", when);
      expect(resumed.order == at_the_stop.order,
             "from_bytes: the order of the epoch was not kept: some samples would be seen twice, others "
             "never",
             when);
      expect(resumed.random == at_the_stop.random, "from_bytes: the state of the random number generator was not kept",
             when);
      resumed.train(after);
      expect(resumed.model.parameters == undisturbed.model.parameters,
             "from_bytes: the resumed training ends with different bits", when);
    }
}

int main() {
  return course::run({
      {"1 behind", "", the_late_are_named},
      {"2 cause", "", the_cause_is_found},
      {"3 write_whole", "", files_are_whole},
      {"4 to_bytes, from_bytes", "", training_goes_on_to_the_bit},
  });
}
