// The option --elastic: a rank that fails does not end the others.
#include <tandem/core/base/check.h>
#include <tandem/distributed/launch/launch_option_group.h>

#include <CLI/CLI.hpp>

namespace tandem::distributed {
namespace {

class ElasticOption final : public LaunchOptionGroup {
 public:
  explicit ElasticOption(CLI::App& app) {
    app.option_defaults()->group("Stopping");
    app.add_flag("--elastic", is_elastic_,
                 "when a rank fails, the others continue, and it restarts alone, up to --max-restarts times; for "
                 "programs that train with ElasticTraining, on one host");
  }
  void understand(LaunchOptions& options) const override {
    if (!is_elastic_) return;
    TANDEM_CHECK(options.max_nodes == 1, "--elastic: an elastic job runs on one host, but --nnodes gives ",
                 options.max_nodes);
    options.elastic_restarts = options.max_restarts;
    options.max_restarts = 0;
  }

 private:
  bool is_elastic_ = false;
};

}  // namespace
}  // namespace tandem::distributed

namespace tandem {

void add_elastic_option() {
  using namespace distributed;
  launch_option_groups.add([](CLI::App& app) { return std::make_unique<ElasticOption>(app); });
}

}  // namespace tandem
