#include <tandem/data/download/download.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <future>

#include "support/http_server.h"
#include "support/process.h"
#include "support/refused_calls.h"
#include "support/temporary_folder.h"

namespace tandem::data {
namespace {

using testing::ClosedPort;
using testing::HttpServer;
using testing::read_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;
using Names = std::vector<std::string>;
using namespace std::chrono_literals;

std::string make_content() {
  std::string content(300'000, '\0');
  std::uint32_t state = 1;
  for (auto& byte : content) byte = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return content;
}
const std::string content = make_content();

std::string md5_of_content() {
  TemporaryFolder folder;
  write_bytes(folder / "a", content);
  return md5_of(folder / "a");
}
const std::string md5 = md5_of_content();

const DownloadOptions quick{.connect_timeout = 2s, .stall_timeout = 1s, .lock_timeout = 1s};

TEST(Download, Md5KnownAnswers) {
  TemporaryFolder folder;
  write_bytes(folder / "empty", "");
  write_bytes(folder / "abc", "abc");
  EXPECT_EQ(md5_of(folder / "empty"), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(md5_of(folder / "abc"), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_ERROR(md5_of(folder / "none"), (folder / "none").string(), "No such file");
}

TEST(Download, MakesFolderAndFileAndReports) {
  TemporaryFolder folder;
  HttpServer server([](auto&) { return HttpServer::answer("200 OK", content); });
  DownloadOptions options = quick;
  std::vector<std::string> lines;
  options.report = [&](const std::string& line) { lines.push_back(line); };
  download({server.url() + "x"}, folder.path() / "deep" / "er" / "file", md5, options);
  EXPECT_EQ(read_bytes(folder.path() / "deep" / "er" / "file"), content);
  EXPECT_EQ(lines, std::vector<std::string>{"file: 300 kB of 300 kB"});
  // The file exists, so the server gets no second request.
  download({server.url() + "x"}, folder.path() / "deep" / "er" / "file", md5, options);
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(Download, ReplacesAFileWithAnotherContent) {
  TemporaryFolder folder;
  write_bytes(folder / "file", "something else");
  HttpServer server([](auto&) { return HttpServer::answer("200 OK", content); });
  download({server.url()}, folder / "file", md5, quick);
  EXPECT_EQ(read_bytes(folder / "file"), content);
  EXPECT_EQ(folder.names(), Names{"file"});
}

TEST(Download, TriesMirrorsInOrder) {
  TemporaryFolder folder;
  const ClosedPort refused;
  HttpServer absent([](auto&) { return HttpServer::answer("404 Not Found", "no such page"); });
  HttpServer forbidden([](auto&) { return HttpServer::answer("403 Forbidden", content); });
  HttpServer wrong([](auto&) { return HttpServer::answer("200 OK", "<html>please log in</html>"); });
  HttpServer moved(
      [&](auto&) { return HttpServer::answer("302 Found", "", "Location: " + wrong.url() + "login\r\n"); });
  HttpServer right([](auto&) { return HttpServer::answer("200 OK", content); });
  download({refused.url(), absent.url(), forbidden.url(), wrong.url(), moved.url(), right.url() + "name"},
           folder / "file", md5, quick);
  EXPECT_EQ(read_bytes(folder / "file"), content);
  EXPECT_EQ(folder.names(), Names{"file"});
  EXPECT_EQ(right.requests().at(0).substr(0, 9), "GET /name");
}

TEST(Download, SaysWhatEachMirrorDidAndLeavesNothing) {
  TemporaryFolder folder;
  const ClosedPort refused;
  HttpServer absent([](auto&) { return HttpServer::answer("404 Not Found", ""); });
  HttpServer wrong([](auto&) { return HttpServer::answer("200 OK", "<html>please log in</html>"); });
  EXPECT_THROW(download({refused.url()}, folder / "file", md5, quick), DownloadError);
  EXPECT_ERROR(download({refused.url(), absent.url(), wrong.url()}, folder / "file", md5, quick),
               (folder / "file").string(), refused.url() + ": ", absent.url() + ": ", "404",
               wrong.url() + ": its content has the MD5", "expected " + md5, "Check the address");
  EXPECT_ERROR(download({}, folder / "file", md5, quick), "cannot download");
  EXPECT_ERROR(download({"nonsense://x"}, folder / "file", md5, quick), "nonsense://x: ");
  EXPECT_TRUE(folder.names().empty());
}

TEST(Download, ResumesWhatASeveredConnectionLeft) {
  TemporaryFolder folder;
  int request_number = 0;
  HttpServer server([&](const std::string& request) {
    const std::string bytes = HttpServer::serve_ranges(request, content);
    return ++request_number < 3 ? bytes.substr(0, 100'000) : bytes;
  });
  download({server.url()}, folder / "file", md5, quick);
  EXPECT_EQ(read_bytes(folder / "file"), content);
  EXPECT_EQ(folder.names(), Names{"file"});
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(HttpServer::range_begin(requests[0]), 0u);
  EXPECT_GT(HttpServer::range_begin(requests[1]), 90'000u);
  EXPECT_GT(HttpServer::range_begin(requests[2]), HttpServer::range_begin(requests[1]));
}

TEST(Download, ResumesWhatAnEarlierCallLeft) {
  TemporaryFolder folder;
  int request_number = 0;
  HttpServer severed([&](auto&) {
    if (++request_number > 1) return HttpServer::answer("500 Internal Server Error", "");
    return HttpServer::answer("200 OK", content).substr(0, 150'000);
  });
  EXPECT_THROW(download({severed.url()}, folder / "file", md5, quick), DownloadError);
  EXPECT_EQ(folder.names(), Names{"file.part"});
  // Mirrors that have no file must not cost the bytes that have arrived.
  const ClosedPort refused;
  HttpServer absent([](auto&) { return HttpServer::answer("404 Not Found", ""); });
  HttpServer whole([](const std::string& request) { return HttpServer::serve_ranges(request, content); });
  download({refused.url(), absent.url(), whole.url()}, folder / "file", md5, quick);
  EXPECT_EQ(read_bytes(folder / "file"), content);
  EXPECT_EQ(folder.names(), Names{"file"});
  EXPECT_GT(HttpServer::range_begin(whole.requests().at(0)), 100'000u);
}

TEST(Download, AllThatWasMissingWasTheName) {
  TemporaryFolder folder;
  write_bytes(folder / "file.part", content);
  download({}, folder / "file", md5, quick);
  EXPECT_EQ(read_bytes(folder / "file"), content);
  EXPECT_EQ(folder.names(), Names{"file"});
}

TEST(Download, StartsAfreshWhereThePartIsWrongOrTheServerKnowsNoRanges) {
  const auto ranges = [](const std::string& request) { return HttpServer::serve_ranges(request, content); };
  const auto no_ranges = [](const std::string&) { return HttpServer::answer("200 OK", content); };
  for (const auto& part : {std::string("garbage"), content.substr(0, 1000), content + "too long"}) {
    for (const HttpServer::Handler& handler : {HttpServer::Handler(ranges), HttpServer::Handler(no_ranges)}) {
      TemporaryFolder folder;
      write_bytes(folder / "file.part", part);
      HttpServer server(handler);
      download({server.url()}, folder / "file", md5, quick);
      EXPECT_EQ(read_bytes(folder / "file"), content);
      EXPECT_EQ(folder.names(), Names{"file"});
    }
  }
}

TEST(Download, SilentServerIsGivenUp) {
  TemporaryFolder folder;
  std::promise<void> end;
  const auto ended = end.get_future().share();
  {
    HttpServer silent([&](auto&) {
      ended.wait_for(20s);
      return std::string();
    });
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_THROW(download({silent.url()}, folder / "file", md5, quick), DownloadError);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
    end.set_value();
  }
  EXPECT_TRUE(folder.names().empty());
}

TEST(Download, ASlowMirrorLeavesTimeToTheNext) {
  TemporaryFolder folder;
  const auto ranges = [](const std::string& request) { return HttpServer::serve_ranges(request, content); };
  DownloadOptions options = quick;
  options.stall_timeout = 30s;
  options.total_timeout = 2s;
  HttpServer slow(ranges, 50ms);  // 15 s for the whole file, without a stall
  HttpServer right(ranges);
  const auto begin = std::chrono::steady_clock::now();
  download({slow.url(), right.url()}, folder / "file", md5, options);
  EXPECT_EQ(read_bytes(folder / "file"), content);
  EXPECT_GT(HttpServer::range_begin(right.requests().at(0)), 1'000u);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
}

TEST(Download, EndsWhenItsTimeIsUp) {
  TemporaryFolder folder;
  DownloadOptions options = quick;
  options.stall_timeout = 30s;
  options.total_timeout = 1s;
  HttpServer slow([](auto&) { return HttpServer::answer("200 OK", content); }, 50ms);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_ERROR(download({slow.url()}, folder / "file", md5, options), slow.url(), "timed out");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  EXPECT_EQ(folder.names(), Names{"file.part"});  // the bytes that have arrived are kept
}

TEST(Download, TooLargeAFileIsGivenUp) {
  DownloadOptions options = quick;
  options.max_bytes = static_cast<std::int64_t>(content.size());
  const auto ranges = [](const std::string& request) { return HttpServer::serve_ranges(request, content); };
  const auto says_its_size = [](auto&) { return HttpServer::answer("200 OK", content + "x"); };
  const auto says_nothing = [](auto&) { return "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + content + "x"; };
  for (const HttpServer::Handler& handler : {HttpServer::Handler(says_its_size), HttpServer::Handler(says_nothing)}) {
    TemporaryFolder folder;
    HttpServer large(handler);
    EXPECT_ERROR(download({large.url()}, folder / "file", md5, options), large.url(), "more than 300000 bytes");
    EXPECT_TRUE(folder.names().empty());
    HttpServer right(ranges);
    download({large.url(), right.url()}, folder / "file", md5, options);
    EXPECT_EQ(read_bytes(folder / "file"), content);
  }
  // An earlier download has left too many bytes.
  TemporaryFolder folder;
  write_bytes(folder / "file.part", content + "xx");
  HttpServer right([](auto&) { return HttpServer::answer("200 OK", content); });
  download({right.url()}, folder / "file", md5, options);
  EXPECT_EQ(read_bytes(folder / "file"), content);
}

// A TLS server that sends the files of a folder unchanged. Each file holds a complete response, including its headers.
class HttpsServer {
 public:
  HttpsServer() {
    const auto made = testing::run_process({"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout",
                                            (files / "key").string(), "-out", certificate().string(), "-days", "2",
                                            "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"});
    TANDEM_CHECK(made.code == 0, "openssl makes no certificate: ", made.err);
    server_ = testing::start_process(
        {"sh", "-c",
         "cd '" + files.path().string() + "' && exec openssl s_server -accept 127.0.0.1:0 -HTTP -key key -cert cert"},
        {}, output_);
    for (int i = 0; i < 200 && port_.empty(); ++i) {
      const std::string said = read_bytes(output_ / "out");
      const std::string before = "ACCEPT 127.0.0.1:";
      const auto at = said.find(before), end = said.find('\n', at);
      if (at != said.npos && end != said.npos) port_ = said.substr(at + before.size(), end - at - before.size());
      std::this_thread::sleep_for(50ms);
    }
    TANDEM_CHECK(!port_.empty(), "openssl s_server does not listen: ", read_bytes(output_ / "err"));
  }
  ~HttpsServer() {
    ::kill(server_, SIGKILL);
    ::waitpid(server_, nullptr, 0);
  }
  HttpsServer(const HttpsServer&) = delete;
  HttpsServer& operator=(const HttpsServer&) = delete;

  std::filesystem::path certificate() const { return files / "cert"; }
  std::string url() const { return "https://127.0.0.1:" + port_ + "/"; }

  const TemporaryFolder files;

 private:
  const TemporaryFolder output_;
  pid_t server_ = 0;
  std::string port_;
};

TEST(Download, HttpsIsRedirectedToHttpsAlone) {
  HttpServer plain([](auto&) { return HttpServer::answer("200 OK", content); });
  HttpsServer safe;
  write_bytes(safe.files / "file", HttpServer::answer("200 OK", content));
  write_bytes(safe.files / "down", HttpServer::answer("302 Found", "", "Location: " + plain.url() + "\r\n"));
  write_bytes(safe.files / "across", HttpServer::answer("302 Found", "", "Location: " + safe.url() + "file\r\n"));
  HttpServer up([&](auto&) { return HttpServer::answer("302 Found", "", "Location: " + safe.url() + "file\r\n"); });

  TemporaryFolder folder;
  EXPECT_ERROR(download({safe.url() + "file"}, folder / "file", md5, quick), "certificate");
  ::setenv("SSL_CERT_FILE", safe.certificate().c_str(), 1);
  EXPECT_ERROR(download({safe.url() + "down"}, folder / "file", md5, quick), "http");
  EXPECT_TRUE(plain.requests().empty());
  EXPECT_TRUE(folder.names().empty());
  for (const auto& url : {safe.url() + "file", safe.url() + "across", up.url()}) {
    download({url}, folder / "file", md5, quick);
    EXPECT_EQ(read_bytes(folder / "file"), content);
    std::filesystem::remove(folder / "file");
  }
  ::unsetenv("SSL_CERT_FILE");
}

TEST(Download, KnowsHttpAndHttpsAlone) {
  TemporaryFolder folder;
  write_bytes(folder / "secret", content);
  EXPECT_ERROR(download({"file://" + (folder / "secret").string(), "ftp://127.0.0.1:9/x"}, folder / "file", md5, quick),
               "file://", "\n  ftp://", "rotocol");
  EXPECT_EQ(folder.names(), Names{"secret"});
}

TEST(Download, ProcessesTakeTurns) {
  TemporaryFolder folder;
  HttpServer server([](auto&) { return HttpServer::answer("200 OK", content); });
  std::vector<std::future<void>> all;
  for (int i = 0; i < 4; ++i) {
    all.push_back(std::async(std::launch::async, [&] {
      DownloadOptions patient = quick;
      patient.lock_timeout = 30s;
      download({server.url()}, folder / "file", md5, patient);
    }));
  }
  for (auto& one : all) one.get();
  EXPECT_EQ(read_bytes(folder / "file"), content);
  EXPECT_EQ(folder.names(), Names{"file"});
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(Download, GivesUpWaitingForAnotherProcess) {
  TemporaryFolder folder;
  const int other = ::open((folder / "file.part").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_GE(other, 0);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  EXPECT_ERROR(download({"http://127.0.0.1:9/"}, folder / "file", md5, quick),
               "process " + std::to_string(::getpid()) + " (test_data) of user ", " has held",
               (folder / "file.part").string(), "1 s");
  // A complete file needs no lock.
  write_bytes(folder / "file", content);
  download({"http://127.0.0.1:9/"}, folder / "file", md5, quick);
  ::close(other);
}

// A user who may read a file can lock it forever.
TEST(Download, OthersCanOpenOnlyTheWholeFile) {
  TemporaryFolder folder;
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  const auto mode_of = [&](const char* name) {
    struct stat status {};
    return ::stat((folder / name).c_str(), &status) == 0 ? status.st_mode & 0777 : 0;
  };
  mode_t meanwhile = 0;
  HttpServer server([&](auto&) {
    meanwhile = mode_of("file.part");
    return HttpServer::answer("200 OK", content);
  });
  const mode_t before = ::umask(027);
  download({server.url()}, folder / "file", md5, quick);
  ::umask(before);
  EXPECT_EQ(meanwhile, 0600u);
  EXPECT_EQ(mode_of("file"), 0640u);
  EXPECT_EQ(folder.names(), Names{"file"});
}

// Calls `action` as if no file system supported locks.
void run_without_locks(const std::function<void()>& action) {
  std::async(std::launch::async, [&] {
    testing::refuse_call(SYS_flock, ENOLCK);
    action();
  }).get();
}

TEST(Download, GoesOnAtOnceOnAFileSystemWithoutLocks) {
  TemporaryFolder folder;
  DownloadOptions options = quick;
  std::vector<std::string> lines;
  options.report = [&](const std::string& line) { lines.push_back(line); };
  HttpServer server([](auto&) { return HttpServer::answer("200 OK", content); });
  run_without_locks([&] { download({server.url()}, folder / "file", md5, options); });
  EXPECT_EQ(read_bytes(folder / "file"), content);
  EXPECT_EQ(folder.names(), Names{"file"});
  ASSERT_FALSE(lines.empty());
  testing::expect_parts(lines[0], {(folder / "file.part").string(), "without a lock", "No locks available"});
}

TEST(Download, ResumesOnAFileSystemWithoutLocks) {
  TemporaryFolder folder;
  int request_number = 0;
  HttpServer severed([&](auto&) {
    if (++request_number > 1) return HttpServer::answer("500 Internal Server Error", "");
    return HttpServer::answer("200 OK", content).substr(0, 150'000);
  });
  run_without_locks([&] { EXPECT_THROW(download({severed.url()}, folder / "file", md5, quick), DownloadError); });
  EXPECT_EQ(folder.names(), Names{"file.part"});
  HttpServer whole([](const std::string& request) { return HttpServer::serve_ranges(request, content); });
  run_without_locks([&] { download({whole.url()}, folder / "file", md5, quick); });
  EXPECT_EQ(read_bytes(folder / "file"), content);
  EXPECT_EQ(folder.names(), Names{"file"});
  EXPECT_GT(HttpServer::range_begin(whole.requests().at(0)), 100'000u);
}

TEST(Download, SeveralAtOnceWithoutLocksEachGetTheFile) {
  TemporaryFolder folder;
  HttpServer server([](const std::string& request) { return HttpServer::serve_ranges(request, content); });
  std::vector<std::future<void>> all;
  for (int i = 0; i < 4; ++i) {
    all.push_back(std::async(std::launch::async, [&] {
      DownloadOptions patient = quick;
      patient.stall_timeout = 30s;
      run_without_locks([&] { download({server.url()}, folder / "file", md5, patient); });
      EXPECT_EQ(md5_of(folder / "file"), md5);
    }));
  }
  for (auto& one : all) one.get();
  EXPECT_EQ(folder.names(), Names{"file"});
}

TEST(Download, SaysThatAnotherFileIsThere) {
  TemporaryFolder folder;
  write_bytes(folder / "file", "copied, but cut");
  const testing::ClosedPort refused;
  EXPECT_ERROR(download({refused.url()}, folder / "file", md5, quick), "The existing file is a different one",
               md5_of(folder / "file"), "expected " + md5);
  EXPECT_EQ(testing::read_bytes(folder / "file"), "copied, but cut");
}

TEST(Download, FolderThatCannotBeWritten) {
  TemporaryFolder folder;
  write_bytes(folder / "plain", "x");
  EXPECT_ERROR(download({"http://127.0.0.1:9/"}, folder / "plain" / "below" / "file", md5, quick),
               "can't create the folder", "to download to", "a part of the path is a file");
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0555));
  const bool is_root = ::geteuid() == 0;
  if (is_root) ::setfsuid(65534);
  EXPECT_ERROR(download({"http://127.0.0.1:9/"}, folder / "file", md5, quick), "cannot create", "file.part",
               "Permission denied");
  if (is_root) ::setfsuid(0);
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
}

}  // namespace
}  // namespace tandem::data
