// SPDX-License-Identifier: Apache-2.0
#include "tools/probes/conv_sample.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <sluice/reference/element.h>

namespace sluice::probes {
namespace {

constexpr i64 kMostSamples = 64, kFewestSamples = 8;

/// A place on three axes.
struct Place {
  i64 w = 0, h = 0, d = 0;
};

/// Takes the innermost number off a mixed-radix index.
i64 take(i64& index, i64 radix) {
  const i64 digit = index % radix;
  index /= radix;
  return digit;
}

struct Layer {
  const Conv& v;
  const HostTensors& t;
  i64 y_w = output_size(v, 0), y_h = output_size(v, 1), y_d = output_size(v, 2);

  double x(i64 n, Place at, i64 c) const {
    const i64 pixel = ((n * v.size.d + at.d) * v.size.h + at.h) * v.size.w + at.w;
    return load_element(t.x.type, t.x.data, pixel * v.channels + c);
  }
  double y(i64 n, Place at, i64 f) const {
    const i64 pixel = ((n * y_d + at.d) * y_h + at.h) * y_w + at.w;
    return load_element(t.y.type, t.y.data, pixel * v.filters + f);
  }
  double w(i64 f, Place tap, i64 c) const {
    const i64 row = ((f * v.filter.d + tap.d) * v.filter.h + tap.h) * v.filter.w + tap.w;
    return load_element(t.w.type, t.w.data, row * v.channels + c);
  }
  /// x's place under tap `tap` of y's pixel; false: in the padding.
  bool under(Place at, Place tap, Place& to) const {
    to = {at.w * v.stride.w - v.padding.w + tap.w * v.dilation.w,
          at.h * v.stride.h - v.padding.h + tap.h * v.dilation.h,
          at.d * v.stride.d - v.padding.d + tap.d * v.dilation.d};
    return to.w >= 0 && to.w < v.size.w && to.h >= 0 && to.h < v.size.h && to.d >= 0 && to.d < v.size.d;
  }
  /// One axis of y's pixel whose tap lies on x's place; false: there is none.
  static bool over(i64 place, i64 tap, i64 stride, i64 padding, i64 dilation, i64 size, i64& to) {
    const i64 from = place + padding - tap * dilation;
    to = from / stride;
    return from >= 0 && from % stride == 0 && to < size;
  }

  template <class Visit>
  void each_tap(const Visit& visit) const {
    for (i64 d = 0; d < v.filter.d; ++d)
      for (i64 h = 0; h < v.filter.h; ++h)
        for (i64 w = 0; w < v.filter.w; ++w) visit(Place{w, h, d});
  }

  double fprop(i64 index) const {
    const i64 f = take(index, v.filters);
    const Place at{take(index, y_w), take(index, y_h), take(index, y_d)};
    double sum = 0;
    each_tap([&](Place tap) {
      Place to;
      if (!under(at, tap, to)) return;
      for (i64 c = 0; c < v.channels; ++c) sum += x(index, to, c) * w(f, tap, c);
    });
    return sum;
  }
  double dgrad(i64 index) const {
    const i64 c = take(index, v.channels);
    const Place at{take(index, v.size.w), take(index, v.size.h), take(index, v.size.d)};
    double sum = 0;
    each_tap([&](Place tap) {
      Place from;
      if (!over(at.w, tap.w, v.stride.w, v.padding.w, v.dilation.w, y_w, from.w) ||
          !over(at.h, tap.h, v.stride.h, v.padding.h, v.dilation.h, y_h, from.h) ||
          !over(at.d, tap.d, v.stride.d, v.padding.d, v.dilation.d, y_d, from.d))
        return;
      for (i64 f = 0; f < v.filters; ++f) sum += y(index, from, f) * w(f, tap, c);
    });
    return sum;
  }
  double wgrad(i64 index) const {
    const i64 c = take(index, v.channels);
    const Place tap{take(index, v.filter.w), take(index, v.filter.h), take(index, v.filter.d)};
    double sum = 0;
    for (i64 n = 0; n < v.images; ++n)
      for (i64 d = 0; d < y_d; ++d)
        for (i64 h = 0; h < y_h; ++h)
          for (i64 w = 0; w < y_w; ++w)
            if (Place to; under({w, h, d}, tap, to)) sum += y(n, {w, h, d}, index) * x(n, to, c);
    return sum;
  }
};

}  // namespace

double sample_element(const Conv& conv, const HostTensors& tensors, i64 index) {
  const Layer layer{conv, tensors};
  switch (conv.op) {
    case ConvOp::fprop: return layer.fprop(index);
    case ConvOp::dgrad: return layer.dgrad(index);
    default: return layer.wgrad(index);
  }
}

i64 products_of_element(const Conv& conv) {
  switch (conv.op) {
    case ConvOp::fprop: return taps_of(conv) * conv.channels;
    case ConvOp::dgrad: return taps_of(conv) * conv.filters;
    default: return y_pixels(conv);
  }
}

std::vector<i64> sample_indices(const Conv& conv, i64 elements, i64 most_products) {
  const i64 affordable = most_products / std::max<i64>(products_of_element(conv), 1);
  const i64 count = std::min(std::clamp(affordable, kFewestSamples, kMostSamples), elements);
  std::vector<i64> indices = {0, elements - 1};
  for (u64 i = 2; i < static_cast<u64>(count); ++i)
    indices.push_back(static_cast<i64>((i * 0x9e3779b97f4a7c15ull >> 11) % static_cast<u64>(elements)));
  return indices;
}

SampleError sample_error(const bench::CudnnConvolution& p, const HostTensors& tensors, i64 most_products) {
  const bench::CudnnTensor result = bench::result_of(p.conv.op);
  const HostTensor& got = result == bench::CudnnTensor::x   ? tensors.x
                          : result == bench::CudnnTensor::w ? tensors.w
                                                            : tensors.y;
  SampleError error;
  double squares = 0, largest = 0;
  for (const i64 index : sample_indices(p.conv, bench::span_of(p, result), most_products)) {
    const double expected = sample_element(p.conv, tensors, index);
    const double difference = std::abs(load_element(got.type, got.data, index) - expected);
    largest =
        std::isfinite(difference) ? std::max(largest, difference) : std::numeric_limits<double>::infinity();
    squares += expected * expected;
    ++error.count;
  }
  const double root = std::sqrt(squares / std::max(error.count, 1));
  error.worst = largest == 0 ? 0 : root > 0 ? largest / root : std::numeric_limits<double>::infinity();
  return error;
}

}  // namespace sluice::probes
