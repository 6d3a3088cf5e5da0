// Finds weights for a model of nn/models, from a file, by name or from a URL.
#pragma once

#include <tandem/distributed/groups/process_group.h>
#include <tandem/nn/models/weights.h>

#include <functional>
#include <string>

namespace tandem::distributed {

// Throws an Error that lists the known names unless find_weights() can find `weights`: an existing file, one of
// nn::models::weights_names(), or a URL with a checksum in its file name. It does not use the network or other ranks.
void check_weights(const std::string& weights);

// Returns the path of a file with `weights` on this host. An existing file is used directly. For a URL, or for one of
// nn::models::weights_names(), one process of each host downloads the file into the user's cache folder. The name of a
// downloaded file must end in "-XXXXXXXX.pth" (or .pt, .safetensors), where the X are the first 8 or more digits of its
// SHA-256, which the function checks. `report` gets lines about the download. Collective. Throws an Error in the same
// cases as check_weights(), and if the download fails.
std::string find_weights(ProcessGroup& group, const std::string& weights,
                         const std::function<void(const std::string&)>& report);

}  // namespace tandem::distributed
