// SPDX-License-Identifier: Apache-2.0
// Operands are random real numbers of about unit size. With small whole numbers or zeros, the GPU would run
// at a higher clock (docs/performance.md).
#include "bench/contender/sluice_contender.h"

#include <algorithm>

#include <sluice/try.h>

#include "bench/conv.h"

namespace sluice::bench {
namespace {

constexpr int kL2Multiple = 3;
// Multiply-adds of D that are checked: some 10 ms of fp64; more would find nothing new.
constexpr i64 kCheckedProducts = i64{1} << 32;

DataSpec data_spec(const Lab& lab, Scalars scalars, u64 seed) {
  const Fill fill = lab.method.uniform ? Fill::uniform : Fill::normal;
  return {.seed = seed,
          .a = {.kind = fill},
          .b = {.kind = fill},
          .c = {.kind = scalars.beta == 0 ? Fill::poison : Fill::normal},
          .bias = {.kind = Fill::normal},
          .scale_a = {.kind = Fill::positive},
          .scale_b = {.kind = Fill::positive},
          .alpha = scalars.alpha,
          .beta = scalars.beta};
}

}  // namespace

Contender sluice_contender(const Lab& lab, const gemm::Kernel& kernel, std::span<const ProblemData> copies,
                           const std::string& name) {
  return {.name = name,
          .detail = short_name(kernel.plan().config),
          .launch = [kernel, copies, workspace = lab.workspace](int copy, Stream stream) {
            gemm::Args args = copies[static_cast<size_t>(copy)].args();
            args.workspace = workspace.view();
            return gemm::launch(kernel, args, stream);
          }};
}

int copies_for(const Problem& p, i64 l2_bytes, i64 set_bytes, bool cold) {
  if (!cold) return 1;
  const bool conv = is_conv(p.conv);
  const ConvElements elements = conv ? conv_elements(p.conv) : ConvElements{};
  const i64 weights = conv ? elements.a * bytes_of(p.a.type) + elements.b * bytes_of(p.b.type)
                           : p.n * p.k * b_matrices(p) * bytes_of(p.b.type);
  const i64 wanted = std::max<i64>(ceil_div(kL2Multiple * l2_bytes, std::max<i64>(weights, 1)), 2);
  const i64 most = std::max<i64>(kMaxDataBytes / std::max<i64>(set_bytes, 1), 1);
  return static_cast<int>(std::min({wanted, most, i64{kMostCopies}}));
}

Result<ProblemData> make_operands(const Lab& lab, const Problem& problem, Scalars scalars, u64 seed) {
  return lab.verifier.make_data(problem, data_spec(lab, scalars, seed), lab.stream.get());
}

Result<std::vector<ProblemData>> make_copies(const Lab& lab, const Problem& stated, Scalars scalars) {
  const Problem problem = lowered(stated);
  const i64 set_bytes = data_bytes(problem, data_spec(lab, scalars, 1));
  const int count = copies_for(stated, lab.device.info().l2_bytes, set_bytes, lab.method.cold);
  std::vector<ProblemData> copies;
  for (int i = 0; i < count; ++i) {
    SLUICE_TAKE(ProblemData data,
                make_operands(lab, problem, scalars, lab.method.seed + static_cast<u64>(i)));
    copies.push_back(std::move(data));
  }
  SLUICE_TRY(lab.stream.synchronize());
  return copies;
}

namespace {

/// Operands of whole numbers. C is set if the real-valued operands have a C.
DataSpec exact_spec(const ProblemData& data, bool unit_alpha) {
  DataSpec spec = exact_data(data.problem(), data.spec().seed);
  while ((spec.beta == 0.0f) != (data.spec().beta == 0.0f)) spec = exact_data(data.problem(), spec.seed + 1);
  if (unit_alpha) spec.alpha = 1.0f;
  return spec;
}

/// Runs and checks the contender on operands that have just been refilled.
Result<Comparison> judged(const Lab& lab, const Contender& contender, const ProblemData& data, Judge judge) {
  const Stream stream = lab.stream.get();
  if (contender.refilled) SLUICE_TRY(contender.refilled(0));
  SLUICE_TRY(contender.launch(0, stream));
  return lab.verifier.check(
      data,
      {.judge = judge, .max_products = kCheckedProducts, .activation_error = contender.activation_error},
      stream);
}

}  // namespace

Result<Comparison> verify(const Lab& lab, const Contender& contender, ProblemData& data) {
  const Stream stream = lab.stream.get();
  const DataSpec real = data.spec();
  DataSpec spec = exact_spec(data, contender.unit_alpha);
  // With groups a kernel is right if it is with every routing; else these are one and the same data.
  for (const Routing routing : {Routing::balanced, Routing::skewed, Routing::one}) {
    spec.routing = routing;
    SLUICE_TRY(lab.verifier.refill(data, spec, stream));
    const Result<Comparison> exact = judged(lab, contender, data, Judge::exact);
    if (!exact || !exact->passed()) {
      SLUICE_TRY(lab.verifier.refill(data, real, stream));
      return exact;
    }
    if (!reads_table(data.problem())) break;
  }
  SLUICE_TRY(lab.verifier.refill(data, real, stream));
  return judged(lab, contender, data, Judge::bounded);
}

}  // namespace sluice::bench
