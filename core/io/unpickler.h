// Unpickler: reads a pickle of PyTorch into plain values. Nothing is ever executed: of all that a pickle can ask for,
// only a short list is known, and what those entries stand for is built here.
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
    global,   // a name from the list: a dtype, the type of a storage, a function
    storage,  // its items are those of its persistent id
    tensor,   // its items are storage, offset, sizes, strides, dtype (none: the storage's), metadata (none or a dict)
    unreadable_tensor,  // its text says why: "is sparse (torch.sparse_coo): ..."
    // Something that occurs in checkpoints but holds no tensors: a device, parsed options, bytes, an integer of more
    // than 64 bits.
    opaque,
  };

  Kind kind = Kind::none;
  std::int64_t integer = 0;  // also the value of a boolean
  double real = 0;
  std::string text;       // for a global, "module.name"; for a long integer, its bytes
  std::vector<Id> items;  // for a dict: key, value, key, value, ...
};

// Values refer to each other by their ids, in any way, also in circles: code that follows them must bound its depth and
// its steps.
struct Pickle {
  std::deque<PickleValue> values;
  PickleValue::Id root = 0;
  std::size_t bytes = 0;  // bytes of the pickle

  const PickleValue& operator[](PickleValue::Id id) const { return values[id]; }
};

// The pickle goes on after the bytes that were given.
struct PickleEndsEarly : Error {
  using Error::Error;
};

// Reads the pickle at the beginning of `bytes`. Errors begin with `label` and name what was refused. The time that this
// takes is bounded by a multiple of the bytes. The memory is bounded by `most_values`, about 200 bytes each: a single
// byte of a pickle can make a value.
Pickle unpickle(std::string_view bytes, std::size_t most_values, const std::string& label);

}  // namespace tandem
