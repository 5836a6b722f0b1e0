// SPDX-License-Identifier: Apache-2.0
// Converts the sizes of a convolution between C's values, outermost axis first, and the library's, innermost
// first. The bounds here keep the arithmetic of spec/conv.h inside of its integers; conv::problem() has the
// rules of kernels.
#include <sluice/c_api/convolutions.h>

#include <limits>
#include <string>

#include <sluice/try.h>

namespace sluice::c_api {
namespace {

static_assert(SLUICE_FPROP == static_cast<int>(ConvOp::fprop) &&
              SLUICE_DGRAD == static_cast<int>(ConvOp::dgrad) &&
              SLUICE_WGRAD == static_cast<int>(ConvOp::wgrad));
static_assert(kMostSpatial == sizeof(sluice_conv_sizes::size) / sizeof(int64_t));

constexpr i64 kMostElements = i64{1} << 40;

int& at(Axes& axes, int axis) {
  return axis == 0 ? axes.w : axis == 1 ? axes.h : axes.d;
}

/// A list of C's with the least value that its elements may have.
struct AxisList {
  const char* name;
  const int64_t* values;
  i64 least;
};

/// Converts a list. Error invalid_size.
Result<Axes> axes_of(const AxisList& list, int spatial, Axes axes) {
  constexpr i64 kMost = std::numeric_limits<int>::max();
  for (int i = 0; i < spatial; ++i) {
    const i64 value = list.values[i];
    if (value < list.least || value > kMost)
      return Error{ErrorCode::invalid_size, std::string(list.name) + "[" + std::to_string(i) +
                                                "] = " + std::to_string(value) + " must be in " +
                                                std::to_string(list.least) + ".." + std::to_string(kMost)};
    at(axes, spatial - 1 - i) = static_cast<int>(value);
  }
  return axes;
}

/// Checks that an array of so many elements fits any memory, so that no later product of sizes overflows.
Result<void> check_count(const char* name, std::initializer_list<i64> extents) {
  i64 count = 1;
  for (const i64 extent : extents)
    if (__builtin_mul_overflow(count, extent > 1 ? extent : 1, &count) || count >= kMostElements)
      return Error{ErrorCode::invalid_size,
                   std::string(name) + " would hold 2^40 elements or more: no memory does; split it"};
  return {};
}

Result<void> check_counts(const Conv& v) {
  const struct {
    const char* name;
    i64 value;
  } counts[] = {{"images", v.images},
                {"channels", v.channels},
                {"filters", v.filters},
                {"x_pitch", v.x_pitch},
                {"y_pitch", v.y_pitch}};
  for (const auto& [name, value] : counts)
    if (value < 0)
      return Error{ErrorCode::invalid_size,
                   std::string(name) + " = " + std::to_string(value) + " must be 0 or more"};
  SLUICE_TRY(check_count("x", {v.images, v.size.w, v.size.h, v.size.d, x_pitch_of(v)}));
  SLUICE_TRY(check_count("w", {v.filters, v.filter.w, v.filter.h, v.filter.d, v.channels}));
  return check_count("y", {v.images, long_output_size(v, 0), long_output_size(v, 1), long_output_size(v, 2),
                           y_pitch_of(v)});
}

void store(const Axes& axes, int spatial, int64_t* values) {
  for (int i = 0; i < spatial; ++i) values[i] = axes[spatial - 1 - i];
}

}  // namespace

Result<Conv> conv_of(const sluice_conv_sizes& v) {
  if (v.spatial < 1 || v.spatial > kMostSpatial)
    return Error{ErrorCode::invalid_argument, "spatial = " + std::to_string(v.spatial) +
                                                  " must be in 1..3: it is the number of axes besides "
                                                  "images and channels"};
  Conv conv{.op = static_cast<ConvOp>(v.op),
            .spatial = v.spatial,
            .images = v.images,
            .channels = v.channels,
            .filters = v.filters,
            .x_pitch = v.x_pitch == v.channels ? 0 : v.x_pitch,
            .y_pitch = v.y_pitch == v.filters ? 0 : v.y_pitch};
  SLUICE_TAKE(conv.size, axes_of({"size", v.size, 0}, v.spatial, kOnes));
  SLUICE_TAKE(conv.filter, axes_of({"filter", v.filter, 1}, v.spatial, kOnes));
  SLUICE_TAKE(conv.stride, axes_of({"stride", v.stride, 1}, v.spatial, kOnes));
  SLUICE_TAKE(conv.dilation, axes_of({"dilation", v.dilation, 1}, v.spatial, kOnes));
  SLUICE_TAKE(conv.padding, axes_of({"padding", v.padding, 0}, v.spatial, Axes{}));
  SLUICE_TAKE(conv.padding_after, axes_of({"padding_after", v.padding_after, 0}, v.spatial, Axes{}));
  SLUICE_TRY(check_counts(conv));
  return conv;
}

sluice_conv_sizes values_of(const Conv& conv) {
  if (!is_conv(conv)) return {};
  sluice_conv_sizes v{.op = static_cast<int32_t>(conv.op),
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
