// LaunchOptionGroup: options of tandemrun that an annex adds to the launcher's own.
#pragma once

#include <tandem/distributed/launch/launch_options.h>
#include <tandem/distributed/system/annexes.h>

#include <functional>
#include <limits>
#include <memory>
#include <string>

namespace CLI {
class App;
}

namespace tandem::distributed {

class LaunchOptionGroup {
 public:
  virtual ~LaunchOptionGroup() = default;
  // Sets in `options`, which has the launcher's own by then, what the group's options say. An Error names the option,
  // what was given and what is allowed.
  virtual void understand(LaunchOptions& options) const = 0;
};

// Declares the group's options in `app`, which outlives the group.
using MakeLaunchOptionGroup = std::function<std::unique_ptr<LaunchOptionGroup>(CLI::App& app)>;
AnnexList<MakeLaunchOptionGroup>& launch_option_groups();

// The number that `text` writes in at most five digits; -1 if `text` is anything else.
int small_number(const std::string& text);
// These two throw an Error that names `option` if `text` is no number or not in the range.
int parse_whole(const std::string& option, const std::string& text, int most = std::numeric_limits<int>::max());
LaunchOptions::Duration parse_seconds(const std::string& option, const std::string& text, double least, double most);

}  // namespace tandem::distributed
