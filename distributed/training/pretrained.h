// Weights for a model of nn/models, from wherever a user says they are.
#pragma once

#include <tandem/distributed/groups/process_group.h>
#include <tandem/nn/models/weights.h>

#include <functional>
#include <string>

namespace tandem::distributed {

// Error, with the names there are, unless `weights` is something that find_weights() can look for: an existing file, a
// name, or a URL with a checksum. Asks nobody.
void check_weights(const std::string& weights);

// A file for `weights`, on this host: an existing file as it is; a URL, or the URL behind one of
// nn::models::weights_names(), downloaded into the user's cache folder by one process of each host and kept there. The
// name of what is downloaded must end in
// "-XXXXXXXX.pth" (or .safetensors), the beginning of its SHA-256, which is checked. Collective. Error, with the names
// there are, for anything else.
std::string find_weights(ProcessGroup& group, const std::string& weights,
                         const std::function<void(const std::string&)>& report);

}  // namespace tandem::distributed
