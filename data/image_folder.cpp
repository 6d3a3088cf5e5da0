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

// Follows links to folders, as torchvision does.
std::vector<fs::path> images_below(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error, ignored;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::follow_directory_symlink, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const fs::path& path = entry->path();
    if (entry->is_symlink(ignored) && entry->is_directory(ignored)) {
      const auto inside = fs::relative(path.parent_path(), path, ignored);
      TANDEM_CHECK(ignored || inside.empty() || *inside.begin() == "..", "image folder: ", path.string(),
                   " is a link to a folder that contains it, so its images would be found again and again: remove it");
    } else if (entry->is_regular_file(ignored) && is_image(path)) {
      paths.push_back(path);
    }
  }
  TANDEM_CHECK(!error, "image folder ", folder.string(), " cannot be read: ", error.message());
  return paths;
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
    std::vector<fs::path> paths = images_below(folder / classes_[label]);
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
