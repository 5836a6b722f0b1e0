// SPDX-License-Identifier: Apache-2.0
// An operation that the library does not know, in one file with its kernel: y = factor * x, in fp32. The
// engine can plan, compile, launch and cache it, and a chain can contain it as a step. Tested by
// tests/unit/seventh_op_test.cc.
#pragma once

#include <algorithm>

#include <sluice/plan/hash.h>
#include <sluice/plan/text/field_text.h>
#include <sluice/run/ops/kept.h>
#include <sluice/run/ops/kernel_handle.h>

namespace sluice::seventh {

struct ScaleOptions {
  bool negate = false;  // y = -factor * x
  Overlap overlap{};

  bool operator==(const ScaleOptions&) const = default;
};
struct ScaleShape {
  i64 count = 0;
};
struct ScaleArgs {
  const float* x = nullptr;
  float* y = nullptr;
  float factor = 1.0f;
  WarmRange hand_off{};
};

/// Parameters of the kernel; must have the same layout as its struct below.
struct ScaleParams {
  const float* x;
  float* y;
  i64 count;
  float factor;
  WarmRange hand_off;
};

inline constexpr int kThreads = 256;
inline constexpr i64 kElementsOfThread = 4;

inline std::size_t key_hash(const ScaleOptions& options) {
  return hash_of({options.negate});
}

struct Scale : ops::ShapedOp<Scale, ScaleOptions> {
  using ShapedOp::bind;
  using Handle = BasicKernel<ScaleOptions>;
  struct Args {
    ScaleShape shape;
    ScaleArgs args;
  };
  struct Image {
    DeviceInfo device;
  };
  using Call = ops::ShapedCall<ScaleShape>;

  static Result<Plan> sealed(const Plan& plan, const DeviceInfo&) { return plan; }

  static std::vector<std::string> units(const Plan& plan) {
    return {
        "#include <sluice/device/dependent_launch.cuh>\n"
        "struct ScaleParams { const float* x; float* y; sluice::i64 count; float factor; "
        "sluice::WarmRange hand_off; };\n"
        "inline constexpr sluice::Overlap kOverlap = " +
        text_of(plan.overlap) +
        ";\n"
        "extern \"C\" __global__ void __launch_bounds__(256)\n"
        "sluice_entry(const __grid_constant__ ScaleParams p) {\n"
        "  using Launch = sluice::DependentLaunch<kOverlap>;\n"
        "  Launch::begin();\n"
        "  if (threadIdx.x == 0) Launch::hand_off(p);\n"
        "  Launch::wait();\n"
        "  for (sluice::i64 i = blockIdx.x * 256 + threadIdx.x; i < p.count; i += gridDim.x * 256)\n"
        "    p.y[i] = " +
        (plan.negate ? "-" : "") + "p.factor * p.x[i];\n}\n"};
  }

  static Result<void> load(const ops::Units& units, ops::Prepared<Scale>& kernel) {
    SLUICE_TRY(load_all(units, kernel));
    kernel.image.device = units.device.info();
    return {};
  }

  static Result<Operands> operands(const ScaleShape& shape) {
    Operands o;
    o.add({.name = "x", .type = DType::fp32, .may_be = 1}, {shape.count});
    o.add({.name = "y", .role = Role::write, .type = DType::fp32}, {shape.count});
    SLUICE_TRY(o.check_extents());
    return o;
  }

  static Result<Call> bind(const Plan&, const Args& given) {
    if (given.shape.count < 0)
      return Error{ErrorCode::invalid_size,
                   "count = " + std::to_string(given.shape.count) + ": must not be negative"};
    SLUICE_TRY(check_hand_off(given.args.hand_off.bytes));
    Call call{.shape = given.shape, .nothing = given.shape.count == 0};
    SLUICE_TAKE(call.operands, operands(given.shape));
    call.pointers = {.at = {given.args.x, given.args.y}};
    return call;
  }

  static Result<void> enqueue(const ops::Prepared<Scale>& kernel, const Call& call, const Args& given,
                              Stream stream) {
    const ScaleParams params{.x = given.args.x,
                             .y = given.args.y,
                             .count = call.shape.count,
                             .factor = given.args.factor,
                             .hand_off = given.args.hand_off};
    const i64 wanted = ceil_div(call.shape.count, kThreads * kElementsOfThread);
    const i64 most = i64{kernel.image.device.sm_count} * 8;
    const LaunchShape shape{.grid_x = static_cast<u32>(std::clamp<i64>(wanted, 1, most)),
                            .block_x = kThreads};
    return launch_spread(kernel, {0, shape}, params, stream);
  }

  static std::string missing(const Problem&) { return "no kernel that scales is ready"; }
  static std::string text(const Problem&, const Args& args) {
    return "scale " + std::to_string(args.shape.count);
  }
};

}  // namespace sluice::seventh

template <>
struct sluice::BasicKernel<sluice::seventh::ScaleOptions>::Impl
    : sluice::ops::Prepared<sluice::seventh::Scale> {};
