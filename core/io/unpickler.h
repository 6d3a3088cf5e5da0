// Unpickler: what a pickle of PyTorch holds, as plain values. Nothing is ever executed: of all that a pickle can ask
// for, only a short list is known, and what it stands for is built here.
// https://docs.python.org/3/library/pickletools.html describes the opcodes.
#pragma once

#include <tandem/core/base/check.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

struct PickleValue {
  using Id = std::uint32_t;  // its place in Pickle::values
  enum class Kind : std::uint8_t {
    none,
    boolean,
    integer,
    real,
    text,
    tuple,
    list,
    dict,  // an OrderedDict, too
    set,
    global,   // a name from the list: a dtype, the type of a storage, a function
    storage,  // items: those of its persistent id
    tensor,   // items: storage, offset, sizes, strides
    opaque,   // something that is in checkpoints and holds no tensors: a device, parsed options, an integer above 64
              // bits
  };

  Kind kind = Kind::none;
  std::int64_t integer = 0;  // a boolean's, too
  double real = 0;
  std::string text;       // of a global "module.name"; of a long integer its bytes
  std::vector<Id> items;  // of a dict: key, value, key, value, ...
};

// Values refer to each other by their ids, in any way, round in circles too: who walks along must bound depth and
// steps.
struct Pickle {
  std::vector<PickleValue> values;
  PickleValue::Id root = 0;
  std::size_t bytes = 0;  // that the pickle took

  const PickleValue& operator[](PickleValue::Id id) const { return values[id]; }
};

// The pickle goes on behind the bytes that were given.
struct PickleEndsEarly : Error {
  using Error::Error;
};

// Understands the pickle at the front of `bytes`. Errors begin with `label` and name what was refused. Time and memory
// are bounded by a multiple of the bytes.
Pickle unpickle(std::string_view bytes, const std::string& label);

}  // namespace tandem
