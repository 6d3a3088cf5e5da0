// LaunchOptionGroup: options of tandemrun that an annex adds to the launcher's own.
#pragma once

#include <tandem/core/base/number_in.h>
#include <tandem/distributed/launch/launch_options.h>
#include <tandem/distributed/system/annexes.h>

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace tandem::distributed {

class LaunchOptionGroup {
 public:
  virtual ~LaunchOptionGroup() = default;
  // Stores the values of the group's options in `options`, which already has the launcher's own. Throws an Error that
  // names the option, its value and the allowed values.
  virtual void understand(LaunchOptions& options) const = 0;
};

// Declares the group's options in `app`, which outlives the group.
using MakeLaunchOptionGroup = std::function<std::unique_ptr<LaunchOptionGroup>(CLI::App& app)>;
inline constinit AnnexList<MakeLaunchOptionGroup> launch_option_groups{add_distributed_annexes};

// Returns the number in `text`, from 0 to 99999, or -1 for any other text.
inline int small_number(std::string_view text) { return number_in(text, 0, 99999).value_or(-1); }
// These two throw an Error that names `option` if `text` is not a number or not in the range.
int parse_whole(const std::string& option, const std::string& text, int most = std::numeric_limits<int>::max());
LaunchOptions::Duration parse_seconds(const std::string& option, const std::string& text, double least, double most);

}  // namespace tandem::distributed
