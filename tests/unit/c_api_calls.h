// SPDX-License-Identifier: Apache-2.0
// Calls of the C interface, written with the names that a product or a convolution has for its arrays.
#pragma once

#include <algorithm>
#include <span>

#include <sluice/c_api.h>

namespace sluice {

/// A problem as a call without arrays, for the full expression in which it stands.
struct AsCall {
  explicit AsCall(const sluice_problem& problem) { call.problem = problem; }
  operator const sluice_call*() const { return &call; }

  sluice_call call = sluice_new_call();
};

struct Product {
  const sluice_array *a, *b, *c, *d, *bias, *scale_a, *scale_b, *scale_d, *gamma;
  sluice_weight_format packed{};
  int64_t n, k;  // sizes of packed weights
  float alpha = 1, beta, epsilon;
  int32_t accumulate, activation, gated, update, any_order;
  const char* const* names;  // or null

  sluice_call call() const {
    sluice_call x = sluice_new_call();
    const sluice_array* const arrays[] = {a, b, c, d, bias, scale_a, scale_b, scale_d, gamma};
    std::copy(std::begin(arrays), std::end(arrays), x.operands);
    if (names != nullptr) std::copy(names, names + SLUICE_OPERANDS, x.names);
    x.problem.packed = packed;
    x.problem.n = n, x.problem.k = k;
    x.problem.accumulate = accumulate, x.problem.activation = activation, x.problem.gated = gated;
    x.problem.update = update, x.problem.any_order = any_order;
    x.alpha = alpha, x.beta = beta, x.epsilon = epsilon;
    return x;
  }
};

struct Convolution {
  int32_t op, spatial;
  const sluice_array *x, *w, *y, *bias, *c, *scale_x, *scale_w, *scale_d;
  const int64_t *stride, *dilation, *padding, *padding_after;  // or null: the default
  float alpha = 1, beta;
  int32_t accumulate, activation, update, any_order;
  const char* const* names;  // names of x, w, y, bias, c and the scales, or null

  sluice_call call() const {
    sluice_call v = sluice_new_call();
    sluice_conv& conv = v.problem.conv;
    conv.op = op, conv.spatial = spatial;
    const auto set = [&](int64_t* values, const int64_t* given) {
      if (given != nullptr) std::copy(given, given + std::clamp(spatial, 0, 3), values);
    };
    set(conv.stride, stride), set(conv.dilation, dilation);
    set(conv.padding, padding), set(conv.padding_after, padding_after);
    conv.uneven_padding = padding_after != nullptr ? 1 : 0;
    const int of_x = op == SLUICE_DGRAD ? SLUICE_D : op == SLUICE_WGRAD ? SLUICE_B : SLUICE_A;
    const int of_w = op == SLUICE_WGRAD ? SLUICE_D : SLUICE_B;
    const int of_y = op == SLUICE_DGRAD || op == SLUICE_WGRAD ? SLUICE_A : SLUICE_D;
    const int places[] = {of_x,     of_w,           of_y,           SLUICE_BIAS,
                          SLUICE_C, SLUICE_SCALE_A, SLUICE_SCALE_B, SLUICE_SCALE_D};
    const sluice_array* const arrays[] = {x, w, y, bias, c, scale_x, scale_w, scale_d};
    for (int i = 0; i < 8; ++i) {
      v.operands[places[i]] = arrays[i];
      if (names != nullptr) v.names[places[i]] = names[i];
    }
    v.problem.accumulate = accumulate, v.problem.activation = activation;
    v.problem.update = update, v.problem.any_order = any_order;
    v.alpha = alpha, v.beta = beta;
    return v;
  }
};

template <class What>
sluice_status run(sluice_device* device, const What& what, sluice_stream stream,
                  const sluice_workspace* workspace = nullptr) {
  sluice_call call = what.call();
  call.workspace = workspace;
  return sluice_run(device, &call, stream);
}

/// Fills in the problem that the arrays of `what` make.
template <class What>
sluice_status describe(const What& what, sluice_problem* problem) {
  sluice_call call = what.call();
  const sluice_status status = sluice_describe(&call);
  *problem = call.problem;
  return status;
}

}  // namespace sluice
