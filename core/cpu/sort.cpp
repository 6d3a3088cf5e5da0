#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/cpu/simd.h>
#include <tandem/core/formulas/sort_keys.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace tandem {

namespace {

// Radix sort: least significant digit first. A digit is a byte. Bytes that are the same in all keys are skipped. The
// result is in `records`; `other` is scratch memory of the same size.
template <int key_bytes, class Record>
void radix_sort(Record* records, Record* other, std::int64_t n) {
  std::int64_t counts[key_bytes][256] = {};
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint64_t key = records[i].key();
    for (int b = 0; b < key_bytes; ++b) ++counts[b][key >> (8 * b) & 255];
  }
  Record* from = records;
  Record* to = other;
  for (int b = 0; b < key_bytes; ++b) {
    std::int64_t* count = counts[b];
    if (count[from[0].key() >> (8 * b) & 255] == n) continue;
    std::int64_t next = 0;
    for (int digit = 0; digit < 256; ++digit) next += std::exchange(count[digit], next);
    for (std::int64_t i = 0; i < n; ++i) to[count[from[i].key() >> (8 * b) & 255]++] = from[i];
    std::swap(from, to);
  }
  if (from != records) std::copy_n(from, n, records);
}

constexpr std::int64_t radix_from = 200;  // a row with fewer numbers is sorted by comparison

template <class T, class Record>
void sort_row(const T* x, std::int64_t n, bool descending, Record* records) {
  for (std::int64_t i = 0; i < n; ++i) records[i] = Record::of(sort_key(x[i], descending), i);
  if (n < radix_from) std::sort(records, records + n);
  else radix_sort<sizeof(T)>(records, records + n, n);
}

// Returns whether one of the next n numbers could precede `bound`.
template <class T>
bool may_come_before(const T* x, std::int64_t n, T bound, bool descending) {
  const auto limit = static_cast<compute_t<T>>(bound);
  int found = 0;
  if (descending) {
    for (std::int64_t i = 0; i < n; ++i) found |= !(static_cast<compute_t<T>>(x[i]) <= limit);
  } else {
    for (std::int64_t i = 0; i < n; ++i) found |= !(static_cast<compute_t<T>>(x[i]) >= limit);
  }
  return found != 0;
}

// Writes the first k numbers, in order, to records[0, k). A heap contains the best k so far, and a number is inserted
// only if it precedes the worst of them.
template <class T, class Record>
void first_of_row(const T* x, std::int64_t n, bool descending, std::int64_t k, Record* records) {
  const auto record = [&](std::int64_t i) { return Record::of(sort_key(x[i], descending), i); };
  for (std::int64_t i = 0; i < k; ++i) records[i] = record(i);
  std::make_heap(records, records + k);
  constexpr std::int64_t chunk = 64;  // numbers that are compared with the worst of the heap at once
  for (std::int64_t begin = k; begin < n; begin += chunk) {
    const std::int64_t end = std::min(n, begin + chunk);
    if (!may_come_before(x + begin, end - begin, x[records[0].index()], descending)) continue;
    for (std::int64_t i = begin; i < end; ++i) {
      const Record next = record(i);
      if (!(next < records[0])) continue;
      std::pop_heap(records, records + k);
      records[k - 1] = next;
      std::push_heap(records, records + k);
    }
  }
  std::sort_heap(records, records + k);
}

}  // namespace

void CpuBackend::sort(const Array& x, bool descending, std::int64_t k, const Array& values, const Array& indices) {
  const std::int64_t rows = x.dim(0), n = x.dim(1);
  dispatch_sort(x.dtype(), n, [&](auto type, auto kind) {
    using T = decltype(type);
    using Record = decltype(kind);
    const T* in = static_cast<const T*>(x.raw());
    T* out = static_cast<T*>(values.raw());
    std::int64_t* positions = static_cast<std::int64_t*>(indices.raw());
    const std::int64_t per_task = std::max<std::int64_t>(1, 4096 / n), tasks = (rows + per_task - 1) / per_task;
    const bool few = k * 16 <= n;
    cpu::parallel_for(tasks, rows * n * 8, [&](std::int64_t task) {
      const std::unique_ptr<Record[]> records(new Record[static_cast<std::size_t>(few ? k : 2 * n)]);
      for (std::int64_t r = task * per_task; r < std::min(rows, (task + 1) * per_task); ++r) {
        const T* row = in + r * n;
        if (few) {
          first_of_row(row, n, descending, k, records.get());
        } else if (k < n / 2) {
          for (std::int64_t i = 0; i < n; ++i)
            records[static_cast<std::size_t>(i)] = Record::of(sort_key(row[i], descending), i);
          std::nth_element(records.get(), records.get() + k, records.get() + n);
          std::sort(records.get(), records.get() + k);
        } else {
          sort_row(row, n, descending, records.get());
        }
        for (std::int64_t i = 0; i < k; ++i) {
          const std::int64_t at = records[static_cast<std::size_t>(i)].index();
          out[r * k + i] = row[at];
          positions[r * k + i] = at;
        }
      }
    });
  });
}

}  // namespace tandem
