// .pth: the files of torch.save and torch.load. Two forms can be read: the zip archive that PyTorch writes since
// version 1.6, and the older form, pickles one after the other. The zip archive is what is written. Nothing in a file
// is ever executed (unpickler.h).
#pragma once

#include <tandem/core/array/named_array.h>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace tandem {

// Reads the tensors of a state dict, in its order, into host memory.
//
// A checkpoint is a dict of dicts, of which `key` names the one to read, as a path with dots. When `key` is empty, the
// entry "model", "state_dict", "model_state_dict" or "MODEL_STATE" that holds tensors is taken, whatever lies beside
// it. Where several of them do, or none does but a dict of another name, an Error lists them. The key "." stands for
// everything. The names of deeper levels, lists and tuples are joined with dots ("state.0.momentum_buffer"). Values
// that are no tensors are left out. A single tensor has an empty name.
//
// Arrays are views as the tensors were: those that shared a storage share one here, with their strides and offsets.
// int8 and int16 become i32. A tensor that is a negated view of its storage has the negated numbers.
//
// Only the tensors that are wanted must be readable. Of what torch.load(weights_only=True) reads, an Error names the
// tensor that is not: one of a complex, quantised or 8-bit floating dtype, sparse, or on the device meta.
//
// An Error names the file and what is wrong, before memory for it is taken: anything but a state dict's few opcodes and
// globals ("refused global os.system"), sizes that do not fit the file, entries that overlap, wrong checksums.
std::vector<NamedArray> read_pth(const std::filesystem::path& path, const std::string& key = "");

// Writes the arrays as a state dict (OrderedDict) that torch.load(weights_only=True) opens, with AtomicFile. The same
// arrays always give the same bytes. Arrays are written row-major, and those that are the same view of the same storage
// are written once. Names must be unique and valid UTF-8.
void write_pth(const std::filesystem::path& path, std::span<const NamedArray> arrays);

}  // namespace tandem
