#include <tandem/core/backend/backend.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/ops.h>
#include <tandem/optim/clip.h>

#include <cmath>

namespace tandem::optim {

namespace {

// The gradients of all parameters. A kernel needs each gradient to be contiguous in memory. A gradient that is not
// contiguous is copied, and change() writes the copy back.
class Gradients {
 public:
  Gradients(const char* operation, const std::vector<Tensor>& parameters) : operation_(operation) {
    for (const Tensor& parameter : parameters) {
      const Array gradient = parameter.grad();
      if (!gradient.defined()) continue;
      TANDEM_CHECK(gradient.dtype() == DType::f32, operation, ": a gradient of shape ", gradient.shape(), " is ",
                   gradient.dtype(), ", but must be f32");
      TANDEM_CHECK(gradients_.empty() || gradient.device() == device(), operation, ": gradients are on ", device(),
                   " and on ", gradient.device(), ", but must be on one device");
      gradients_.push_back(gradient);
      rows_.push_back(gradient.is_channels_last() ? gradient : gradient.contiguous());
    }
  }

  bool empty() const { return gradients_.empty(); }
  Device device() const { return gradients_[0].device(); }

  Array norm(double p) const {
    std::vector<Segment> segments;
    for (const Array& row : rows_) segments.push_back({static_cast<const float*>(row.raw()), row.numel()});
    const Array norm = Array::empty({}, DType::f32, device());
    backend(device()).segments_norm(segments, p, norm);
    return norm;
  }

  void change(const UpdateRule& rule, float* count) {
    std::vector<UpdateSegment> segments;
    for (const Array& row : rows_) {
      auto* numbers = static_cast<float*>(row.raw());
      segments.push_back({numbers, numbers, {}, count, row.numel(), false});
    }
    backend(device()).update(segments, rule);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i].storage() != gradients_[i].storage()) gradients_[i].copy_from(rows_[i]);
      else gradients_[i].storage()->written_by(operation_);
    }
  }

 private:
  const char* operation_;
  std::vector<Array> gradients_, rows_;
};

std::vector<Tensor> tensors_of(const std::vector<NamedTensor>& parameters) {
  std::vector<Tensor> tensors;
  for (const NamedTensor& parameter : parameters) tensors.push_back(parameter.tensor);
  return tensors;
}

void check_norm_type(double norm_type) {
  TANDEM_CHECK(norm_type > 0, "clip_grad_norm_: norm_type must be above 0, got ", norm_type);
}

}  // namespace

Array grad_norm(const std::vector<Tensor>& parameters, double norm_type) {
  check_norm_type(norm_type);
  const Gradients gradients("grad_norm", parameters);
  return gradients.empty() ? ops::scalar(0) : gradients.norm(norm_type);
}

Array clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type,
                      bool error_if_nonfinite) {
  const Scope scope("clip_grad_norm_");
  check_norm_type(norm_type);
  TANDEM_CHECK(max_norm >= 0, "clip_grad_norm_: max_norm must be at least 0, got ", max_norm);
  Gradients gradients("clip_grad_norm_", parameters);
  if (gradients.empty()) return ops::scalar(0);
  const Array norm = gradients.norm(norm_type);
  if (error_if_nonfinite)
    TANDEM_CHECK(std::isfinite(norm.item()), "clip_grad_norm_: the norm of order ", norm_type, " of the gradients is ",
                 norm.item(), ", so they can't be clipped (error_if_nonfinite = false scales them anyway)");
  gradients.change(rules::ClipNorm{static_cast<float>(max_norm)}, static_cast<float*>(norm.raw()));
  return norm;
}

Array clip_grad_norm_(const std::vector<NamedTensor>& parameters, double max_norm, double norm_type,
                      bool error_if_nonfinite) {
  return clip_grad_norm_(tensors_of(parameters), max_norm, norm_type, error_if_nonfinite);
}

void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value) {
  const Scope scope("clip_grad_value_");
  TANDEM_CHECK(clip_value >= 0, "clip_grad_value_: clip_value must be at least 0, got ", clip_value);
  Gradients gradients("clip_grad_value_", parameters);
  if (!gradients.empty()) gradients.change(rules::ClipValue{static_cast<float>(clip_value)}, nullptr);
}

void clip_grad_value_(const std::vector<NamedTensor>& parameters, double clip_value) {
  clip_grad_value_(tensors_of(parameters), clip_value);
}

}  // namespace tandem::optim
