// VocSegmentation: the pictures and masks of the PASCAL VOC challenges. http://host.robots.ox.ac.uk/pascal/VOC/
#pragma once

#include <tandem/data/segmentation/segmentation.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tandem::data {

// In the layout of the official archives and of torchvision: below `root` the folder VOCdevkit/VOC2012 (of 2011:
// TrainVal/VOCdevkit/VOC2011), and in it ImageSets/Segmentation/train.txt, JPEGImages/NAME.jpg,
// SegmentationClass/NAME.png.
class VocSegmentation : public SegmentationFiles {
 public:
  // year: "2007" to "2012"; image_set: "train", "val", "trainval", of 2007 also "test". The year "2007-test" is the
  // image set "test" of 2007, whatever is named. Any other list ImageSets/Segmentation/NAME.txt of your own will do,
  // too. Error: a year that is none, a folder or a list that is missing (what was looked for, and how to get it), an
  // empty list, a name without picture or mask.
  VocSegmentation(const std::filesystem::path& root, const std::string& year = "2012",
                  const std::string& image_set = "train", Damaged damaged = Damaged::error);

  // What `year` may be, the newest last.
  static const std::vector<std::string>& years();
  // background, aeroplane, ..., tvmonitor: 21.
  static const std::vector<std::string>& class_names();
};

struct VocSource {
  std::vector<std::string> mirrors =
      {};                // of http://host.robots.ox.ac.uk/pascal/VOC/, tried in order; empty: the official one
  std::string md5 = {};  // of the archive; empty: of the official one
  std::function<void(const std::string&)> report = {};  // gets progress lines; may be empty
};

// Makes sure that `root` holds what VocSegmentation needs: every picture and mask of the list. Else downloads the
// year's official archive into it (2 GB of 2012; resumes what an earlier call began) and unpacks it. The archive stays
// there. A year's folder without its archive is left as it is: VocSegmentation says what it lacks. Of several processes
// on one host one should call this first. DownloadError when it can't be had.
void download_voc(const std::filesystem::path& root, const std::string& year = "2012",
                  const std::string& image_set = "train", const VocSource& source = {});

}  // namespace tandem::data
