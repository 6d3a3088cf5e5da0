#include <tandem/core/base/check.h>
#include <tandem/core/base/deadline.h>
#include <tandem/distributed/groups/host/peer_links.h>
#include <tandem/distributed/store/tcp_store.h>

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace tandem::distributed {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

Members members_of(int size) {
  Members members;
  for (int r = 0; r < size; ++r) members.push_back({r, "here", std::to_string(1000 + r), "loopback"});
  return members;
}

FileDescriptor file_named(const char* name) { return FileDescriptor(memfd_create(name, MFD_CLOEXEC)); }

std::string target_of(const FileDescriptor& file) {
  char target[64] = "";
  const std::string link = "/proc/self/fd/" + std::to_string(file.get());
  return readlink(link.c_str(), target, sizeof target - 1) < 0 ? "" : target;
}

int open_files(const std::string& name) {
  int count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(folder)) {
    char target[64] = "";
    const std::string link = std::string("/proc/self/fd/") + entry->d_name;
    if (readlink(link.c_str(), target, sizeof target - 1) > 0)
      count += std::string(target).find(name) != std::string::npos ? 1 : 0;
  }
  closedir(folder);
  return count;
}

std::set<std::string> listening_sockets() {
  std::set<std::string> names;
  std::ifstream list("/proc/net/unix");
  for (std::string line; std::getline(list, line);) {
    const auto at = line.find("@tandem-");
    if (at != std::string::npos) names.insert(line.substr(at + 1));
  }
  return names;
}

// Waits for the socket of a new rank, which is not in `before`.
std::string new_socket(const std::set<std::string>& before) {
  for (;;) {
    for (const auto& name : listening_sockets()) {
      if (!before.contains(name)) return name;
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
}

// Returns a closed socket if no process listens any more.
FileDescriptor connect_as_stranger(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) socket.close();
  return socket;
}

// The result of a rank if `stranger` connects to rank 0 before rank 1 does.
struct Outcome {
  std::exception_ptr error;
  milliseconds time{};
  std::string file_of_1;
};

Outcome link_with(const std::function<void(const std::string& name)>& stranger, bool rank_1_comes = true,
                  milliseconds timeout = seconds(20), int size = 2) {
  TcpStoreServer server({});
  const TcpStore::Options options{.port = server.port(), .timeout = timeout};
  const auto before = listening_sockets();
  Outcome outcome;
  std::thread rank_0([&] {
    const auto start = steady_clock::now();
    try {
      TcpStore store(options);
      const auto file = file_named("of rank 0");
      const auto links = link_peers(store, 0, members_of(size), file, RunningTime::now() + timeout);
      outcome.file_of_1 = target_of(links[1].file);
    } catch (...) {
      outcome.error = std::current_exception();
    }
    outcome.time = std::chrono::duration_cast<milliseconds>(steady_clock::now() - start);
  });
  if (!rank_1_comes) {  // the other ranks publish their addresses, but don't call
    TcpStore store(options);
    for (int r = 1; r < size; ++r) store.set("segment/" + std::to_string(r), "an address");
  }
  stranger(new_socket(before));
  if (rank_1_comes) {
    try {
      TcpStore store(options);
      const auto file = file_named("of rank 1");
      const auto links = link_peers(store, 1, members_of(2), file, RunningTime::now() + timeout);
      EXPECT_NE(target_of(links[0].file).find("of rank 0"), std::string::npos);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  rank_0.join();
  return outcome;
}

std::string text_of(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  }
  return "";
}

TEST(PeerLinks, StrangersWhoSayNothingDelayNobody) {
  std::vector<FileDescriptor> strangers;
  const auto outcome = link_with([&](const std::string& name) {
    for (int i = 0; i < 5; ++i) {
      strangers.push_back(connect_as_stranger(name));
      EXPECT_TRUE(strangers.back().is_open());
    }
    std::this_thread::sleep_for(milliseconds(100));
  });
  EXPECT_EQ(text_of(outcome.error), "");
  EXPECT_NE(outcome.file_of_1.find("of rank 1"), std::string::npos);
  EXPECT_LT(outcome.time, seconds(10));
}

TEST(PeerLinks, StrangersWhoCallWithoutPauseDoNotMoveTheDeadline) {
  const auto outcome = link_with(
      [&](const std::string& name) {
        const auto until = steady_clock::now() + seconds(4);
        while (steady_clock::now() < until && connect_as_stranger(name).is_open()) {
        }
      },
      false, seconds(1));
  EXPECT_NE(text_of(outcome.error).find("rank 1 (here, pid 1001)"), std::string::npos) << text_of(outcome.error);
  EXPECT_LT(outcome.time, seconds(3));
}

TEST(PeerLinks, OtherUsersAreTurnedAwayAtOnce) {
  if (geteuid() != 0) GTEST_SKIP() << "NOT RUN: needs root, to become another user";
  std::atomic<bool> has_called = false, turned_away = false;
  std::thread other_user;
  const auto outcome = link_with([&](const std::string& name) {
    other_user = std::thread([&, name] {
      // The system call changes only this thread. glibc's function would change the whole process.
      EXPECT_EQ(syscall(SYS_setresuid, -1, 65534, -1), 0);
      const auto stranger = connect_as_stranger(name);
      has_called = true;
      char byte = 0;
      turned_away = wait_readable(stranger, RunningTime::now() + seconds(10)) && recv(stranger.get(), &byte, 1, 0) <= 0;
    });
    while (!has_called) std::this_thread::sleep_for(milliseconds(1));
  });
  other_user.join();
  EXPECT_TRUE(turned_away);
  EXPECT_EQ(text_of(outcome.error), "");
  EXPECT_LT(outcome.time, seconds(10));
}

TEST(PeerLinks, FilesThatNobodyWantsAreClosed) {
  const auto unwanted = file_named("unwanted");
  const int before = open_files("unwanted");
  FileDescriptor stranger;
  link_with([&](const std::string& name) {
    stranger = connect_as_stranger(name);
    char bytes[36] = {};  // the length of a greeting
    iovec data{bytes, sizeof bytes};
    const int fds[2] = {unwanted.get(), unwanted.get()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof fds)] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fds);
    std::memcpy(CMSG_DATA(header), fds, sizeof fds);
    ASSERT_EQ(sendmsg(stranger.get(), &message, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof bytes));
  });
  EXPECT_EQ(open_files("unwanted"), before);
}

TEST(PeerLinks, NamesTheRanksThatDoNotCome) {
  const auto outcome = link_with([](const std::string&) {}, false, seconds(1), 3);
  const std::string text = text_of(outcome.error);
  EXPECT_NE(text.find("these ranks did not reach rank 0 (here, pid 1000) in time: rank 1 (here, pid 1001), "
                      "rank 2 (here, pid 1002)"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace tandem::distributed
