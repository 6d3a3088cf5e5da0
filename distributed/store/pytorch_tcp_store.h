// PyTorchTcpStore: adds the calls of PyTorch's TCPStore that this project does not use itself.
#pragma once

#include <tandem/distributed/store/tcp_store.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tandem::distributed {

class PyTorchTcpStore : public TcpStore {
 public:
  using TcpStore::TcpStore;

  // Read or write several keys in one exchange. multi_get() does not wait: it returns an empty value for a missing key.
  std::vector<std::string> multi_get(const std::vector<std::string>& keys);
  void multi_set(const std::vector<std::pair<std::string, std::string>>& entries);
  std::int64_t key_count();         // includes the protocol's own keys
  std::vector<std::string> keys();  // without the "/"; PyTorch's server has keys() and barrier() since 2026

  // Queues (PyTorch 2.8 and later). A queue and a value may have the same key. Each item goes to one of the clients
  // that pop from the queue or wait for it.
  void queue_push(const std::string& queue, const std::string& item);
  std::string queue_pop(const std::string& queue);  // waits until there is an item
  std::int64_t queue_length(const std::string& queue);

  // Returns when `world_size` clients have called it with this key. Each barrier needs its own key.
  void barrier(const std::string& key, int world_size);
};

}  // namespace tandem::distributed
