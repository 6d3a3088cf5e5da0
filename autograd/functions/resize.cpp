#include <tandem/autograd/functions/resize.h>
#include <tandem/autograd/images_and_signals.h>
#include <tandem/autograd/operation.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/ops.h>

namespace tandem {

using namespace autograd;

Tensor interpolate(const Tensor& x, const InterpolateOptions& o) {
  const Scope scope("interpolate");
  const Kind kind = x.defined() && x.shape().ndim() == 3 ? Kind::signal : Kind::image;
  check_ndim(x, kind, "interpolate", "input", "(N, C, H, W) or (N, C, L)");
  TANDEM_CHECK(o.size.has_value() != o.scale_factor.has_value(),
               "interpolate: expected either size or scale_factor, not both");
  TANDEM_CHECK(!o.align_corners || o.mode == Interpolation::bilinear,
               "interpolate: align_corners works only with bilinear");
  const Array image = as_image(x.value(), kind);
  Extent size = 1;
  Resize how{o.mode, o.align_corners};
  if (o.size) {
    size = extent_of(*o.size, kind, 1, "interpolate");
  } else {
    TANDEM_CHECK(kind == Kind::image || o.scale_factor->h == o.scale_factor->w,
                 "interpolate: expected one scale_factor for input ", x.shape(), ", got ", o.scale_factor->h, 'x',
                 o.scale_factor->w);
    how.factor_h = kind == Kind::signal ? 1 : o.scale_factor->h;
    how.factor_w = o.scale_factor->w;
    const double h = static_cast<double>(image.dim(2)) * how.factor_h,
                 w = static_cast<double>(image.dim(3)) * how.factor_w;
    TANDEM_CHECK(how.factor_h > 0 && how.factor_w > 0 && h < 0x1p62 && w < 0x1p62, "interpolate: scale_factor ",
                 how.factor_h, 'x', how.factor_w, " of input ", x.shape(), " must be positive and finite");
    size = {static_cast<std::int64_t>(h), static_cast<std::int64_t>(w)};
  }
  const Extent before{image.dim(2), image.dim(3)};
  return record("interpolate", {x}, as_given(ops::resize(image, size, how), kind),
                [before, how, kind](const Array& grad, Needs) -> Gradients {
                  return {as_given(ops::resize_grad(as_image(grad, kind), before, how), kind)};
                });
}

}  // namespace tandem
