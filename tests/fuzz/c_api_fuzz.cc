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

/// Describes a call whose arrays and numbers are arbitrary.
void call(Source& source) {
  std::array<Array, SLUICE_OPERANDS> arrays{Array(source), Array(source), Array(source),
                                            Array(source), Array(source), Array(source),
                                            Array(source), Array(source), Array(source)};
  const unsigned bits = source.take<unsigned char>();
  sluice_call made = sluice_new_call();
  made.problem = source.take<sluice_problem>();
  made.problem.conv.op %= 5, made.problem.conv.spatial %= 5;
  if (bits >> 7 != 0) made.problem.conv.op = 0;
  made.alpha = source.take<float>(), made.beta = source.take<float>();
  for (unsigned i = 0; i < SLUICE_OPERANDS; ++i) {
    const bool always = i == SLUICE_A || i == SLUICE_B || i == SLUICE_D;
    if (always || (bits >> i % 7 & 1) != 0) made.operands[i] = &arrays[i].value;
  }
  check(sluice_describe(&made));
}

/// Plans problems with arbitrary numbers, and overrides with arbitrary text.
void plans(Source& source) {
  sluice_call made = sluice_new_call();
  made.problem = source.take<sluice_problem>();
  std::array<char, 48> choices = source.take<std::array<char, 48>>();
  choices.back() = 0;
  sluice_plan* plan = nullptr;
  check(sluice_check(&made));
  check(sluice_plan_create(nullptr, &made, choices.data(), &plan));
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
  constexpr void (*kCalls[])(Source&) = {call, plans, numbers, call};
  kCalls[source.take<unsigned char>() % (sizeof(kCalls) / sizeof(kCalls[0]))](source);
  return 0;
}
