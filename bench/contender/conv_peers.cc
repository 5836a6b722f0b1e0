// SPDX-License-Identifier: Apache-2.0
// A, B and D are the tensors that sluice/conv.h assigns to them.
#include "bench/contender/conv_peers.h"

#include <fmt/format.h>

#include <algorithm>

#include <sluice/messages/errors.h>
#include <sluice/run/driver/memory.h>
#include <sluice/spec/conv_problem.h>
#include <sluice/try.h>

#include "bench/device.h"

namespace sluice::bench {
namespace {

constexpr u32 kAddThreads = 256;
constexpr int kAddVector = 4;  // elements per step of a thread: 8 bytes of 16-bit values

struct AddParams {
  const void* product;
  void* sum;
  i64 vectors;
};

/// Returns why this problem has no counterpart in cuDNN; nullptr if it has one.
const char* missing_counterpart(const Problem& p, float alpha) {
  const Epilogue& e = p.epilogue;
  if (e.bias != Bias::none || e.activation != Activation::none || e.residual)
    return "cuDNN is asked for convolutions without bias, activation and residual";
  if (e.scale_a != ScaleMode::none || e.scale_b != ScaleMode::none || e.scale_d != ScaleMode::none)
    return "cuDNN is asked for convolutions without scales";
  if (alpha != 1.0f) return "cuDNN is asked for convolutions with alpha = 1";
  return nullptr;
}

CudnnPointers pointers_of(ConvOp op, const gemm::Args& args, void* result) {
  void* const a = const_cast<void*>(args.a);
  void* const b = const_cast<void*>(args.b);
  switch (op) {
    case ConvOp::dgrad: return {.x = result, .w = b, .y = a};
    case ConvOp::wgrad: return {.x = b, .w = result, .y = a};
    default: return {.x = a, .w = b, .y = result};
  }
}

}  // namespace

Result<CudnnConvolution> cudnn_convolution(const Conv& conv, const Problem& problem, float alpha) {
  if (const char* reason = missing_counterpart(problem, alpha)) return Error{ErrorCode::invalid_type, reason};
  return CudnnConvolution{.conv = conv,
                          .inputs = problem.a.type,
                          .result = adds(problem.epilogue) ? problem.a.type : problem.d.type};
}

std::string add_unit_text(DType type) {
  constexpr const char* kFromFp16 = R"(__device__ inline float value_of(unsigned bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((unsigned short)bits));
  return value;
})";
  constexpr const char* kFromBf16 = R"(__device__ inline float value_of(unsigned bits) {
  return __uint_as_float(bits << 16);
})";
  constexpr const char* kAdd = R"(
struct Params { const uint2* product; float4* sum; long long vectors; };
extern "C" __global__ void __launch_bounds__(256) sluice_entry(const __grid_constant__ Params p) {
  const long long step = (long long)gridDim.x * 256;
  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < p.vectors; i += step) {
    const uint2 four = p.product[i];
    float4 sum = p.sum[i];
    sum.x += value_of(four.x & 0xffff);
    sum.y += value_of(four.x >> 16);
    sum.z += value_of(four.y & 0xffff);
    sum.w += value_of(four.y >> 16);
    p.sum[i] = sum;
  }
}
)";
  return std::string(type == DType::fp16 ? kFromFp16 : kFromBf16) + kAdd;
}

Result<ConvPeers> ConvPeers::create(const Lab& lab, const Conv& conv, std::span<const ProblemData> copies) {
  const Problem& p = copies[0].problem();
  if (lab.cudnn == nullptr) return Error{ErrorCode::toolchain, lab.without_cudnn};
  SLUICE_TAKE(const CudnnConvolution stated, cudnn_convolution(conv, p, copies[0].spec().alpha));
  const ContextScope scope(context_of(lab.device));
  SLUICE_TRY(scope.entered());
  ConvPeers made(lab, conv, copies);
  SLUICE_TAKE(made.found_, plans_of(*lab.cudnn, stated));
  if (made.found_.plans.empty())
    return error_of(ErrorCode::driver, "cuDNN built no plan: {}", made.refusals());
  i64 most = 0;
  for (const CudnnPlan& plan : made.found_.plans) most = std::max(most, plan.workspace_bytes);
  SLUICE_TAKE(made.workspace_, DeviceBuffer::allocate(lab.device, std::max<i64>(most, 256)));
  if (!adds(p.epilogue)) return made;
  if (!is_16bit(p.a.type) || p.d.type != DType::fp32 || filter_elements(conv) % kAddVector != 0)
    return Error{ErrorCode::invalid_type,
                 "the kernel beside cuDNN adds bf16 or fp16 to fp32, four at a time"};
  SLUICE_TAKE(made.adds_, load_unit(lab.device, add_unit_text(p.a.type)));
  SLUICE_TAKE(made.product_, DeviceBuffer::allocate(lab.device, filter_elements(conv) * bytes_of(p.a.type)));
  return made;
}

std::string ConvPeers::refusals() const {
  std::string text;
  for (const CudnnRefusal& refusal : found_.refused)
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", refusal.tag, refusal.why);
  return text;
}

Contender ConvPeers::contender(int number, const std::string& name) const {
  const CudnnPlan& plan = found_.plans[static_cast<size_t>(number)];
  std::vector<CudnnPointers> pointers;
  for (const ProblemData& copy : copies_)
    pointers.push_back(
        pointers_of(conv_.op, copy.args(), adds_ != nullptr ? product_.data() : copy.args().d));
  Contender made = cudnn_contender(lab_->device, plan, std::move(pointers), workspace_.data(), name);
  made.unit_alpha = true;
  if (plan.deterministic()) made.detail += " deterministic";
  if (adds_ == nullptr) return made;
  made.detail += " + add";
  made.launch = [this, product = made.launch](int copy, Stream stream) -> Result<void> {
    SLUICE_TRY(product(copy, stream));
    const AddParams params{product_.data(), copies_[static_cast<size_t>(copy)].args().d,
                           filter_elements(conv_) / kAddVector};
    const i64 blocks =
        std::min<i64>(ceil_div(params.vectors, i64{kAddThreads}), 8 * lab_->device.info().sm_count);
    return launch_module(lab_->device, *adds_, {.grid_x = static_cast<u32>(blocks), .block_x = kAddThreads},
                         &params, stream);
  };
  return made;
}

}  // namespace sluice::bench
