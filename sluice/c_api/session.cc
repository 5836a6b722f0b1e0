// SPDX-License-Identifier: Apache-2.0
// Runs calls on a device. After the first run of a problem, a run is a look-up under a lock, then a launch.
#include <sluice/c_api/session.h>

#include <vector>

#include <sluice/plan/text/quantize_units.h>
#include <sluice/run/device/workspace.h>
#include <sluice/run/driver/memory.h>
#include <sluice/run/ops/experts/combine.h>
#include <sluice/run/ops/experts/route.h>
#include <sluice/run/ops/gemm.h>
#include <sluice/run/ops/norm.h>
#include <sluice/run/ops/pack.h>
#include <sluice/run/ops/quantize.h>
#include <sluice/try.h>

namespace sluice::c_api {
namespace {

/// The remedy in an error message: the C or Python function to call before a capture.
template <class Op>
constexpr const char* kRemedy = "";
template <>
constexpr const char* kRemedy<ops::QuantizeOp> =
    "call prepare_quantizers() (sluice_make_quantizers_ready), or run it once, before the capture";
template <>
constexpr const char* kRemedy<ops::NormOp> =
    "call prepare_norms() (sluice_make_norms_ready), or run it once, before the capture";
constexpr const char* kExpertRemedy =
    "call prepare_experts() (sluice_make_experts_ready), or run it once, before the capture";
template <>
constexpr const char* kRemedy<ops::RouteOp> = kExpertRemedy;
template <>
constexpr const char* kRemedy<ops::CombineOp> = kExpertRemedy;
template <>
constexpr const char* kRemedy<ops::PackOp> =
    "call prepare_packer() (sluice_make_packer_ready) for it, or pack once, before the capture";

ops::PackOp::Args args_of(const PackCall& call, PackStep step) {
  return {step,
          call.shape,
          {.codes = static_cast<u8*>(call.codes),
           .scales = static_cast<u8*>(call.scales),
           .zeros = static_cast<u8*>(call.zeros),
           .blob = static_cast<u8*>(call.blob)}};
}

}  // namespace

std::vector<QuantizerOptions> quantizers_of(DType input) {
  std::vector<QuantizerOptions> all;
  for (const Gate gate : kGates)
    for (const Granularity granularity : kGranularities)
      all.push_back({.input = input, .granularity = granularity, .gate = gate});
  if (input != DType::fp32) all.push_back({.input = input, .gate = Gate::silu});
  return all;
}

std::vector<NormOptions> norms_of(DType input) {
  return {{.input = input},
          {.input = input, .quantize = Granularity::tensor},
          {.input = input, .quantize = Granularity::row},
          {.input = input, .quantize = Granularity::row_block}};
}

ExpertKernels experts_of(DType type) {
  ExpertKernels kernels{.routers = {{.wide_ids = false}, {.wide_ids = true}}, .combiners = {{.type = type}}};
  kernels.gatherers.push_back({.input = type, .gathered = true});
  for (const Granularity granularity : {Granularity::tensor, Granularity::row, Granularity::row_block})
    kernels.gatherers.push_back({.input = type, .granularity = granularity, .gathered = true});
  return kernels;
}

template <class Op>
Result<void> Session::run_op(const typename Op::Problem& problem, const typename Op::Args& args,
                             Stream stream) {
  return ops::run<Op>(device_, problem, args, stream, kRemedy<Op>);
}

Result<void> Session::make_ready(std::span<const Problem> problems, int race) {
  return gemm::prepare(device_, problems, race);
}

Result<RowSummary> Session::make_ready(const Problem& problem, RowRange rows) {
  return gemm::prepare(device_, problem, rows);
}

Result<void> Session::use(const Plan& plan) {
  return ops::use<ops::Gemm>(device_, plan);
}

Result<void> Session::quantize(const QuantizeCall& call, Stream stream) {
  const ops::QuantizeOp::Args args{call.shape, call.args};
  const char* const remedy = call.gathered ? kExpertRemedy : kRemedy<ops::QuantizeOp>;
  return ops::run<ops::QuantizeOp>(device_, call.options(), args, stream, remedy);
}

Result<void> Session::make_quantizers_ready(DType input) {
  return ops::make_ready<ops::QuantizeOp>(device_, quantizers_of(input));
}

Result<void> Session::norm(const NormCall& call, Stream stream) {
  return run_op<ops::NormOp>(call.options, {call.shape, call.args}, stream);
}

Result<void> Session::make_norms_ready(DType input) {
  return ops::make_ready<ops::NormOp>(device_, norms_of(input));
}

Result<void> Session::route(const RouteCall& call, Stream stream) {
  return run_op<ops::RouteOp>(call.options, {call.shape, call.args}, stream);
}

Result<void> Session::combine(const CombineCall& call, Stream stream) {
  return run_op<ops::CombineOp>(call.options, {call.shape, call.args}, stream);
}

Result<void> Session::make_experts_ready(DType type) {
  const ExpertKernels kernels = experts_of(type);
  SLUICE_TRY(ops::make_ready<ops::RouteOp>(device_, kernels.routers));
  SLUICE_TRY(ops::make_ready<ops::QuantizeOp>(device_, kernels.gatherers));
  return ops::make_ready<ops::CombineOp>(device_, kernels.combiners);
}

Result<void> Session::pack(const PackCall& call, Stream stream) {
  return run_op<ops::PackOp>({call.format}, args_of(call, PackStep::pack), stream);
}

Result<void> Session::unpack(const PackCall& call, Stream stream) {
  return run_op<ops::PackOp>({call.format}, args_of(call, PackStep::unpack), stream);
}

Result<void> Session::make_packer_ready(const WeightFormat& format) {
  const ops::PackerPlan packer{format};
  return ops::make_ready<ops::PackOp>(device_, std::span(&packer, 1));
}

Result<void> Session::verify_workspaces() {
  for (const Workspace& workspace : device_.impl().lender.all_lent()) SLUICE_TRY(workspace.verify());
  return {};
}

Result<void> Session::reset_workspaces() {
  SLUICE_TRY(synchronize(device_));
  for (const Workspace& workspace : device_.impl().lender.all_lent())
    SLUICE_TRY(zero_now(device_, workspace));
  return {};
}

Session::Holdings Session::holdings() {
  const WorkspaceLender::Holdings workspaces = device_.impl().lender.holdings();
  return {static_cast<i64>(ops::kept<ops::Gemm>(device_).size()), workspaces.lent, workspaces.bytes};
}

}  // namespace sluice::c_api
