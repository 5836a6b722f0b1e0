// SPDX-License-Identifier: Apache-2.0
// All packed formats, and random weights in each, for tests of packing.
#pragma once

#include <string>
#include <vector>

#include <sluice/kernels/verify_arith.h>
#include <sluice/pack_weights.h>

namespace sluice::test {

inline std::vector<WeightFormat> all_formats() {
  std::vector<WeightFormat> formats;
  for (const WeightType type : {WeightType::uint4, WeightType::int8, WeightType::e4m3})
    for (const int group : {0, 32, 64, 128})
      for (const DType scale : {DType::fp16, DType::bf16, DType::fp32})
        for (const ScaleZero zero : {ScaleZero::none, ScaleZero::per_group})
          for (const FragmentOrder order : {FragmentOrder::half, FragmentOrder::byte}) {
            const WeightFormat format{type, group, scale, zero, order};
            if (validate(format) == nullptr) formats.push_back(format);
          }
  formats.push_back(kMxfp4);  // last, so that random draws for the others stay the same
  return formats;
}

inline std::string text_of(const WeightFormat& f) {
  return std::string(name_of(f.type)) + " group " + std::to_string(f.group) + " " + name_of(f.scale) +
         " zero " + name_of(f.zero) + " order " + name_of(f.order);
}

/// Random codes, and random bits as scales and zero points, which packing only copies. Scales of e8m0 are not
/// NaN, which packing refuses.
class RandomWeights {
 public:
  RandomWeights(const WeightFormat& format, i64 n, i64 k, u64 seed)
      : format_(format), n_(n), k_(k), codes_(filled(n * k, seed)) {
    for (u8& code : codes_) code = static_cast<u8>(code & ((1 << code_bits(format.type)) - 1));
    const i64 bytes = n * group_count(format, k) * bytes_of(format.scale);
    scales_ = filled(bytes, seed + 1);
    for (u8& scale : scales_)
      if (format.scale == DType::e8m0 && scale == 255) scale = 254;
    if (format.zero == ScaleZero::per_group) zeros_ = filled(bytes, seed + 2);
  }

  WeightArrays arrays() const {
    return {n_, k_, codes_.data(), scales_.data(), zeros_.empty() ? nullptr : zeros_.data()};
  }
  const std::vector<u8>& codes() const { return codes_; }
  const std::vector<u8>& scales() const { return scales_; }
  const std::vector<u8>& zeros() const { return zeros_; }
  u32 code(i64 row, i64 k) const {
    return row < n_ && k < k_ ? codes_[static_cast<std::size_t>(row * k_ + k)] : 0;
  }

  /// Copies these rows and this range of k to arrays of their own. k_begin must be a multiple of the group.
  RandomWeights part(SliceRange rows, SliceRange k) const {
    RandomWeights result(format_, rows.end - rows.begin, k.end - k.begin, 0);
    const i64 groups = group_count(format_, k_), first = format_.group == 0 ? 0 : k.begin / format_.group;
    const i64 wanted = group_count(format_, k.end - k.begin), size = bytes_of(format_.scale);
    result.codes_ = box(codes_, rows, k_, k.begin, k.end - k.begin);
    result.scales_ = box(scales_, rows, groups * size, first * size, wanted * size);
    if (!zeros_.empty()) result.zeros_ = box(zeros_, rows, groups * size, first * size, wanted * size);
    return result;
  }

 private:
  static std::vector<u8> filled(i64 bytes, u64 seed) {
    std::vector<u8> values(static_cast<std::size_t>(bytes));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<u8>(verify::hash(seed, i) >> 32);
    return values;
  }
  static std::vector<u8> box(const std::vector<u8>& from, SliceRange rows, i64 pitch, i64 first, i64 width) {
    std::vector<u8> values;
    for (i64 row = rows.begin; row < rows.end; ++row)
      values.insert(values.end(), from.begin() + row * pitch + first,
                    from.begin() + row * pitch + first + width);
    return values;
  }

  WeightFormat format_;
  i64 n_, k_;
  std::vector<u8> codes_, scales_, zeros_;
};

}  // namespace sluice::test
