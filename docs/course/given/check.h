// Helpers for the tests of the course. Each task is tested in its own process, so an endless wait or a crash is
// reported in words, and the next task is still tested.
#pragma once
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace course {

// The exception that a skeleton throws until you have written your code.
struct NotWritten : std::logic_error {
  NotWritten() : std::logic_error("not written yet") {}
};

template <typename... Parts>
[[noreturn]] void wrong(const Parts&... parts) {
  std::ostringstream text;
  text.precision(9);
  (text << ... << parts);
  throw std::runtime_error(text.str());
}

template <typename... Parts>
void expect(bool right, const Parts&... parts) {
  if (!right) wrong(parts...);
}

// The probable cause of the signal that ended a process.
inline std::string ended_by(int signal) {
  const char* why = signal == SIGABRT ? "an exception left a thread or a destructor, a std::thread was destroyed "
                                        "without join, or memory was overwritten"
                                      : "it reads or writes memory that it does not own";
  return "ended by signal " + std::to_string(signal) + " (" + strsignal(signal) + "): " + why;
}

struct Task {
  std::string name;
  std::string when_it_hangs;  // what is probably wrong if the task does not end
  std::function<void()> test;
};

inline bool passes(const Task& task) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);  // so that the ranks of a task that hangs end with it
    alarm(20);
    try {
      task.test();
    } catch (const NotWritten&) {
      std::printf("%s: not written yet\n", task.name.c_str());
      std::fflush(stdout);
      _exit(1);
    } catch (const std::exception& error) {
      std::printf("%s: WRONG: %s\n", task.name.c_str(), error.what());
      std::fflush(stdout);
      _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  kill(-child, SIGKILL);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    std::printf("%s: WRONG: did not end within 20 seconds. %s\n", task.name.c_str(), task.when_it_hangs.c_str());
  else if (WIFSIGNALED(status)) std::printf("%s: WRONG: %s\n", task.name.c_str(), ended_by(WTERMSIG(status)).c_str());
  else if (WEXITSTATUS(status) == 0) std::printf("%s: right\n", task.name.c_str());
  return status == 0;
}

inline int run(const std::vector<Task>& tasks) {
  std::size_t right = 0;
  const Task* first_wrong = nullptr;
  for (const Task& task : tasks) {
    if (passes(task)) ++right;
    else if (!first_wrong) first_wrong = &task;
  }
  std::printf("%zu of %zu tasks are right\n", right, tasks.size());
  if (tasks.size() - right > 1)
    std::printf("Begin with \"%s\": a later task may be wrong only because it uses an earlier one\n",
                first_wrong->name.c_str());
  return right == tasks.size() ? 0 : 1;
}

}  // namespace course
