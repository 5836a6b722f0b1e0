// SPDX-License-Identifier: Apache-2.0
// Fuzzes the C interface with structs of any bytes, and arrays of any shape and stride in host memory that is
// never accessed. Pointers are valid or NULL, as the interface requires; the fuzzer chooses everything else.
#include <stdlib.h>
#include <string.h>

#include <array>
#include <string>

#include <sluice/c_api.h>

#include "message_rules.h"

namespace {

/// Takes values from the front of the fuzz input; returns zeros after its end.
class Source {
 public:
  Source(const unsigned char* data, size_t size) : data_(data), size_(size) {}

  template <class T>
  T take() {
    T value{};
    const size_t count = size_ < sizeof(T) ? size_ : sizeof(T);
    if (count > 0) memcpy(&value, data_, count);
    data_ += count, size_ -= count;
    return value;
  }

 private:
  const unsigned char* data_;
  size_t size_;
};

// Entries in a shape array; a larger number of dimensions must be refused before it is read.
constexpr int kRoom = 8;

/// Returns a random extent: three of four are below 192; the others are any number, mostly too large.
int64_t extent(Source& source) {
  const unsigned char kind = source.take<unsigned char>();
  return kind < 192 ? kind : source.take<int64_t>();
}

struct Array {
  std::array<int64_t, kRoom> shape{}, strides{};
  sluice_array value{};

  explicit Array(Source& source) {
    const unsigned char kind = source.take<unsigned char>();
    value.dtype = kind % 8 == 7 ? source.take<int32_t>() : kind % 8 - 1;
    value.ndim = kind / 8 % 8 == 7 ? source.take<int32_t>() : kind / 8 % 8;
    value.device_type = kind < 128 ? SLUICE_ON_CUDA : SLUICE_ON_CPU;
    for (int64_t& x : shape) x = extent(source);
    for (int64_t& x : strides) x = extent(source);
    value.shape = shape.data();
    value.strides = kind % 3 == 0 ? strides.data() : nullptr;
  }
};

void check(sluice_status status) {
  if (status == SLUICE_OK) return;
  if (!sluice::test::is_fit_to_print(sluice_error_message())) abort();
}

sluice_array* maybe(Array& array, unsigned bits, unsigned bit) {
  return (bits >> bit & 1) != 0 ? &array.value : nullptr;
}

void product(Source& source) {
  Array a(source), b(source), d(source), c(source), bias(source), scale_a(source), scale_b(source),
      scale_d(source), gamma(source);
  const unsigned bits = source.take<unsigned char>();
  const sluice_packed_weights packed = source.take<sluice_packed_weights>();
  sluice_product p = source.take<sluice_product>();
  p.names = nullptr;
  p.a = &a.value, p.b = &b.value, p.d = &d.value;
  p.c = maybe(c, bits, 0), p.bias = maybe(bias, bits, 1);
  p.scale_a = maybe(scale_a, bits, 2), p.scale_b = maybe(scale_b, bits, 3);
  p.scale_d = maybe(scale_d, bits, 4), p.gamma = maybe(gamma, bits, 5);
  p.packed = (bits >> 6 & 1) != 0 ? &packed : nullptr;
  sluice_problem problem;
  check(sluice_problem_of(&p, &problem));
}

void convolution(Source& source) {
  Array x(source), w(source), y(source), c(source), bias(source), scale_x(source), scale_w(source),
      scale_d(source);
  const unsigned bits = source.take<unsigned char>();
  std::array<std::array<int64_t, 3>, 4> lists;
  for (std::array<int64_t, 3>& list : lists)
    for (int64_t& value : list) value = extent(source);
  sluice_convolution v = source.take<sluice_convolution>();
  v.names = nullptr;
  v.op = v.op % 5, v.spatial = v.spatial % 5;
  v.x = &x.value, v.w = &w.value, v.y = &y.value;
  v.c = maybe(c, bits, 0), v.bias = maybe(bias, bits, 1);
  v.scale_x = maybe(scale_x, bits, 2), v.scale_w = maybe(scale_w, bits, 3);
  v.scale_d = maybe(scale_d, bits, 4);
  const int64_t** const fields[] = {&v.stride, &v.dilation, &v.padding, &v.padding_after};
  for (unsigned i = 0; i < 4; ++i) *fields[i] = (bits >> (5 + i % 3) & 1) != 0 ? lists[i].data() : nullptr;
  sluice_problem problem;
  check(sluice_conv_problem_of(&v, &problem));
}

/// Plans problems with arbitrary numbers, and overrides with arbitrary text.
void plans(Source& source) {
  const sluice_problem problem = source.take<sluice_problem>();
  std::array<char, 48> choices = source.take<std::array<char, 48>>();
  choices.back() = 0;
  sluice_plan* plan = nullptr;
  check(sluice_problem_check(&problem));
  check(sluice_plan_create(nullptr, &problem, choices.data(), &plan));
  sluice_plan_free(plan);
}

void numbers(Source& source) {
  const sluice_weight_format format = source.take<sluice_weight_format>();
  const int64_t n = source.take<int64_t>(), k = source.take<int64_t>();
  sluice_packed_numbers found;
  check(sluice_packed_numbers_of(&format, n, k, &found));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  Source source(data, size);
  constexpr void (*kCalls[])(Source&) = {product, plans, numbers, convolution};
  kCalls[source.take<unsigned char>() % (sizeof(kCalls) / sizeof(kCalls[0]))](source);
  return 0;
}
