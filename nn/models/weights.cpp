#include <tandem/core/io/arrays_file.h>
#include <tandem/nn/models/weights.h>

#include <algorithm>
#include <map>
#include <sstream>

namespace tandem::nn::models {

namespace {

constexpr std::string_view backbone_prefix = "backbone.", fc_prefix = "fc.";

bool begins(const std::string& name, std::string_view prefix) { return name.starts_with(prefix); }

// File names in torchvision. Each name ends in the first eight digits of the file's SHA-256.
const std::map<std::string, std::string> urls = {
    {"deeplabv3_resnet50_coco", "deeplabv3_resnet50_coco-cd0a2569.pth"},
    {"deeplabv3_resnet101_coco", "deeplabv3_resnet101_coco-586e9e4e.pth"},
    {"fcn_resnet50_coco", "fcn_resnet50_coco-1167a1af.pth"},
    {"fcn_resnet101_coco", "fcn_resnet101_coco-7ecb50ca.pth"},
    {"resnet18_imagenet", "resnet18-f37072fd.pth"},
    {"resnet34_imagenet", "resnet34-b627a593.pth"},
    {"resnet50_imagenet", "resnet50-11ad3fa6.pth"},
    {"resnet101_imagenet", "resnet101-cd907fc2.pth"},
    {"resnet152_imagenet", "resnet152-f82ba261.pth"},
};

}  // namespace

std::vector<std::string> load_weights(SegmentationModel& model, std::vector<NamedArray> weights) {
  std::vector<std::string> notices;
  weights = without_wrappers(std::move(weights));
  const auto is_of_backbone = [](const NamedArray& entry) { return begins(entry.name, backbone_prefix); };
  const bool backbone_only = std::none_of(weights.begin(), weights.end(), is_of_backbone);
  if (backbone_only) {
    std::erase_if(weights, [](const NamedArray& entry) { return begins(entry.name, fc_prefix); });
    for (auto& [name, array] : weights) name.insert(0, backbone_prefix);
    notices.push_back("these are the weights of a ResNet, so the heads start untrained");
  }

  const auto is_of_aux = [](const NamedArray& entry) { return begins(entry.name, SegmentationModel::aux_prefix); };
  const auto own = model.state_dict();
  const bool has_aux = std::any_of(weights.begin(), weights.end(), is_of_aux);
  const bool wants_aux = std::any_of(own.begin(), own.end(), is_of_aux);
  if (!backbone_only && wants_aux && !has_aux)
    notices.push_back("these weights have no auxiliary classifier, so it starts untrained");
  if (has_aux && !wants_aux) {
    std::erase_if(weights, is_of_aux);
    notices.push_back("the auxiliary classifier of these weights is ignored");
  }
  // If the weights lack a tensor that may be missing, the model keeps its values.
  std::vector<NamedArray> state = weights;
  for (const auto& [name, array] : own) {
    const auto found = std::find_if(state.begin(), state.end(), [&](const auto& e) { return e.name == name; });
    if (found == state.end()) {
      const bool is_head = !begins(name, backbone_prefix);
      const bool is_aux = begins(name, SegmentationModel::aux_prefix);
      if (is_head && (backbone_only || (is_aux && !has_aux))) state.push_back({name, array});
      continue;
    }
    const bool is_class_layer = name.starts_with("classifier.4.") || name.starts_with("aux_classifier.4.");
    if (is_class_layer && found->array.ndim() == array.ndim() && found->array.dim(0) != array.dim(0)) {
      std::ostringstream text;
      text << name << " starts untrained: the weights are for " << found->array.dim(0) << " classes, but the model has "
           << array.dim(0);
      notices.push_back(text.str());
      found->array = array;
    }
  }
  model.load_state_dict(state);
  return notices;
}

std::string weights_url(const std::string& name) {
  const auto found = urls.find(name);
  return found == urls.end() ? "" : "https://download.pytorch.org/models/" + found->second;
}

std::vector<std::string> weights_names() {
  std::vector<std::string> names;
  for (const auto& [name, file] : urls) names.push_back(name);
  return names;
}

}  // namespace tandem::nn::models
