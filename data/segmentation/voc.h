// VocSegmentation: the pictures and masks of the PASCAL VOC challenges. http://host.robots.ox.ac.uk/pascal/VOC/
#pragma once

#include <tandem/data/segmentation/segmentation.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tandem::data {

// The dataset in the layout of the official archives and of torchvision. Below `root` lies the folder VOCdevkit/VOC2012
// (for 2011: TrainVal/VOCdevkit/VOC2011). It holds ImageSets/Segmentation/train.txt, JPEGImages/NAME.jpg and
// SegmentationClass/NAME.png.
class VocSegmentation : public SegmentationFiles {
 public:
  // `year` is "2007" to "2012". `image_set` is "train", "val" or "trainval", and for 2007 also "test". The year
  // "2007-test" stands for the image set "test" of 2007, and then `image_set` is ignored. A list
  // ImageSets/Segmentation/NAME.txt of the user's own is the image set NAME. Each of its lines has a name, or the paths
  // of a picture and its mask below VOC2012 ("/JPEGImages/a.jpg /SegmentationClassAug/a.png"); "#" begins a comment.
  // The text is UTF-8, with or without a byte order mark. Error when the year is unknown, when a folder or list is
  // missing (the Error says what was looked for, and how to get it), when the list is empty, or when a name in it has
  // no picture or no mask.
  VocSegmentation(const std::filesystem::path& root, const std::string& year = "2012",
                  const std::string& image_set = "train", Damaged damaged = Damaged::error);

  // The possible values of `year`, the newest last.
  static const std::vector<std::string>& years();
  // The names of the 21 classes: background, aeroplane, ..., tvmonitor.
  static const std::vector<std::string>& class_names();
};

struct VocSource {
  // Mirrors of http://host.robots.ox.ac.uk/pascal/VOC/, tried in order. Empty: the official site.
  std::vector<std::string> mirrors = {};
  std::string md5 = {};                                 // the MD5 of the archive; empty: that of the official one
  std::function<void(const std::string&)> report = {};  // gets progress lines; may be empty
};

// Error when `root` is VOCdevkit or a folder in it, by name or by what it holds: the Error names the folder to give.
void check_voc_root(const std::filesystem::path& root, const std::string& year = "2012");

// Makes sure that `root` holds every picture and mask of the list. If not, downloads the official archive of the year
// (2012: 2 GB) into `root` and unpacks it. A download that an earlier call began is resumed. The archive stays there. A
// folder of the year without its archive is left as it is; VocSegmentation then says what it lacks. Of several
// processes on one host, one calls this function first. Error as of check_voc_root(), so that a folder that is one too
// deep begins no download; DownloadError when the archive can't be had.
void download_voc(const std::filesystem::path& root, const std::string& year = "2012",
                  const std::string& image_set = "train", const VocSource& source = {});

}  // namespace tandem::data
