// SPDX-License-Identifier: Apache-2.0
// Emulates the kernels of packed products on the host. Weights are rounded as in device/packed/half_tile.cuh
// and device/math/weight_fragments.cuh; sums are truncated as by the tensor core (docs/numerics.md). Shows
// without a GPU how far correct results are from the error bounds.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include <sluice/check/packed_data.h>

#include "emulated_core.h"

namespace sluice::test {

/// A bug that is planted in the emulated kernel.
enum class Flaw { none, weights_cut, never_promoted };

class EmulatedProduct {
 public:
  EmulatedProduct(const packed::HostData& data, packed::WeightRounding rounding, Flaw flaw = Flaw::none)
      : data_(data), p_(data.problem), rounding_(rounding), flaw_(flaw), tokens_(multiplied_tokens(data)) {}

  /// Returns scale_x * sum + bias for row n of W and all tokens.
  std::vector<float> outputs(i64 n) const {
    const std::vector<Row> row = row_of(n);
    std::vector<float> values;
    for (i64 m = 0; m < p_.m; ++m) {
      std::vector<double> x(static_cast<size_t>(p_.k));
      for (i64 k = 0; k < p_.k; ++k)
        x[static_cast<size_t>(k)] = packed::number_at(p_.a.type, tokens_.data(), m * p_.a.ld + k);
      const float sum = p_.a.type == DType::e4m3                         ? byte_sum(row, x)
                        : rounding_ == packed::WeightRounding::to_tokens ? half_sum(row, x, scale_of(n, 0))
                                                                         : narrow_sum(row, x);
      const double bias = p_.epilogue.bias == Bias::none
                              ? 0.0
                              : packed::number_at(p_.epilogue.bias_type, data_.bias.data(), n);
      values.push_back(static_cast<float>(scale_of_token(data_, m) * static_cast<double>(sum) + bias));
    }
    return values;
  }
  /// Returns D without activation in the form that judge() reads, for any type.
  std::vector<u8> d() const {
    std::vector<u8> buffer(static_cast<size_t>(packed::d_buffer_bytes(p_, 0)), 0xFF);
    for (i64 n = 0; n < p_.n; ++n) {
      const std::vector<float> values = outputs(n);
      for (i64 m = 0; m < p_.m; ++m) put(buffer, m, n, static_cast<double>(values[static_cast<size_t>(m)]));
    }
    return buffer;
  }
  void put(std::vector<u8>& buffer, i64 m, i64 n, double value) const {
    const u32 bits = verify::encode(p_.d.type, value);
    const i64 bytes = bytes_of(p_.d.type), at = packed::d_begin(p_, 0) + (m * p_.d.ld + n) * bytes;
    for (i64 i = 0; i < bytes; ++i) buffer[static_cast<size_t>(at + i)] = static_cast<u8>(bits >> (8 * i));
  }

 private:
  struct Row {
    // weight: the value that the kernel multiplies by, if it dequantises before multiplying.
    double code, scale, zero, weight;
  };

  i64 group_of(i64 n, i64 k) const {
    return n * group_count(p_.b.packed, p_.k) + (p_.b.packed.group == 0 ? 0 : k / p_.b.packed.group);
  }
  double scale_of(i64 n, i64 k) const {
    return packed::number_at(p_.b.packed.scale, data_.scales.data(), group_of(n, k));
  }
  double rounded(double value) const {
    const double near = verify::decode(p_.a.type, verify::encode(p_.a.type, value));
    if (flaw_ != Flaw::weights_cut || std::fabs(near) <= std::fabs(value)) return near;
    return verify::decode(p_.a.type, verify::encode(p_.a.type, near) - 1);  // one code less in magnitude
  }
  /// Returns the dequantised weight as it is in a register, multiplied by 2^lift().
  double weight_of(double code, double scale, double zero) const {
    const bool half = p_.a.type == DType::fp16, four = p_.b.packed.type == WeightType::uint4;
    const double unit = half ? (p_.b.packed.type == WeightType::e4m3 ? 0x1p-8 : 0x1p-6) : 1.0;
    const double shift = !half && four ? 16.0 : 0.0;
    const double addend = rounded((-shift - zero) * unit);
    const double difference = rounded((code + shift) * unit + addend);
    if (p_.b.packed.group == 0) return difference / unit;
    return rounded(difference * rounded(scale / unit * std::exp2(lift()))) * std::exp2(-lift());
  }
  int lift() const { return p_.a.type == DType::fp16 && p_.b.packed.type == WeightType::uint4 ? 2 : 0; }

  std::vector<Row> row_of(i64 n) const {
    std::vector<Row> row;
    for (i64 k = 0; k < p_.k; ++k) {
      const double code =
          packed::code_value(p_.b.packed.type, data_.codes[static_cast<size_t>(n * p_.k + k)]);
      const double zero = data_.zeros.empty()
                              ? implied_zero(p_.b.packed.type)
                              : packed::number_at(p_.b.packed.scale, data_.zeros.data(), group_of(n, k));
      const double scale = scale_of(n, k);
      row.push_back({code, scale, zero,
                     rounding_ == packed::WeightRounding::to_tokens ? weight_of(code, scale, zero) : 0.0});
    }
    return row;
  }

  float half_sum(const std::vector<Row>& row, const std::vector<double>& x, double whole_scale) const {
    std::vector<double> terms;
    for (size_t k = 0; k < row.size(); ++k) terms.push_back(x[k] * row[k].weight);
    const auto sum = static_cast<float>(core_sum(0.0, terms, kHalfCore));
    return p_.b.packed.group == 0 ? sum * static_cast<float>(whole_scale) : sum;
  }
  /// Adds up the groups as the narrow kernel does. Each group's sum starts with the contribution of its zero
  /// point.
  float narrow_sum(const std::vector<Row>& row, const std::vector<double>& x) const {
    const size_t length = p_.b.packed.group == 0 ? 128 : static_cast<size_t>(p_.b.packed.group);
    const double offset = packed::code_offset(p_.b.packed.type, p_.a.type);
    float sum = 0;
    for (size_t first = 0; first < row.size(); first += length) {
      const size_t end = std::min(first + length, row.size());
      std::vector<double> terms;
      for (size_t k = first; k < end; ++k) terms.push_back(x[k] * (row[k].code + offset));
      const double tokens = core_sum(0.0, std::span(x).subspan(first, end - first), kHalfCore);
      const auto start = static_cast<float>(-(row[first].zero + offset) * tokens);
      sum += static_cast<float>(row[first].scale) *
             static_cast<float>(core_sum(static_cast<double>(start), terms, kHalfCore));
    }
    return sum;
  }
  float byte_sum(const std::vector<Row>& row, const std::vector<double>& x) const {
    size_t length = p_.b.packed.group == 0 ? 128 : static_cast<size_t>(p_.b.packed.group);
    if (flaw_ == Flaw::never_promoted) length = row.size();
    float sum = 0;
    for (size_t first = 0; first < row.size(); first += length) {
      const size_t end = std::min(first + length, row.size());
      std::vector<double> terms;
      const auto scale = static_cast<float>(row[first].scale);
      for (size_t k = first; k < end; ++k)
        terms.push_back(x[k] * (row[k].code - 8) * row[k].scale / row[first].scale);
      sum += scale * static_cast<float>(core_sum(0.0, terms, kByteCore));
      if (!data_.zeros.empty())
        sum += scale * static_cast<float>(8 - row[first].zero) *
               static_cast<float>(core_sum(0.0, std::span(x).subspan(first, end - first), kByteCore));
    }
    return sum;
  }

  const packed::HostData& data_;
  const Problem& p_;
  packed::WeightRounding rounding_;
  Flaw flaw_;
  std::vector<u8> tokens_;
};

}  // namespace sluice::test
