// VocSegmentation: the images and masks of the PASCAL VOC challenges. http://host.robots.ox.ac.uk/pascal/VOC/
#pragma once

#include <tandem/data/segmentation/segmentation.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tandem::data {

// The dataset in the layout of the official archives and of torchvision. The folder VOCdevkit/VOC2012 (for 2011:
// TrainVal/VOCdevkit/VOC2011) lies below `root`. It holds ImageSets/Segmentation/train.txt, JPEGImages/NAME.jpg and
// SegmentationClass/NAME.png.
class VocSegmentation : public SegmentationFiles {
 public:
  // `year` is "2007" to "2012". `image_set` is "train", "val" or "trainval", and for 2007 also "test". The year
  // "2007-test" means the image set "test" of 2007, and `image_set` is then ignored. A user's own list
  // ImageSets/Segmentation/NAME.txt is the image set NAME. Each line of a list has a name, or the paths of an image and
  // its mask below VOC2012 ("/JPEGImages/a.jpg /SegmentationClassAug/a.png"); "#" begins a comment. The text is UTF-8,
  // with or without a byte order mark. Throws an Error if the year is unknown, if a folder or list is missing (the
  // Error says what is missing and how to get it), if the list is empty, or if a name in it has no image or no mask.
  VocSegmentation(const std::filesystem::path& root, const std::string& year = "2012",
                  const std::string& image_set = "train", Damaged damaged = Damaged::error);

  // The possible values of `year`, newest last.
  static const std::vector<std::string>& years();
  // The names of the 21 classes: background, aeroplane, ..., tvmonitor.
  static const std::vector<std::string>& class_names();
};

struct VocSource {
  // Mirrors of http://host.robots.ox.ac.uk/pascal/VOC/, tried in order. Empty: the official site.
  std::vector<std::string> mirrors = {};
  std::string md5 = {};                                 // MD5 of the archive; empty: MD5 of the official archive
  std::function<void(const std::string&)> report = {};  // gets progress lines; may be empty
};

// Throws an Error if `root` is VOCdevkit or a folder in it, judged by name or content. The Error names the correct
// folder. Throws an Error too if `root` has other files and no part of the data set.
void check_voc_root(const std::filesystem::path& root, const std::string& year = "2012");

// Ensures that `root` holds every image and mask of the list. If not, downloads the official archive of the year (2012:
// 2 GB) into `root` and unpacks it. A download that an earlier call started is resumed. The archive is kept. If there
// is a folder of the year but no archive, nothing is downloaded, and VocSegmentation then reports what is missing. If
// several processes run on one host, one of them should call this function first. Throws check_voc_root()'s Error
// before any download, and a DownloadError if the archive can't be downloaded.
void download_voc(const std::filesystem::path& root, const std::string& year = "2012",
                  const std::string& image_set = "train", const VocSource& source = {});

}  // namespace tandem::data
