// .pth: the files of torch.save and torch.load. Two formats can be read: the zip archive that PyTorch writes since
// version 1.6, and the older format, a sequence of pickles. Files are written as zip archives. Nothing in a file is
// ever executed (unpickler.h).
#pragma once

#include <tandem/core/array/named_array.h>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace tandem {

// Reads the tensors of a state dict, in its order, into host memory.
//
// A checkpoint is a dict of dicts, and `key` names the one to read, as a dotted path. If `key` is empty, the entry
// "model", "state_dict", "model_state_dict" or "MODEL_STATE" that contains tensors is read, and all other entries are
// ignored. If several of these entries contain tensors, or only dicts with other names do, an Error lists the
// candidates. The key "." stands for everything. The names of deeper levels, lists and tuples are joined with dots
// ("state.0.momentum_buffer"). Values other than tensors are left out. A single tensor has an empty name.
//
// Arrays are views like the tensors were: tensors that shared a storage become arrays that share one, with their
// strides and offsets. int8 and int16 become i32. If a tensor is a negated view of its storage, the array has the
// negated numbers.
//
// Only the requested tensors need to be readable. Some tensors that torch.load(weights_only=True) reads are not
// supported here: those with a complex, quantised or 8-bit floating dtype, sparse tensors, and tensors on the device
// meta. An Error names such a tensor.
//
// The reader checks a file before it allocates memory for its contents. An Error names the file and the problem:
// opcodes and globals other than the few of state dicts ("refused the pickle global os.system"), sizes that do not fit
// the file, overlapping entries, wrong checksums.
std::vector<NamedArray> read_pth(const std::filesystem::path& path, const std::string& key = "");

// Writes the arrays with AtomicFile as a state dict (OrderedDict) that torch.load(weights_only=True) opens. The same
// arrays always produce the same bytes. Arrays are written row-major. Arrays that are the same view of the same storage
// are written once. Names must be unique and valid UTF-8.
void write_pth(const std::filesystem::path& path, std::span<const NamedArray> arrays);

}  // namespace tandem
