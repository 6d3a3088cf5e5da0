#include "work_log.h"
#include "streams.h"

#include <cxxabi.h>
#include <elf.h>
#include <execinfo.h>
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <regex>
#include <vector>

namespace emulation {
namespace {

std::mutex mutex;                         // guards the variables below
std::vector<std::string>* log = nullptr;  // null: calls are not recorded

// Returns the functions of this program by address, from its symbol table. dladdr() does not know functions in unnamed
// namespaces.
std::map<std::uintptr_t, std::string> read_symbols() {
  std::uintptr_t base = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        *static_cast<std::uintptr_t*>(to) = info->dlpi_addr;
        return 1;  // the program itself comes first
      },
      &base);
  std::ifstream in("/proc/self/exe", std::ios::binary);
  const std::vector<char> file((std::istreambuf_iterator<char>(in)), {});
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(file.data());
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(file.data() + header->e_shoff);
  std::map<std::uintptr_t, std::string> names;
  for (int i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const auto* symbols = reinterpret_cast<const Elf64_Sym*>(file.data() + sections[i].sh_offset);
    const char* texts = file.data() + sections[sections[i].sh_link].sh_offset;
    for (std::size_t s = 0; s < sections[i].sh_size / sizeof(Elf64_Sym); ++s)
      if (ELF64_ST_TYPE(symbols[s].st_info) == STT_FUNC) names[base + symbols[s].st_value] = texts + symbols[s].st_name;
  }
  return names;
}

// Returns the position after the bracket that closes the one at `begin`.
std::size_t end_of_brackets(const std::string& text, std::size_t begin) {
  int depth = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '(' || text[i] == '<') ++depth;
    if ((text[i] == ')' || text[i] == '>') && --depth == 0) return i + 1;
  }
  return text.size();
}

// Returns "f<int>" for "decltype(g()) f<int>(long)".
std::string without_result_and_parameters(std::string name) {
  if (name.starts_with("decltype")) name.erase(0, end_of_brackets(name, name.find('(')) + 1);
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') i = end_of_brackets(name, i) - 1;
    else if (name[i] == '(') return name.substr(0, i);
  }
  return name;
}

// Returns the name of the function that contains `address`, without namespaces and parameters.
std::string function_at(const void* address) {
  static const auto* symbols = new auto(read_symbols());
  auto found = symbols->upper_bound(reinterpret_cast<std::uintptr_t>(address));
  if (found == symbols->begin()) return "?";
  --found;
  const std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(found->second.c_str(), nullptr, nullptr, nullptr), std::free);
  static const std::regex left_out(R"(\(anonymous namespace\)::|tandem::|cuda::|functors::|^void |^auto )");
  return without_result_and_parameters(std::regex_replace(plain ? plain.get() : found->second, left_out, ""));
}

// Whether this function stands between a kernel and the function that launches it.
bool is_launcher(const std::string& name) { return name.starts_with("launch<") || name.starts_with("emulation::"); }

}  // namespace

void note_work_in(std::vector<std::string>* to) {
  const std::lock_guard lock(mutex);
  log = to;
}

void note_work(cudaStream_t stream, const std::string& what) {
  const std::lock_guard lock(mutex);
  if (log && is_captured(stream)) log->push_back(what);
}

void note_kernel(cudaStream_t stream) {
  {
    const std::lock_guard lock(mutex);
    if (!log) return;
  }
  void* callers[16];
  const int depth = backtrace(callers, 16);
  std::string name;
  for (int i = 1; i < depth && (name.empty() || is_launcher(name)); ++i) name = function_at(callers[i]);
  note_work(stream, "kernel of " + name);
}

}  // namespace emulation
