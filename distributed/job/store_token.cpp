#include <tandem/core/base/check.h>
#include <tandem/core/base/write_all.h>
#include <tandem/core/io/temporary_file.h>
#include <tandem/distributed/job/store_token.h>
#include <tandem/distributed/system/keyed_hash.h>
#include <tandem/distributed/system/random_text.h>
#include <tandem/distributed/system/socket.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

namespace tandem::distributed {
namespace {

namespace fs = std::filesystem;

// Returns the text of a file without its trailing white space. Throws an Error unless only this user may read and write
// the file.
std::string read_secret(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  TANDEM_CHECK(file.is_open(), "cannot read the store's token from ", path, ": ",
               errno == ELOOP ? "it is a symbolic link, which others could redirect: give the file" : errno_text());
  struct stat about {};
  TANDEM_CHECK(::fstat(file.get(), &about) == 0, path, ": ", errno_text());
  TANDEM_CHECK(S_ISREG(about.st_mode), path, " is not a regular file, expected a file with the store's token");
  TANDEM_CHECK(about.st_uid == ::geteuid(), path, " contains the store's token and belongs to another user (",
               about.st_uid, "), expected a file of this user (", ::geteuid(), ")");
  TANDEM_CHECK((about.st_mode & 077) == 0, path,
               " contains the store's token, and other users may read or write it: run chmod 600 ", path);
  char text[257];
  const auto size = ::read(file.get(), text, sizeof text);
  TANDEM_CHECK(size >= 0, path, ": ", errno_text());
  std::string token(text, static_cast<std::size_t>(size));
  token.erase(token.find_last_not_of(" \t\r\n") + 1);
  TANDEM_CHECK(!token.empty() && token.size() <= 256, path, " has ", token.empty() ? "no text" : "more than 256 bytes",
               ", expected the store's token");
  return token;
}

// Returns a folder that only this user can access. Creates it if it does not exist.
std::string private_folder() {
  // Slurm passes on the variable of the login node, but the folder may exist only there. After su and sudo, the
  // variable may name the folder of another user.
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  struct stat its {};
  const bool is_mine = runtime && ::stat(runtime, &its) == 0 && S_ISDIR(its.st_mode) && its.st_uid == ::geteuid();
  // TMPDIR is not used, because some batch systems set it differently for each process.
  const auto folder = is_mine ? fs::path(runtime) / "tandem" : fs::path("/tmp/tandem-" + std::to_string(::geteuid()));
  TANDEM_CHECK(::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST, "cannot make the folder ", folder.string(),
               " for the store's token: ", errno_text(), " (TANDEM_STORE_TOKEN may give a token instead)");
  struct stat about {};
  TANDEM_CHECK(::lstat(folder.c_str(), &about) == 0, folder.string(), ": ", errno_text());
  TANDEM_CHECK(S_ISDIR(about.st_mode) && about.st_uid == ::geteuid() && (about.st_mode & 077) == 0, folder.string(),
               " is for the store's token, but it is not a private folder of this user (mode 0700): remove it, or set "
               "TANDEM_STORE_TOKEN");
  return folder.string();
}

}  // namespace

std::string given_token(const std::function<const char*(const char*)>& variable) {
  const auto text = [&](const char* name) {
    const char* value = variable(name);
    return std::string(value ? value : "");
  };
  const auto token = text("TANDEM_STORE_TOKEN"), path = text("TANDEM_STORE_TOKEN_FILE");
  TANDEM_CHECK(token.size() <= 256, "TANDEM_STORE_TOKEN has ", token.size(), " bytes, but at most 256 are allowed");
  const auto given = token.empty() && !path.empty() ? read_secret(path) : token;
  // A shorter token can be guessed by trying. The output of openssl rand -hex 16 has 32 bytes.
  TANDEM_CHECK(
      given.empty() || given.size() >= 8, "the store's token has ", given.size(),
      given.size() == 1 ? " byte" : " bytes",
      ", expected at least 8, because others could guess it: export TANDEM_STORE_TOKEN=$(openssl rand -hex 16)");
  return given;
}

std::string host_token(const std::string& job) {
  const auto folder = private_folder(), path = folder + "/secret";
  if (::access(path.c_str(), F_OK) != 0) {
    // Several processes may get here at once. Each links a complete file to the path, and the first link wins.
    fs::path draft;
    const FileDescriptor file(create_temporary(folder, draft));
    const auto secret = random_text(8) + "\n";
    const bool is_written = file.is_open() && ::fchmod(file.get(), 0600) == 0 &&
                            write_all(file.get(), secret.data(), secret.size()) == secret.size();
    const auto reason = errno_text();
    // This fails if another process was first.
    if (is_written) static_cast<void>(::link(draft.c_str(), path.c_str()) == 0);
    if (file.is_open()) ::unlink(draft.c_str());
    TANDEM_CHECK(is_written, "cannot write ", path, " for the store's token: ", reason,
                 " (TANDEM_STORE_TOKEN may give a token instead)");
  }
  const auto secret = read_secret(path);
  TANDEM_CHECK(secret.size() >= 64, path, " has ", secret.size(),
               " bytes, so it was truncated: remove it while none of your jobs is running");
  return keyed_hash(secret, "job " + job);
}

void fail_without_token() {
  detail::fail(
      "a job on several hosts needs a token for its store, so that no other program joins: give all processes the same "
      "secret in TANDEM_STORE_TOKEN, or in TANDEM_STORE_TOKEN_FILE the name of a file (mode 0600) that contains the "
      "secret. For example: export TANDEM_STORE_TOKEN=$(openssl rand -hex 16). In a network that you trust, "
      "--open-store (InitOptions::open_store) lets any process join");
}

}  // namespace tandem::distributed
