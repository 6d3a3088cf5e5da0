#include <tandem/core/io/unpickler.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <utility>

namespace tandem {
namespace {

using Id = PickleValue::Id;
using Kind = PickleValue::Kind;

enum class Role {
  name,
  dict,
  set,
  tensor,
  tensor_with_dtype,
  typed_tensor,
  sparse_tensor,
  meta_tensor,
  tensor_class,
  argument,
  opaque
};

struct KnownGlobal {
  std::string_view name;
  Role role;  // the result of calling it: `argument` is its first argument; a `name` can't be called
};

// The globals that torch.load(weights_only=True) allows and that can occur in a checkpoint, and argparse.Namespace.
constexpr KnownGlobal known_globals[] = {
    {"collections.OrderedDict", Role::dict},
    {"collections.Counter", Role::dict},
    {"builtins.set", Role::set},
    {"builtins.bytearray", Role::opaque},
    {"builtins.complex", Role::opaque},
    {"_codecs.encode", Role::opaque},
    {"torch.Size", Role::argument},
    {"torch.device", Role::opaque},
    {"argparse.Namespace", Role::opaque},
    {"torch.serialization._get_layout", Role::argument},
    {"torch._utils._rebuild_tensor", Role::tensor},
    {"torch._utils._rebuild_tensor_v2", Role::tensor},
    {"torch._utils._rebuild_tensor_v3", Role::tensor_with_dtype},
    {"torch._utils._rebuild_qtensor", Role::tensor},
    {"torch._utils._rebuild_sparse_tensor", Role::sparse_tensor},
    {"torch._utils._rebuild_meta_tensor_no_storage", Role::meta_tensor},
    {"torch._utils._rebuild_device_tensor_from_cpu_tensor", Role::argument},
    {"torch._utils._rebuild_parameter", Role::argument},
    {"torch._utils._rebuild_parameter_with_state", Role::argument},
    {"torch._tensor._rebuild_from_type_v2", Role::typed_tensor},
    {"torch.nn.parameter.Parameter", Role::argument},
};

// Returns whether `name` is PyTorch's name of a dtype: "bool", "float8_e4m3fn", "quint4x2".
bool is_dtype(std::string_view name) {
  if (name == "bool") return true;
  constexpr std::string_view kinds[] = {"float", "bfloat", "int", "uint", "complex", "bits", "qint", "quint"};
  const auto kind = name.substr(0, name.find_first_of("0123456789"));
  return kind != name && std::ranges::find(kinds, kind) != std::end(kinds) &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789") == name.npos;
}

std::optional<Role> role_of(std::string_view name) {
  const auto found = std::ranges::find(known_globals, name, &KnownGlobal::name);
  if (found != std::end(known_globals)) return found->role;
  constexpr std::string_view torch = "torch.";
  if (!name.starts_with(torch)) return std::nullopt;
  name.remove_prefix(torch.size());
  if (is_dtype(name) || name.ends_with("Storage") || name.starts_with("per_")) return Role::name;
  if (name.ends_with("Tensor") && name.find('.') == name.npos) return Role::tensor_class;
  return std::nullopt;
}

constexpr std::size_t longest_python_name = 1000;  // of a module or of its member, in bytes

// Returns text from the file in a form that is safe to print in a message.
std::string shown(std::string_view text) {
  constexpr std::size_t longest = 100;
  std::string result;
  for (const char c : text.substr(0, longest)) result += c >= ' ' && c < 127 ? c : '?';
  return text.size() > longest ? result + "..." : result;
}

// The machine that executes pickle's opcodes. It has a stack with marks, and a memo.
class Unpickler {
 public:
  Unpickler(std::string_view bytes, std::size_t most_values, const std::string& label)
      : bytes_(bytes), most_values_(most_values), label_(label) {
    none_ = make(Kind::none);
    for (const bool value : {false, true}) {
      booleans_[value] = make(Kind::boolean);
      pickle_.values.back().integer = value;
    }
    empty_tuple_ = make(Kind::tuple);
  }

  Pickle run() {
    while (!step(take<std::uint8_t>())) {
      check(stack_.size() <= most_values_ && marks_.size() <= most_values_, "its pickle has a stack of more than ",
            most_values_, " values: it is malicious");
    }
    pickle_.root = pop();
    pickle_.bytes = at_;
    return std::move(pickle_);
  }

 private:
  std::string_view bytes_;
  // Limits everything that is stored for a single byte of the pickle: values, the stack, its marks and the memo.
  const std::size_t most_values_;
  const std::string& label_;
  std::size_t at_ = 0;
  Pickle pickle_;
  std::vector<Id> stack_;
  std::vector<std::size_t> marks_;  // the size of the stack at each mark
  std::unordered_map<std::uint32_t, Id> memo_;
  std::size_t copied_ = 0;  // items copied from one value to another
  Id none_, empty_tuple_;
  std::array<Id, 2> booleans_;

  template <class... Parts>
  void check(bool condition, const Parts&... parts) const {
    TANDEM_CHECK(condition, label_, parts...);
  }

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) throw PickleEndsEarly(label_ + "its pickle ends early: it is truncated");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  template <class T>
  T take() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view take_line() {
    const auto end = bytes_.substr(at_, longest_python_name).find('\n');
    check(end != std::string_view::npos || bytes_.size() - at_ < longest_python_name,
          "its pickle has a name of more than ", longest_python_name, " bytes: it is damaged");
    const auto line = take(end == std::string_view::npos ? longest_python_name : end);
    take(1);
    return line;
  }

  Id make(Kind kind) {
    check(pickle_.values.size() < most_values_, "its pickle holds more than ", most_values_,
          " values, more than a state dict of its size needs");
    pickle_.values.emplace_back().kind = kind;
    return static_cast<Id>(pickle_.values.size() - 1);
  }
  Id make(Kind kind, std::vector<Id> items) {
    const Id id = make(kind);
    pickle_.values[id].items = std::move(items);
    return id;
  }
  void push_integer(std::int64_t integer) {
    stack_.push_back(make(Kind::integer));
    pickle_.values.back().integer = integer;
  }
  void push_text(Kind kind, std::string_view text) {
    stack_.push_back(make(kind));
    pickle_.values.back().text = text;
  }

  // Values below the last mark may be popped only after the mark itself.
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  Id top() const {
    check(stack_.size() > floor(), "its pickle pops more than it has pushed: it is damaged");
    return stack_.back();
  }
  Id pop() {
    const Id id = top();
    stack_.pop_back();
    return id;
  }
  Id pop(Kind kind, const char* what) {
    const Id id = pop();
    check(pickle_.values[id].kind == kind, "its pickle has another value instead of ", what, ": it is damaged");
    return id;
  }
  std::vector<Id> pop_to_mark() {
    check(!marks_.empty(), "its pickle pops a mark that it has not set: it is damaged");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Id> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }
  std::vector<Id> pop_last(std::size_t count) {
    std::vector<Id> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    return items;
  }

  void add_to(Kind kind, const std::vector<Id>& items) {
    auto& target = pickle_.values[top()];
    check(target.kind == kind || (kind == Kind::dict && target.kind == Kind::opaque),
          "its pickle adds items to a value that can't hold them: it is damaged");
    check(kind != Kind::dict || items.size() % 2 == 0, "its pickle has a key without a value: it is damaged");
    if (target.kind == kind) target.items.insert(target.items.end(), items.begin(), items.end());
  }

  void memorize(std::uint32_t key) {
    memo_[key] = top();
    check(memo_.size() <= most_values_, "its pickle remembers more than ", most_values_, " values: it is malicious");
  }
  void recall(std::uint32_t key) {
    const auto found = memo_.find(key);
    check(found != memo_.end(), "its pickle reads value ", key, " of its memo, which is not set: it is damaged");
    stack_.push_back(found->second);
  }

  void push_global(std::string_view module, std::string_view name) {
    // A few bytes can request a name from the memo again and again.
    check(module.size() <= longest_python_name && name.size() <= longest_python_name,
          "its pickle has a name of more than ", longest_python_name, " bytes: it is damaged");
    // Python 2 has another name for the module "builtins".
    const std::string full = std::string(module == "__builtin__" ? "builtins" : module) + "." + std::string(name);
    check(role_of(full).has_value(), "refused the pickle global ", shown(full),
          ": only plain tensors and the types of state dicts are read, and nothing is ever executed. In Python, save "
          "model.state_dict() alone, with plain tensors in it");
    push_text(Kind::global, full);
  }

  void push_persistent() {
    const Id id = pop(Kind::tuple, "a storage's description");
    stack_.push_back(make(Kind::storage, pickle_.values[id].items));
    copied(pickle_.values[id].items.size());
  }
  void copied(std::size_t items) {
    copied_ += items;
    check(copied_ <= most_values_, "its pickle copies more than ", most_values_, " values: it is malicious");
  }

  // Calls the function below the arguments on the stack, and pushes the result.
  void call() {
    const Id arguments = pop(Kind::tuple, "a call's arguments");
    call(pop(Kind::global, "the name of a function"), arguments);
  }
  void call(Id function, Id arguments) {
    const std::string name = pickle_.values[function].text;
    const auto& all = pickle_.values[arguments].items;
    const std::vector<Id> given(all.begin(), all.begin() + std::min<std::ptrdiff_t>(8, std::ssize(all)));
    const auto has = [&](std::size_t i, Kind kind) {
      return given.size() > i && pickle_.values[given[i]].kind == kind;
    };
    bool fits = false;
    const auto result_if = [&](bool arguments_fit, auto make_result) {
      if ((fits = arguments_fit)) stack_.push_back(make_result());
    };
    const auto role = *role_of(name);
    switch (role) {
      case Role::name: break;
      case Role::dict:
        result_if(given.empty() || has(0, Kind::dict) || has(0, Kind::list), [&] { return make_dict(given); });
        break;
      case Role::set: result_if(given.empty() || has(0, Kind::list), [&] { return make(Kind::set); }); break;
      case Role::tensor:
      case Role::tensor_with_dtype: {
        // The strides are followed by requires_grad, the hooks, in one variant the dtype, and optionally the metadata.
        const bool has_dtype = role == Role::tensor_with_dtype;
        const auto optional = [&](std::size_t i) { return i < given.size() ? given[i] : none_; };
        result_if(has(0, Kind::storage) && has(1, Kind::integer) && has(2, Kind::tuple) && has(3, Kind::tuple) &&
                      (!has_dtype || has(6, Kind::global)),
                  [&] {
                    return make(Kind::tensor, {given[0], given[1], given[2], given[3], has_dtype ? given[6] : none_,
                                               optional(has_dtype ? 7 : 6)});
                  });
        break;
      }
      case Role::typed_tensor:
        // The arguments are a function, the type, and the arguments of that function.
        fits = has(0, Kind::global) && has(2, Kind::tuple) && role_of(pickle_.values[given[0]].text) != role;
        if (fits) call(given[0], given[2]);
        break;
      case Role::sparse_tensor:
        result_if(has(0, Kind::text), [&] {
          return make_unreadable("is sparse (" + shown(pickle_.values[given[0]].text) +
                                 "), which is not supported: in Python, save its to_dense() instead");
        });
        break;
      case Role::meta_tensor:
        result_if(true, [&] {
          return make_unreadable(
              "is on the device meta, so the file does not contain its numbers: in Python, save it "
              "from a model whose tensors are on another device");
        });
        break;
      case Role::tensor_class:
        result_if(true, [&] {
          return make_unreadable(
              "is in the format of PyTorch before 0.2, which is not supported: save it again with a newer version");
        });
        break;
      case Role::argument:
        result_if(has(0, Kind::tensor) || has(0, Kind::unreadable_tensor) || has(0, Kind::tuple) || has(0, Kind::text),
                  [&] { return given[0]; });
        break;
      case Role::opaque: result_if(true, [&] { return make(Kind::opaque); }); break;
    }
    check(fits, "its pickle calls ", name, " with arguments that it does not accept: it is damaged or malicious");
  }
  Id make_unreadable(std::string reason) {
    const Id id = make(Kind::unreadable_tensor);
    pickle_.values[id].text = std::move(reason);
    return id;
  }

  // Creates an OrderedDict: an empty dict, a copy of another dict or, in files of Python 2, a dict from a list of
  // pairs.
  Id make_dict(const std::vector<Id>& given) {
    std::vector<Id> items;
    if (!given.empty()) {
      const auto& source = pickle_.values[given[0]];
      copied(source.items.size());
      if (source.kind == Kind::dict) items = source.items;
      else {
        for (const Id pair : source.items) {
          const auto& value = pickle_.values[pair];
          check((value.kind == Kind::tuple || value.kind == Kind::list) && value.items.size() == 2,
                "its pickle makes a dict of items that are not pairs: it is damaged");
          items.insert(items.end(), value.items.begin(), value.items.end());
        }
      }
    }
    return make(Kind::dict, std::move(items));
  }

  void push_long(std::string_view bytes) {
    if (bytes.size() > 8) return push_text(Kind::opaque, bytes);
    // The bytes are a two's complement number. The last byte contains the sign.
    std::uint64_t value = !bytes.empty() && bytes.back() < 0 ? ~std::uint64_t{0} : 0;
    std::memcpy(&value, bytes.data(), bytes.size());
    push_integer(static_cast<std::int64_t>(value));
  }
  double take_real() {
    auto bits = take<std::uint64_t>();  // the only big-endian number
    return std::bit_cast<double>(__builtin_bswap64(bits));
  }

  bool step(std::uint8_t opcode);
};

// Executes one opcode. Returns true at the end of the pickle.
bool Unpickler::step(std::uint8_t opcode) {
  switch (opcode) {
    case 0x80: {  // PROTO
      const int version = take<std::uint8_t>();
      check(version >= 2 && version <= 5, "its pickle is of protocol ", version, ", expected 2 to 5");
      break;
    }
    case 0x95: take<std::uint64_t>(); break;  // FRAME: the size of the following opcodes, which is not needed
    case '.': return true;
    case 'c': {
      const auto module = take_line();
      push_global(module, take_line());
      break;
    }
    case 0x93: {  // STACK_GLOBAL
      const Id name = pop(Kind::text, "a name"), module = pop(Kind::text, "a module's name");
      push_global(pickle_.values[module].text, pickle_.values[name].text);
      break;
    }

    case 'N': stack_.push_back(none_); break;
    case 0x88: stack_.push_back(booleans_[1]); break;
    case 0x89: stack_.push_back(booleans_[0]); break;
    case 'J': push_integer(take<std::int32_t>()); break;
    case 'K': push_integer(take<std::uint8_t>()); break;
    case 'M': push_integer(take<std::uint16_t>()); break;
    case 0x8a: push_long(take(take<std::uint8_t>())); break;
    case 0x8b: push_long(take(take<std::uint32_t>())); break;  // LONG4
    case 'G': {
      const double real = take_real();
      stack_.push_back(make(Kind::real));
      pickle_.values.back().real = real;
      break;
    }
    case 'X': push_text(Kind::text, take(take<std::uint32_t>())); break;
    case 0x8d: push_text(Kind::text, take(take<std::uint64_t>())); break;  // BINUNICODE8
    case 0x8c: push_text(Kind::text, take(take<std::uint8_t>())); break;   // SHORT_BINUNICODE
    case 'U': push_text(Kind::text, take(take<std::uint8_t>())); break;    // SHORT_BINSTRING, of Python 2

    case 'B': take(take<std::uint32_t>()), stack_.push_back(make(Kind::opaque)); break;   // BINBYTES
    case 'C': take(take<std::uint8_t>()), stack_.push_back(make(Kind::opaque)); break;    // SHORT_BINBYTES
    case 0x8e:                                                                            // BINBYTES8
    case 0x96: take(take<std::uint64_t>()), stack_.push_back(make(Kind::opaque)); break;  // BYTEARRAY8

    case '(': marks_.push_back(stack_.size()); break;
    case ')': stack_.push_back(empty_tuple_); break;
    case ']': stack_.push_back(make(Kind::list)); break;
    case '}': stack_.push_back(make(Kind::dict)); break;
    case 0x8f: stack_.push_back(make(Kind::set)); break;
    case 't': {
      auto items = pop_to_mark();
      stack_.push_back(make(Kind::tuple, std::move(items)));
      break;
    }
    case 0x85:
    case 0x86:
    case 0x87: stack_.push_back(make(Kind::tuple, pop_last(opcode - 0x84u))); break;
    case 'a': add_to(Kind::list, pop_last(1)); break;
    case 'e': add_to(Kind::list, pop_to_mark()); break;
    case 's': add_to(Kind::dict, pop_last(2)); break;
    case 'u': add_to(Kind::dict, pop_to_mark()); break;
    case 0x90: add_to(Kind::set, pop_to_mark()); break;
    case 0x91: stack_.push_back(make(Kind::set, pop_to_mark())); break;  // FROZENSET
    case '0': pop(); break;

    case 'q': memorize(take<std::uint8_t>()); break;
    case 'r': memorize(take<std::uint32_t>()); break;
    case 0x94: memorize(static_cast<std::uint32_t>(memo_.size())); break;
    case 'h': recall(take<std::uint8_t>()); break;
    case 'j': recall(take<std::uint32_t>()); break;

    case 'Q': push_persistent(); break;
    case 'R':
    case 0x81: call(); break;  // REDUCE, NEWOBJ: equivalent for all known globals
    case 'b':                  // BUILD: attributes, such as a state dict's _metadata; they are ignored
      pop();
      top();
      break;
    default:
      check(false, "its pickle has the opcode ", int{opcode}, " at byte ", at_ - 1,
            ", which state dicts never contain: it is damaged or malicious");
  }
  return false;
}

}  // namespace

Pickle unpickle(std::string_view bytes, std::size_t most_values, const std::string& label) {
  return Unpickler(bytes, most_values, label).run();
}

}  // namespace tandem
