#include <tandem/data/download.h>
#include <tandem/distributed/pretrained.h>
#include <tandem/distributed/together.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <regex>

namespace tandem::distributed {

namespace {

namespace fs = std::filesystem;

fs::path download_weights(const std::string& url, const std::function<void(const std::string&)>& report) {
  const std::string file = url.substr(url.rfind('/') + 1);
  std::smatch parts;
  TANDEM_CHECK(std::regex_match(file, parts, std::regex(R"(.*-([0-9a-f]{8,64})\.(pth|pt|safetensors))")),
               "can't check what ", url,
               " would give: the name of a file of weights must end in a hyphen, 8 or more digits of its "
               "SHA-256 and .pth or .safetensors. Download it by hand and give the file");
  const fs::path path = data::cache_folder("weights") / file;
  data::DownloadOptions options;
  options.report = report;
  data::download({url}, path, data::Checksum::sha256(parts[1]), options);
  return path;
}

}  // namespace

std::string find_weights(ProcessGroup& group, const std::string& weights,
                         const std::function<void(const std::string&)>& report) {
  return once_per_host(group, [&]() -> std::string {
    if (weights.find("://") != std::string::npos) return download_weights(weights, report).string();
    if (const auto url = nn::models::weights_url(weights); !url.empty())
      return download_weights(url, report).string();
    TANDEM_CHECK(fs::is_regular_file(weights), "there are no weights '", weights,
                 "': give a file, a URL or one of ",
                 fmt::format("{}", fmt::join(nn::models::weights_names(), ", ")));
    return weights;
  });
}

}  // namespace tandem::distributed
