// SPDX-License-Identifier: Apache-2.0
// Converts the sizes of a convolution between the C interface's order (outermost axis first) and the
// library's (innermost first). conv::problem() checks the rules.
#include <sluice/c_api/values.h>

#include <limits>
#include <string>

#include <sluice/try.h>

namespace sluice::c_api {
namespace {

static_assert(SLUICE_FPROP == static_cast<int>(ConvOp::fprop) &&
              SLUICE_DGRAD == static_cast<int>(ConvOp::dgrad) &&
              SLUICE_WGRAD == static_cast<int>(ConvOp::wgrad));
static_assert(kMostSpatial == sizeof(sluice_conv::size) / sizeof(int64_t));

/// One list of per-axis values from C, with its name for error messages.
struct AxisList {
  const char* name;
  const int64_t* values;
};

/// Converts a list of `spatial` values; the remaining axes keep the values in `axes`. Error: invalid_size, if
/// a value does not fit an int.
Result<Axes> axes_of(const AxisList& list, int spatial, Axes axes) {
  constexpr i64 kMost = std::numeric_limits<int>::max();
  for (int i = 0; i < spatial; ++i) {
    const i64 value = list.values[i];
    if (value < 0 || value > kMost)
      return Error{ErrorCode::invalid_size, std::string(list.name) + "[" + std::to_string(i) +
                                                "] = " + std::to_string(value) + " must be in 0.." +
                                                std::to_string(kMost) + "; give one inside"};
    axes[spatial - 1 - i] = static_cast<int>(value);
  }
  return axes;
}

void store(const Axes& axes, int spatial, int64_t* values) {
  for (int i = 0; i < spatial; ++i) values[i] = axes[spatial - 1 - i];
}

}  // namespace

Result<void> check_spatial(int32_t spatial) {
  if (spatial >= 1 && spatial <= kMostSpatial) return {};
  return Error{ErrorCode::invalid_argument, "spatial = " + std::to_string(spatial) +
                                                " must be in 1..3: it is the number of axes besides "
                                                "images and channels"};
}

Result<Conv> conv_of(const sluice_conv& v) {
  SLUICE_TRY(check_spatial(v.spatial));
  Conv conv{.op = static_cast<ConvOp>(v.op),
            .spatial = v.spatial,
            .images = v.images,
            .channels = v.channels,
            .filters = v.filters,
            .x_pitch = v.x_pitch == v.channels ? 0 : v.x_pitch,
            .y_pitch = v.y_pitch == v.filters ? 0 : v.y_pitch};
  SLUICE_TAKE(conv.size, axes_of({"size", v.size}, v.spatial, kOnes));
  SLUICE_TAKE(conv.filter, axes_of({"filter", v.filter}, v.spatial, kOnes));
  SLUICE_TAKE(conv.stride, axes_of({"stride", v.stride}, v.spatial, kOnes));
  SLUICE_TAKE(conv.dilation, axes_of({"dilation", v.dilation}, v.spatial, kOnes));
  SLUICE_TAKE(conv.padding, axes_of({"padding", v.padding}, v.spatial, Axes{}));
  SLUICE_TAKE(conv.padding_after, v.uneven_padding != 0
                                      ? axes_of({"padding_after", v.padding_after}, v.spatial, Axes{})
                                      : Result<Axes>(conv.padding));
  return conv;
}

sluice_conv values_of(const Conv& conv) {
  if (!is_conv(conv)) return {};
  sluice_conv v{.op = static_cast<int32_t>(conv.op),
                .spatial = conv.spatial,
                .images = conv.images,
                .channels = conv.channels,
                .filters = conv.filters,
                .size = {},
                .filter = {},
                .stride = {},
                .dilation = {},
                .padding = {},
                .padding_after = {},
                .uneven_padding = conv.padding_after == conv.padding ? 0 : 1,
                .x_pitch = conv.x_pitch,
                .y_pitch = conv.y_pitch};
  store(conv.size, conv.spatial, v.size);
  store(conv.filter, conv.spatial, v.filter);
  store(conv.stride, conv.spatial, v.stride);
  store(conv.dilation, conv.spatial, v.dilation);
  store(conv.padding, conv.spatial, v.padding);
  store(conv.padding_after, conv.spatial, v.padding_after);
  return v;
}

}  // namespace sluice::c_api
