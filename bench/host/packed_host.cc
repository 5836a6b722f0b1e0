// SPDX-License-Identifier: Apache-2.0
#include "bench/host/packed_host.h"

#include <sluice/pack_weights.h>
#include <sluice/reference/element.h>
#include <sluice/reference/gemm.h>
#include <sluice/try.h>

namespace sluice::bench {

Result<std::vector<u8>> reference_d(const packed::HostData& data, int shift) {
  const Problem& p = data.problem;
  const u8* zeros = data.zeros.empty() ? nullptr : data.zeros.data();
  SLUICE_TAKE(const auto blob, pack_weights(p.b.packed, {p.n, p.k, data.codes.data(), data.scales.data(),
                                                         zeros, p.epilogue.gated}));
  SLUICE_TAKE(const auto w, dequantise_weights({p.b.packed, p.n, p.k, blob.data(), p.epilogue.gated}));
  std::vector<u8> buffer(static_cast<size_t>(packed::d_buffer_bytes(p, shift)), 0xFF);
  u8* d = buffer.data() + packed::d_begin(p, shift);
  const std::vector<u8> x = packed::multiplied_tokens(data);
  const auto product = [&](i64 m, i64 n) {
    double sum = 0;
    for (i64 k = 0; k < p.k; ++k)
      sum += load_element(p.a.type, x.data(), m * p.a.ld + k) * w[static_cast<size_t>(n * p.k + k)];
    const double bias =
        p.epilogue.bias == Bias::none ? 0.0 : load_element(p.epilogue.bias_type, data.bias.data(), n);
    return packed::scale_of_token(data, m) * sum + bias;
  };
  for (i64 m = 0; m < p.m; ++m)
    for (i64 n = 0; n < d_columns(p); ++n) {
      double value = activate(p.epilogue.activation, product(m, n));
      // Rounded to fp32, as the kernel does.
      if (p.epilogue.gated) value = static_cast<float>(value * product(m, p.n / 2 + n));
      if (p.epilogue.residual) value += load_element(p.d.type, data.c.data(), m * p.c.ld + n);
      if (p.epilogue.scale_d != ScaleMode::none) value /= load_element(DType::fp32, data.scale_d.data(), 0);
      store_element(p.d.type, d, m * p.d.ld + n, value);
    }
  return buffer;
}

Result<Comparison> compare_on_host(const Problem& problem, packed::DataKind kind, u64 seed) {
  SLUICE_TAKE(const packed::HostData data, packed::random_data(problem, kind, seed));
  SLUICE_TAKE(const std::vector<u8> d, reference_d(data, 0));
  return packed::judge(data, packed::reference_sums(data), d, 0);
}

}  // namespace sluice::bench
