// Tandem's side of the benchmark bench/voc_loader. It prepares the samples of a folder in the layout of PASCAL VOC, on
// one thread.
//
//   voc_loader ROOT IMAGE_SET BASE CROP BATCH
//
// Reads commands from standard input and answers each with one line.
//
//   time KIND EPOCH
// The answer is the seconds for all full batches of an epoch. KIND is "exact" (torchvision's pixels), "scaled" (JPEGs
// that will be reduced are decoded at a smaller size) or "read" (images and masks as they are stored).
//
//   dump INDEX HEIGHT WIDTH FLIP TOP LEFT FILE
// Resizes sample INDEX to HEIGHT x WIDTH, crops CROP x CROP at TOP, LEFT, and writes it to FILE: the pixels in f32,
// then the labels in i64.
#include <tandem/data/epoch.h>
#include <tandem/data/segmentation/segmentation_transform.h>
#include <tandem/data/segmentation/voc.h>

#include <chrono>
#include <exception>
#include <fstream>
#include <iostream>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace tandem;
using namespace tandem::data;
using Clock = std::chrono::steady_clock;

struct Side {
  VocSegmentation files;
  SegmentationTransform transform;
  std::int64_t batch;

  double time(const std::string& kind, std::int64_t epoch) const {
    SegmentationTransform own = transform;
    own.scaled_decode = kind == "scaled";
    PreparedSegmentation prepared(files, own, 1);
    const EpochScope scope({.number = epoch});
    std::vector<std::int64_t> indices(static_cast<std::size_t>(files.size() / batch * batch));
    std::iota(indices.begin(), indices.end(), 0);
    const auto start = Clock::now();
    for (std::size_t i = 0; i < indices.size(); i += static_cast<std::size_t>(batch)) {
      if (kind != "read") prepared.get({indices.data() + i, static_cast<std::size_t>(batch)});
      else
        for (std::int64_t k = 0; k < batch; ++k) files.sample(static_cast<std::int64_t>(i) + k);
    }
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  void dump(std::istream& words) const {
    std::int64_t index = 0;
    SegmentationGeometry geometry{0, 0, false, {0, 0, transform.crop, transform.crop}};
    std::string path;
    words >> index >> geometry.resized_height >> geometry.resized_width >> geometry.flip >> geometry.window.top >>
        geometry.window.left >> path;
    SegmentationTransform exact = transform;
    exact.scaled_decode = false;
    const Sample sample = PreparedSegmentation(files, exact).sample(index, geometry);
    std::ofstream file(path, std::ios::binary);
    for (const Array& array : {sample.input, sample.target})
      file.write(static_cast<const char*>(array.raw()), static_cast<std::streamsize>(array.bytes()));
    TANDEM_CHECK(file.flush(), "cannot write ", path);
  }
};

void serve(char** arguments) {
  const Side side{VocSegmentation(arguments[1], "2012", arguments[2]),
                  SegmentationTransform::train(std::stoll(arguments[3]), std::stoll(arguments[4])),
                  std::stoll(arguments[5])};
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command, kind;
    words >> command;
    if (command == "dump") {
      side.dump(words);
      std::cout << 0 << std::endl;
      continue;
    }
    std::int64_t epoch = 0;
    words >> kind >> epoch;
    std::cout << side.time(kind, epoch) << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::cerr << "usage: voc_loader ROOT IMAGE_SET BASE CROP BATCH\n";
    return 2;
  }
  try {
    serve(argv);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "voc_loader: " << error.what() << '\n';
    return 1;
  }
}
