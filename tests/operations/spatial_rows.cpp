#include <tandem/autograd/functions/convolution.h>
#include <tandem/autograd/functions/pooling.h>
#include <tandem/autograd/functions/resize.h>

#include "operations/table.h"

namespace tandem::testing {

namespace {

// Returns the attribute, which is one number or one for each dimension.
Extent extent_of(Call& c, const char* key, Extent otherwise) {
  if (!c.has(key)) return otherwise;
  return c.attributes.at(key).is_array() ? c.extent(key) : Extent(c.get<std::int64_t>(key));
}

template <Tensor (*f)(const Tensor&, const Tensor&, const Tensor&, const ConvOptions&)>
Tensor convolution(Call& c) {
  return f(c.in[0], c.in[1], c.optional(2),
           {.stride = extent_of(c, "stride", 1),
            .padding = extent_of(c, "padding", 0),
            .dilation = extent_of(c, "dilation", 1),
            .groups = c.has("groups") ? c.get<std::int64_t>("groups") : 1});
}

template <Tensor (*f)(const Tensor&, const Tensor&, const Tensor&, const ConvTransposeOptions&)>
Tensor transposed(Call& c) {
  return f(c.in[0], c.in[1], c.optional(2),
           {.stride = extent_of(c, "stride", 1),
            .padding = extent_of(c, "padding", 0),
            .output_padding = extent_of(c, "output_padding", 0),
            .groups = c.get<std::int64_t>("groups"),
            .dilation = extent_of(c, "dilation", 1)});
}

MaxPool2dOptions max_pool_options(Call& c) {
  return {.stride = extent_of(c, "stride", 1),
          .padding = extent_of(c, "padding", 0),
          .dilation = extent_of(c, "dilation", 1),
          .ceil_mode = c.has("ceil_mode") && c.get<bool>("ceil_mode")};
}
template <Tensor (*f)(const Tensor&, Extent, const MaxPool2dOptions&)>
Tensor max_pool(Call& c) {
  return f(c.in[0], extent_of(c, "kernel", 1), max_pool_options(c));
}

template <Tensor (*f)(const Tensor&, Extent, const AvgPool2dOptions&)>
Tensor avg_pool(Call& c) {
  AvgPool2dOptions options{.stride = extent_of(c, "stride", 1),
                           .padding = extent_of(c, "padding", 0),
                           .ceil_mode = c.get<bool>("ceil_mode"),
                           .count_include_pad = c.get<bool>("count_include_pad")};
  if (c.has("divisor") && c.get<std::int64_t>("divisor") != 0)
    options.divisor_override = c.get<std::int64_t>("divisor");
  return f(c.in[0], extent_of(c, "kernel", 1), options);
}

Tensor interpolated(Call& c) {
  InterpolateOptions options{.align_corners = c.get<bool>("align_corners")};
  if (c.get<std::string>("mode") != "nearest") options.mode = Interpolation::bilinear;
  const auto& scale = c.attributes.at("scale");
  if (scale.empty()) options.size = c.extent("size");
  else options.scale_factor = ScaleFactor(scale.at(0), scale.at(1));
  return interpolate(c.in[0], options);
}

}  // namespace

std::vector<Row> spatial_rows() {
  return {
      {"conv2d", convolution<conv2d>},
      {"conv1d", convolution<conv1d>},
      {"conv_transpose2d", transposed<conv_transpose2d>},
      {"conv_transpose1d", transposed<conv_transpose1d>},
      {"max_pool2d", max_pool<max_pool2d>},
      {"max_pool2d_with_indices",
       [](Call& c) {
         const ValuesAndIndices found =
             max_pool2d_with_indices(c.in[0], extent_of(c, "kernel", 1), max_pool_options(c));
         c.more = {found.indices};
         return found.values;
       }},
      {"max_pool1d", max_pool<max_pool1d>},
      {"avg_pool2d", avg_pool<avg_pool2d>},
      {"avg_pool1d", avg_pool<avg_pool1d>},
      {"adaptive_avg_pool2d", [](Call& c) { return adaptive_avg_pool2d(c.in[0], c.extent("size")); }},
      {"adaptive_avg_pool1d", [](Call& c) { return adaptive_avg_pool1d(c.in[0], c.get<std::int64_t>("size")); }},
      {"adaptive_max_pool2d", [](Call& c) { return adaptive_max_pool2d(c.in[0], c.extent("size")); }},
      {"interpolate", interpolated},
  };
}

}  // namespace tandem::testing
