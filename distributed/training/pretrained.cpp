#include <tandem/data/cache_folder.h>
#include <tandem/data/download/download.h>
#include <tandem/distributed/job/together.h>
#include <tandem/distributed/training/pretrained.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <regex>

namespace tandem::distributed {

namespace {

namespace fs = std::filesystem;

// Returns the URL for the download. Empty if `weights` is neither a URL nor a known name, so it must be a file.
std::string url_of(const std::string& weights) {
  return weights.find("://") != std::string::npos ? weights : nn::models::weights_url(weights);
}

std::string file_name_of(const std::string& url) { return url.substr(url.rfind('/') + 1); }

data::Checksum checksum_of(const std::string& url) {
  std::smatch parts;
  const std::string file = file_name_of(url);
  TANDEM_CHECK(std::regex_match(file, parts, std::regex(R"(.*-([0-9a-f]{8,64})\.(pth|pt|safetensors))")),
               "can't check a download from ", url,
               ": the name of a file of weights must end in a hyphen, 8 or more digits of its "
               "SHA-256 and .pth or .safetensors. Download it by hand and give the file");
  return data::Checksum::sha256(parts[1]);
}

}  // namespace

void check_weights(const std::string& weights) {
  if (const auto url = url_of(weights); !url.empty()) checksum_of(url);
  else
    TANDEM_CHECK(fs::is_regular_file(weights), "there are no weights '", weights, "': give a file, a URL or one of ",
                 fmt::format("{}", fmt::join(nn::models::weights_names(), ", ")));
}

std::string find_weights(ProcessGroup& group, const std::string& weights,
                         const std::function<void(const std::string&)>& report) {
  const auto find = [&]() -> std::string {
    check_weights(weights);
    const auto url = url_of(weights);
    if (url.empty()) return weights;
    const fs::path path = data::cache_folder("weights") / file_name_of(url);
    data::DownloadOptions options;
    options.report = report;
    data::download({url}, path, checksum_of(url), options);
    return path.string();
  };
  return once_per_host(group, find, download_work);
}

}  // namespace tandem::distributed
