// SPDX-License-Identifier: Apache-2.0
// Contents of the sets. `resnet50_N`: the different layers of ResNet-50 except its stem, with N images.
// `vgg`: VGG-16 with 32 images. `sdxl_N`: the U-Net of Stable Diffusion XL. `vae`: 3-D layers of video
// autoencoders.
#include "bench/conv.h"

#include <fmt/format.h>

#include <algorithm>

#include <sluice/plan/dense/problem_checks.h>
#include <sluice/spec/conv_problem.h>
#include <sluice/text.h>
#include <sluice/try.h>

namespace sluice::bench {
namespace {

/// A layer with square images: channels, filters, image size, filter size and stride. Padding keeps the image
/// size at stride 1.
struct Layer {
  i64 channels, filters;
  int size, filter = 3, stride = 1;
};

constexpr Layer kResNet50[] = {
    {64, 64, 56, 1},    {64, 64, 56},          {64, 256, 56, 1},   {256, 64, 56, 1},
    {256, 128, 56, 1},  {128, 128, 56, 3, 2},  {128, 512, 28, 1},  {256, 512, 56, 1, 2},
    {512, 128, 28, 1},  {128, 128, 28},        {512, 256, 28, 1},  {256, 256, 28, 3, 2},
    {256, 1024, 14, 1}, {512, 1024, 28, 1, 2}, {1024, 256, 14, 1}, {256, 256, 14},
    {1024, 512, 14, 1}, {512, 512, 14, 3, 2},  {512, 2048, 7, 1},  {1024, 2048, 14, 1, 2},
    {2048, 512, 7, 1},  {512, 512, 7}};
constexpr Layer kVgg[] = {{64, 64, 224},  {64, 128, 112}, {128, 128, 112}, {128, 256, 56},
                          {256, 256, 56}, {256, 512, 28}, {512, 512, 28},  {512, 512, 14}};
constexpr Layer kSdxl[] = {{320, 320, 128}, {640, 640, 64},   {1280, 1280, 32}, {320, 320, 64},
                           {640, 640, 32},  {1280, 1280, 16}, {2560, 1280, 32}, {960, 640, 64}};

/// A layer of video: channels, filters of 3x3x3, then depth, height and width.
struct VideoLayer {
  i64 channels;
  int d, h, w;
};
constexpr VideoLayer kVae[] = {
    {384, 5, 60, 104}, {384, 9, 120, 208}, {192, 17, 240, 416}, {96, 17, 480, 832}, {128, 9, 256, 256}};

template <size_t kCount>
std::vector<Conv> square_layers(const Layer (&layers)[kCount], i64 images) {
  std::vector<Conv> all;
  for (const Layer& l : layers) {
    const int padding = l.filter / 2;
    all.push_back({.images = images,
                   .channels = l.channels,
                   .filters = l.filters,
                   .size = {l.size, l.size, 1},
                   .filter = {l.filter, l.filter, 1},
                   .stride = {l.stride, l.stride, 1},
                   .padding = {padding, padding, 0},
                   .padding_after = {padding, padding, 0}});
  }
  return all;
}
std::vector<Conv> vae_layers() {
  std::vector<Conv> all;
  for (const VideoLayer& l : kVae)
    all.push_back({.spatial = 3,
                   .channels = l.channels,
                   .filters = l.channels,
                   .size = {l.w, l.h, l.d},
                   .filter = {3, 3, 3},
                   .padding = kOnes,
                   .padding_after = kOnes});
  return all;
}

struct NamedSet {
  const char* name;
  std::vector<Conv> (*make)();
};
constexpr NamedSet kSets[] = {{"resnet50_32", [] { return square_layers(kResNet50, 32); }},
                              {"resnet50_64", [] { return square_layers(kResNet50, 64); }},
                              {"resnet50_256", [] { return square_layers(kResNet50, 256); }},
                              {"vgg", [] { return square_layers(kVgg, 32); }},
                              {"sdxl_2", [] { return square_layers(kSdxl, 2); }},
                              {"sdxl_8", [] { return square_layers(kSdxl, 8); }},
                              {"vae", vae_layers}};

ConvElements in_roles(ConvOp op, i64 x, i64 w, i64 y) {
  if (op == ConvOp::fprop) return {.a = x, .b = w, .d = y};
  if (op == ConvOp::wgrad) return {.a = y, .b = x, .d = w};
  return {.a = y, .b = w, .d = x};
}

}  // namespace

Result<Problem> conv_problem(const Conv& v, const Problem& said) {
  SLUICE_TAKE(Problem p, conv::problem(v, said.a.type, said.d.type, said.epilogue));
  p.accumulate = said.accumulate;
  p.deterministic = said.deterministic;
  p.conv = v;  // a pointwise one is lowered by the planner
  return p;
}

double conv_flops(const Conv& v) {
  return 2 * multiplications(v);
}

ConvElements conv_elements(const Conv& v) {
  const i64 x = v.op == ConvOp::dgrad ? x_pixels(v) : touched_pixels(v);
  return in_roles(v.op, x * v.channels, filter_elements(v), y_pixels(v) * v.filters);
}

ConvElements conv_spans(const Conv& v) {
  return in_roles(v.op, x_span(v), filter_elements(v), y_span(v));
}

std::vector<std::string> conv_set_names() {
  std::vector<std::string> names;
  for (const NamedSet& set : kSets) names.push_back(set.name);
  return names;
}

bool is_conv_set(const std::string& name) {
  return std::any_of(std::begin(kSets), std::end(kSets),
                     [&](const NamedSet& set) { return name == set.name; });
}

Result<std::vector<Conv>> conv_set(const std::string& name, ConvOp op) {
  for (const NamedSet& set : kSets) {
    if (name != set.name) continue;
    std::vector<Conv> layers = set.make();
    for (Conv& layer : layers) layer.op = op;
    return layers;
  }
  return Error{ErrorCode::invalid_argument, fmt::format("no set of convolutions {}; there are: {}",
                                                        in_quotes(name), fmt::join(conv_set_names(), ", "))};
}

}  // namespace sluice::bench
