#include <tandem/core/base/thread.h>
#include <tandem/distributed/system/host_identity.h>
#include <tandem/distributed/system/resolver.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

namespace tandem::distributed {
namespace {

using Addresses = std::shared_ptr<const addrinfo>;

Addresses ask(const std::string& name, int port, int flags, std::string& reason) {
  addrinfo hints{};
  hints.ai_flags = flags;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failure = getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (!failure) return {found, &freeaddrinfo};
  reason = failure == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(failure);
  return nullptr;
}

// A question to the resolver, and its answer when it has arrived.
struct Question {
  bool is_answered = false;
  Addresses addresses;
  std::string reason;
};

// The questions whose answers no caller has fetched yet.
struct Questions {
  std::mutex mutex;
  std::condition_variable answered;
  std::map<std::pair<std::string, int>, std::shared_ptr<Question>> open;  // guarded by mutex, as each Question is
};

// Threads that wait for the resolver may outlive static objects, so this object is never destroyed.
Questions& questions() {
  static auto& questions = *new Questions;
  return questions;
}

}  // namespace

Addresses resolve(const std::string& host, int port, Deadline deadline, std::string& reason) {
  // "localhost" never resolves to ::1 here. Some machines lack that address, and all processes must agree on the single
  // address of a listener.
  const std::string name = is_localhost(host) ? "127.0.0.1" : host;
  if (auto addresses = ask(name, port, AI_NUMERICHOST, reason)) return addresses;

  const std::pair key(name, port);
  auto& all = questions();
  std::unique_lock lock(all.mutex);
  auto question = all.open[key];
  if (!question) {
    question = std::make_shared<Question>();
    // The resolver can't be stopped, so a separate thread waits for it.
    start_thread("the thread that asks the resolver", [question, name, port] {
      std::string why;
      auto addresses = ask(name, port, 0, why);
      const std::lock_guard answering(questions().mutex);
      question->addresses = std::move(addresses);
      question->reason = std::move(why);
      question->is_answered = true;
      questions().answered.notify_all();
    }).detach();
    all.open[key] = question;
  }
  if (!wait_until(all.answered, lock, deadline, [&] { return question->is_answered; })) {
    reason = "the resolver (DNS) has not answered in time";
    return nullptr;
  }
  if (const auto mine = all.open.find(key); mine != all.open.end() && mine->second == question) all.open.erase(mine);
  if (!question->addresses) reason = question->reason;
  return question->addresses;
}

}  // namespace tandem::distributed
