// SPDX-License-Identifier: Apache-2.0
#include <sluice/plan/text/conv_text.h>

#include <functional>

#include <sluice/plan/text/lines.h>

namespace sluice {
namespace {

using ValueText = std::function<std::string(int axis)>;

/// Returns the values of all axes joined by x. With `shared`, a value that all axes have in common is printed
/// once.
std::string joined(const Conv& v, bool shared, const ValueText& value) {
  std::string text = value(v.spatial - 1);
  bool equal = true;
  std::string all = text;
  for (int axis = v.spatial - 2; axis >= 0; --axis) {
    equal = equal && value(axis) == text;
    all += "x" + value(axis);
  }
  return shared && equal ? text : all;
}

std::string sizes(const Conv& v, const Axes& axes) {
  return joined(v, false, [&](int axis) { return std::to_string(axes[axis]); });
}
std::string shared_sizes(const Conv& v, const Axes& axes) {
  return joined(v, true, [&](int axis) { return std::to_string(axes[axis]); });
}

/// Returns stride, padding, dilation and pitches where they differ from the defaults, each preceded by
/// `before`.
std::string deviations(const Conv& v, const char* before) {
  std::string text;
  const auto add = [&](const char* name, const std::string& value) {
    text += std::string(before) + name + " " + value;
  };
  if (!(v.stride == kOnes)) add("stride", shared_sizes(v, v.stride));
  if (!(v.padding == Axes{} && v.padding_after == Axes{}))
    add("padding", joined(v, true, [&](int axis) {
          const std::string first = std::to_string(v.padding[axis]);
          return v.padding_after[axis] == v.padding[axis]
                     ? first
                     : first + ":" + std::to_string(v.padding_after[axis]);
        }));
  if (!(v.dilation == kOnes)) add("dilation", shared_sizes(v, v.dilation));
  if (v.x_pitch != 0) add("x-pitch", std::to_string(v.x_pitch));
  if (v.y_pitch != 0) add("y-pitch", std::to_string(v.y_pitch));
  return text;
}

}  // namespace

std::string conv_name(const Conv& v) {
  return std::string(name_of(v.op)) + " " + std::to_string(v.images) + "x" + std::to_string(v.channels) +
         "x" + sizes(v, v.size) + " * " + std::to_string(v.filters) + "x" + sizes(v, v.filter) +
         deviations(v, " ");
}

std::string conv_text(const Conv& v) {
  const std::string y = joined(v, false, [&](int axis) { return std::to_string(output_size(v, axis)); });
  return std::string(name_of(v.op)) + ": N " + std::to_string(v.images) + ", C " +
         std::to_string(v.channels) + ", K " + std::to_string(v.filters) + ", x " + sizes(v, v.size) +
         ", y " + y + ", filter " + sizes(v, v.filter) + deviations(v, ", ");
}

std::string conv_line(const Conv& v, const std::string& remark) {
  return line("conv", conv_text(v) + remark);
}

}  // namespace sluice
