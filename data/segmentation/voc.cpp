#include <tandem/data/segmentation/voc.h>

#include <tandem/core/io/file_system.h>
#include <tandem/core/io/input_file.h>
#include <tandem/data/download/archive.h>
#include <tandem/data/download/download.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <system_error>
#include <utility>

namespace tandem::data {

namespace {

namespace fs = std::filesystem;

struct Release {
  const char* year;
  const char* path;  // the path of the archive on the site
  const char* md5;
  const char* base;  // the folder that the archive creates
};

// The releases, newest last.
constexpr std::array releases{
    Release{"2007", "voc2007/VOCtrainval_06-Nov-2007.tar", "c52e279531787c972589f7e41ab4ae64", "VOCdevkit/VOC2007"},
    Release{"2007-test", "voc2007/VOCtest_06-Nov-2007.tar", "b6e924de25625d8de591ea690078ad9f", "VOCdevkit/VOC2007"},
    Release{"2008", "voc2008/VOCtrainval_14-Jul-2008.tar", "2629fa636546599198acfcfbfcf1904a", "VOCdevkit/VOC2008"},
    Release{"2009", "voc2009/VOCtrainval_11-May-2009.tar", "a3e00b113cfcfebf17e343f59da3caa1", "VOCdevkit/VOC2009"},
    Release{"2010", "voc2010/VOCtrainval_03-May-2010.tar", "da459979d0c395079b5c75ee67908abb", "VOCdevkit/VOC2010"},
    Release{"2011", "voc2011/VOCtrainval_25-May-2011.tar", "6c3384ef61512963050cb5d687e5bf1e",
            "TrainVal/VOCdevkit/VOC2011"},
    Release{"2012", "voc2012/VOCtrainval_11-May-2012.tar", "6cd6e144f989b92b3379bac3b3de84fd", "VOCdevkit/VOC2012"}};

const Release& release_of(const std::string& year, const std::string& image_set) {
  const std::string wanted = year == "2007" && image_set == "test" ? "2007-test" : year;
  const auto found = std::ranges::find(releases, wanted, &Release::year);
  TANDEM_CHECK(found != releases.end(), "PASCAL VOC: there is no year ", year,
               " with masks, expected 2007 to 2012, or 2007-test");
  return *found;
}

std::string set_of(const Release& release, const std::string& image_set) {
  return std::string(release.year) == "2007-test" ? "test" : image_set;
}

fs::path list_of(const fs::path& folder, const std::string& image_set) {
  return folder / "ImageSets" / "Segmentation" / (image_set + ".txt");
}

struct ListedPair {
  std::size_t line;  // line number in the list, from 1
  SegmentationPair pair;
};

// Resolves a path in a list. The file is below the folder of the year, even if the path begins with a slash.
fs::path listed_file(const fs::path& folder, const fs::path& path) {
  const fs::path below = folder / path.relative_path();
  return path.is_absolute() && !is_there(below) && is_there(path) ? path : below;
}

// Reads a list. Each line has a name, or the paths of an image and its mask. Empty lines and comments are ignored.
std::vector<ListedPair> read_list(const fs::path& folder, const std::string& image_set) {
  const fs::path path = list_of(folder, image_set);
  const InputFile file(path, "PASCAL VOC: the list");
  std::string text = file.read(file.size(), 0);
  TANDEM_CHECK(text.find('\0') == std::string::npos && !text.starts_with("\xff\xfe") && !text.starts_with("\xfe\xff"),
               "PASCAL VOC: line 1 of the list ", path.string(),
               " is text in UTF-16, as Windows' PowerShell writes it, ",
               "expected UTF-8; convert it: iconv -f UTF-16 -t UTF-8 ", path.string(), " > NEW");
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);  // a byte order mark
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\r') text[i] = text.compare(i + 1, 1, "\n") == 0 ? ' ' : '\n';
  std::vector<ListedPair> pairs;
  std::istringstream lines(text);
  std::string line;
  for (std::size_t number = 1; std::getline(lines, line); ++number) {
    std::vector<std::string> words;
    std::istringstream rest(line);
    for (std::string word; rest >> word && word[0] != '#';) words.push_back(word);
    if (words.empty()) continue;
    const bool is_pair = words.size() == 2 && std::ranges::all_of(words, [](const std::string& word) {
                           return fs::path(word).has_extension();
                         });
    TANDEM_CHECK(words.size() == 1 || is_pair, "PASCAL VOC: line ", number, " of the list ", path.string(), " is \"",
                 line, "\", expected a name alone, or the paths of a picture and its mask; to keep the first column: ",
                 "awk '{print $1}' ", path.string(), " > NEW");
    if (is_pair)
      pairs.push_back(
          {number, {fs::path(words[0]).stem().string(), listed_file(folder, words[0]), listed_file(folder, words[1])}});
    else
      pairs.push_back({number,
                       {words[0], folder / "JPEGImages" / (words[0] + ".jpg"),
                        folder / "SegmentationClass" / (words[0] + ".png")}});
  }
  return pairs;
}

// The names of the lists in a folder, for an error message.
std::string lists_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder / "ImageSets" / "Segmentation", error))
    if (entry.path().extension() == ".txt") names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

std::vector<SegmentationPair> find_pairs(const fs::path& root, const std::string& year, const std::string& image_set) {
  const Release& release = release_of(year, image_set);
  const fs::path folder = root / release.base;
  TANDEM_CHECK(is_there(folder), "PASCAL VOC ", release.year, ": there is no folder ", folder.string(), "; unpack ",
               fs::path(release.path).filename().string(), " in ", root.string());
  const fs::path list = list_of(folder, set_of(release, image_set));
  TANDEM_CHECK(is_there(list), "PASCAL VOC ", release.year, ": there is no list ", list.string(),
               "; lists there: ", lists_in(folder), ". ", fs::path(release.path).filename().string(),
               " holds the official ones");
  std::vector<SegmentationPair> pairs;
  for (auto& [line, pair] : read_list(folder, set_of(release, image_set))) {
    for (const fs::path& path : {pair.image, pair.mask})
      TANDEM_CHECK(is_there(path), "PASCAL VOC ", release.year, ": line ", line, " of ", list.string(), " names ",
                   pair.name, ", but ", path.string(), " does not exist; correct the line, or unpack ",
                   fs::path(release.path).filename().string(), " again in ", root.string());
    pairs.push_back(std::move(pair));
  }
  TANDEM_CHECK(!pairs.empty(), "PASCAL VOC ", release.year, ": the list ", list.string(),
               " is empty; expected one name per line");
  return pairs;
}

bool is_complete(const fs::path& folder, const std::string& image_set) {
  if (!is_there(list_of(folder, image_set))) return false;
  const auto pairs = read_list(folder, image_set);
  return !pairs.empty() && std::ranges::all_of(pairs, [](const ListedPair& listed) {
    return is_there(listed.pair.image) && is_there(listed.pair.mask);
  });
}

}  // namespace

VocSegmentation::VocSegmentation(const fs::path& root, const std::string& year, const std::string& image_set,
                                 Damaged damaged)
    : SegmentationFiles(find_pairs(root, year, image_set), static_cast<std::int64_t>(class_names().size()), damaged) {}

const std::vector<std::string>& VocSegmentation::years() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Release& release : releases) all.emplace_back(release.year);
    return all;
  }();
  return names;
}

const std::vector<std::string>& VocSegmentation::class_names() {
  static const std::vector<std::string> names{
      "background", "aeroplane", "bicycle",     "bird",  "boat",        "bottle", "bus",
      "car",        "cat",       "chair",       "cow",   "diningtable", "dog",    "horse",
      "motorbike",  "person",    "pottedplant", "sheep", "sofa",        "train",  "tvmonitor"};
  return names;
}

void check_voc_root(const fs::path& root, const std::string& year) {
  const fs::path base = release_of(year, "").base, year_folder = base.filename();
  if (is_there(root / base)) return;
  std::error_code error;
  const fs::path whole = (fs::weakly_canonical(fs::absolute(root), error) / "").parent_path();
  for (fs::path path = whole; path.has_relative_path(); path = path.parent_path()) {
    const bool is_year = is_there(path / "JPEGImages") || is_there(path / "ImageSets");
    const bool is_devkit = path.filename() == "VOCdevkit" || (path == whole && is_there(path / year_folder));
    if (!is_year && !is_devkit) continue;
    const fs::path devkit = is_year ? path.parent_path() : path;
    TANDEM_CHECK(devkit.filename() == "VOCdevkit", "PASCAL VOC ", year, ": ", root.string(),
                 " has the data set in another layout: expected it in ", base.string(),
                 " below the given folder; move or link it there");
    fs::path right = devkit.parent_path();
    if (right.filename() == "TrainVal") right = right.parent_path();
    detail::fail("PASCAL VOC ", year, ": ", root.string(), " is inside the data set: give the folder that contains ",
                 base.begin()->string(), " instead, ", right.string());
  }
  // A download starts only in an empty folder, or in one with parts of the data set.
  std::string other;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("VOC") || name.starts_with("TrainVal")) return;
    if (!name.starts_with('.') && name != "lost+found") other = name;
  }
  TANDEM_CHECK(other.empty(), "PASCAL VOC ", year, ": ", root.string(), " has other files (", other, "), but no ",
               base.begin()->string(), ": give the folder that contains ", base.begin()->string(),
               ", or an empty folder for the download");
}

void download_voc(const fs::path& root, const std::string& year, const std::string& image_set,
                  const VocSource& source) {
  check_voc_root(root, year);
  const Release& release = release_of(year, image_set);
  const std::string set = set_of(release, image_set);
  const fs::path folder = root / release.base;
  const fs::path archive = root / fs::path(release.path).filename();
  // Two archives of 2007 unpack into the same folder.
  const bool is_official = set == "test" || set == "train" || set == "val" || set == "trainval";
  const bool has_other_half =
      is_official && std::ranges::any_of(releases, [&](const Release& other) {
        return std::string_view(other.base) == release.base && is_there(root / fs::path(other.path).filename());
      });
  const bool is_somebodys_own =
      is_there(folder) && !is_there(archive) && !has_other_half && !is_half_unpacked(archive, root);
  const auto is_done = [&] { return !is_half_unpacked(archive, root) && is_complete(folder, set); };
  if (is_somebodys_own || is_done()) return;
  std::vector<std::string> urls;
  for (const auto& mirror : source.mirrors) urls.push_back(mirror + release.path);
  if (urls.empty()) urls.push_back(std::string("http://host.robots.ox.ac.uk/pascal/VOC/") + release.path);
  if (source.report && !is_there(archive))
    source.report(
        fmt::format("PASCAL VOC {} is not in {}: downloading {}, up to 2 GB; unpacking it needs as much again.\n"
                    "If you have the data set, stop this and give the folder that holds VOCdevkit "
                    "(voc_ddp --data FOLDER).",
                    year, root.string(), urls.front()));
  download(urls, archive, source.md5.empty() ? release.md5 : source.md5,
           {.max_bytes = std::int64_t{8} << 30, .report = source.report});
  if (source.report) source.report("unpacking " + archive.string());
  extract_archive(archive, root, is_done);
  TANDEM_CHECK(is_complete(folder, set), "PASCAL VOC: ", archive.string(), " does not contain ",
               list_of(folder, set).string(), " with every picture and mask that it names");
}

}  // namespace tandem::data
