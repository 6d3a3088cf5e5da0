// Unpickler: reads a PyTorch pickle into plain values. Nothing in a pickle is ever executed. Of all the functions and
// types that a pickle can name, the reader knows only a short list, and it builds their results itself.
// https://docs.python.org/3/library/pickletools.html describes the opcodes.
#pragma once

#include <tandem/core/base/check.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

struct PickleValue {
  using Id = std::uint32_t;  // the value's index in Pickle::values
  enum class Kind : std::uint8_t {
    none,
    boolean,
    integer,
    real,
    text,
    tuple,
    list,
    dict,  // also an OrderedDict
    set,
    global,   // a name from the list: a dtype, a storage type or a function
    storage,  // its items are those of its persistent id
    tensor,   // its items are storage, offset, sizes, strides, dtype (none: the storage's), metadata (none or a dict)
    unreadable_tensor,  // its text says why: "is sparse (torch.sparse_coo): ..."
    // A value that occurs in checkpoints but contains no tensors: a device, parsed options, bytes, or an integer of
    // more than 64 bits.
    opaque,
  };

  Kind kind = Kind::none;
  std::int64_t integer = 0;  // also the value of a boolean
  double real = 0;
  std::string text;       // for a global, "module.name"; for a long integer, its bytes
  std::vector<Id> items;  // for a dict: key, value, key, value, ...
};

// Values refer to each other by their ids, possibly in cycles. Code that follows the ids must limit its depth and its
// number of steps.
struct Pickle {
  std::deque<PickleValue> values;
  PickleValue::Id root = 0;
  std::size_t bytes = 0;  // the length of the pickle

  const PickleValue& operator[](PickleValue::Id id) const { return values[id]; }
};

// Thrown if the pickle continues beyond the given bytes.
struct PickleEndsEarly : Error {
  using Error::Error;
};

// Reads the pickle at the beginning of `bytes`. Errors begin with `label` and name what was refused. The time is
// proportional to the number of bytes. The memory is bounded by `most_values`, at about 200 bytes each, because a
// single byte of a pickle can create a value.
Pickle unpickle(std::string_view bytes, std::size_t most_values, const std::string& label);

}  // namespace tandem
