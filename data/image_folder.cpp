#include <tandem/data/image_folder.h>

#include <tandem/data/images/image.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <system_error>

namespace tandem::data {

namespace {

namespace fs = std::filesystem;

bool is_image(const fs::path& path) {
  static constexpr std::array extensions{".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm"};
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::find(extensions.begin(), extensions.end(), extension) != extensions.end();
}

}  // namespace

ImageFolder::ImageFolder(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.is_directory()) classes_.push_back(entry.path().filename().string());
  TANDEM_CHECK(!error, "image folder ", folder.string(), " cannot be read: ", error.message());
  TANDEM_CHECK(!classes_.empty(), "image folder ", folder.string(),
               " contains no folders; it must contain one for each class, with the images of that class");
  std::sort(classes_.begin(), classes_.end());
  for (std::size_t label = 0; label < classes_.size(); ++label) {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::recursive_directory_iterator(folder / classes_[label]))
      if (entry.is_regular_file() && is_image(entry.path())) paths.push_back(entry.path());
    TANDEM_CHECK(!paths.empty(), "image folder ", folder.string(), ": the class ", classes_[label], " has no image");
    std::sort(paths.begin(), paths.end());
    for (fs::path& path : paths) files_.push_back({std::move(path), static_cast<std::int64_t>(label)});
  }
}

const ImageFolder::File& ImageFolder::at(std::int64_t index) const {
  check_number(index);
  return files_[static_cast<std::size_t>(index)];
}

Sample ImageFolder::sample(std::int64_t index) const {
  const File& file = at(index);
  return {read_image(file.path), Array::from(std::vector<std::int64_t>{file.label}, {})};
}

}  // namespace tandem::data
