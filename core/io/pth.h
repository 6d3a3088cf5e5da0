// .pth: the files of torch.save and torch.load. Two forms are read, the zip archive of PyTorch since 1.6 and the
// pickles one after the other of before; the zip archive is written. Nothing in a file is ever executed (unpickler.h).
#pragma once

#include <tandem/core/array/named_array.h>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace tandem {

// The tensors of a state dict, in its order, on the host. Of a checkpoint, a dict of dicts, `key` names the one to
// read; where it is empty and the top level holds no tensor itself, "model", "state_dict", "model_state_dict" or
// "MODEL_STATE" is taken. Deeper levels, lists and tuples join their names with dots ("state.0.momentum_buffer"); what
// is no tensor is left out. A single tensor has an empty name. Arrays are views as the tensors were: those that shared
// a storage share one, with their strides and offsets. int8 and int16 become i32. An Error names the file and what is
// wrong, before memory for it is taken: anything but a state dict's few opcodes and globals ("refused global
// os.system"), sizes that do not fit the file, entries that overlap, wrong checksums.
std::vector<NamedArray> read_pth(const std::filesystem::path& path, const std::string& key = "");

// As a state dict (OrderedDict) that torch.load(weights_only=True) opens, with AtomicFile. The same arrays give the
// same bytes. Arrays are written row-major; those that are the same view of the same storage are written once. Names
// must be unique and valid UTF-8.
void write_pth(const std::filesystem::path& path, std::span<const NamedArray> arrays);

}  // namespace tandem
