// A store's server counts at least as much memory as it uses, because SECURITY.md promises a limit.
#include <tandem/core/base/check.h>
#include <tandem/distributed/store/service.h>
#include <tandem/distributed/store/table.h>

#include <gtest/gtest.h>
#include <malloc.h>
#include <support/raw_client.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace tandem::distributed {
namespace {

using namespace std::string_literals;
using testing::text;
using testing::u64;

// Sanitizers have their own allocators, which this function does not count.
std::size_t allocated() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST(StoreMemory, the_table_counts_at_least_what_it_takes) {
  const auto number = [](int i) { return std::to_string(i); };
  const auto add_twice = [&](StoreTable& table, int i) {
    for (int j = 0; j < 2; ++j) table.add(number(i), 1);
  };
  const struct {
    const char* what;
    std::function<void(StoreTable&, int)> fill;
  } kinds[] = {
      {"short values", [&](StoreTable& table, int i) { table.set(number(i), ""); }},
      {"long values",
       [&](StoreTable& table, int i) { table.set(std::string(40, 'k') + number(i), std::string(100, 'x')); }},
      {"values that shrink",
       [&](StoreTable& table, int i) {
         table.set(number(i), std::string(4000, 'x'));
         table.set(number(i), "x");
       }},
      {"values that grow",
       [&](StoreTable& table, int i) {
         table.set(number(i), std::string(1000, 'x'));
         table.append(number(i), "x", 2000);
       }},
      {"counters", add_twice},
      {"a queue for each item", [&](StoreTable& table, int i) { table.push(number(i), ""); }},
      {"queues with long names", [&](StoreTable& table, int i) { table.push(std::string(40, 'k') + number(i), "x"); }},
      {"one long queue", [&](StoreTable& table, int) { table.push("queue", ""); }},
      {"queues that were longer",
       [&](StoreTable& table, int i) {
         for (int j = 0; j < 20; ++j) table.push(number(i), std::string(100, 'x'));
         for (int j = 0; j < 19; ++j) table.pop(number(i));
       }},
  };
  for (const auto& [what, fill] : kinds) {
    const auto before = allocated();
    const auto table = std::make_unique<StoreTable>();
    for (int i = 0; i < 20000; ++i) fill(*table, i);
    const auto taken = allocated() - before;
    EXPECT_LE(taken, table->bytes() + (64 << 10)) << what << ": " << taken / 20000 << " bytes each";
    for (const auto& key : table->keys()) table->erase(key);
    for (int i = 0; i < 20000; ++i) {
      for (const auto& queue : {number(i), std::string(40, 'k') + number(i), "queue"s}) {
        while (table->length(queue) > 0) table->pop(queue);
      }
    }
    EXPECT_EQ(table->bytes(), 0u) << what;
  }
}

// A client that appends little to a long value must not keep the server from the others.
TEST(StoreMemory, an_append_costs_little) {
  std::size_t replies = 0;
  StoreService service([&](auto, const auto&) { ++replies; });
  const auto answer = [&](const std::string& query) {
    protocol::Reader reader(query);
    service.answer(1, reader);
  };
  for (int i = 0; i < 2; ++i) answer("\x09"s + text("/a") + text(std::string(6 << 20, 'x')));
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 2000; ++i) answer("\x09"s + text("/a") + text(i % 100 == 0 ? "y" : ""));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  EXPECT_THROW(for (int i = 0; i < 2; ++i) answer("\x09"s + text("/a") + text(std::string(4 << 20, 'x'))), Error);
  EXPECT_EQ(replies, 0u);
}

// Waits, barriers and wills of all clients together may take 64 MiB.
TEST(StoreMemory, waits_take_at_most_their_limit) {
  const auto key = [](int i) { return "/" + std::to_string(i); };
  const struct {
    const char* what;
    std::function<std::string(int)> query;
    int queries_of_a_client;
  } kinds[] = {
      {"waits", [&](int i) { return "\x06"s + u64(1) + text(key(i)); }, 1000},
      {"waits for many keys", [&](int i) { return "\x06"s + u64(2) + text(key(2 * i)) + text(key(2 * i + 1)); }, 1000},
      {"waits for long keys", [&](int i) { return "\x06"s + u64(1) + text(key(i) + std::string(1000, 'k')); }, 1},
      {"barriers", [&](int i) { return "\x12"s + text(key(i) + std::string(8000, 'k')) + u64(2); }, 1},
      {"wills", [&](int i) { return "\x02"s + text("tandem/will") + text(key(i)) + text(""); }, 1000},
  };
  for (const auto& [what, query, queries] : kinds) {
    const auto before = allocated();
    StoreService service([](auto, const auto&) {});
    const auto fill = [&, &query = query, queries = queries] {
      for (int i = 0; i < 400'000; ++i) {
        const auto bytes = query(i);
        protocol::Reader reader(bytes);
        service.answer(static_cast<StoreService::ClientId>(i / queries), reader);
      }
    };
    try {
      fill();
    } catch (const Error&) {  // the limit was reached
    }
    const auto of_barriers = what == "barriers"s ? std::size_t{70} << 20 : 0;  // their keys count as part of the table
    EXPECT_LE(allocated() - before, (std::size_t{64} << 20) + of_barriers + (8 << 20)) << what;
  }
}

}  // namespace
}  // namespace tandem::distributed
