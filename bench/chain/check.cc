// SPDX-License-Identifier: Apache-2.0
// Steps with equal plans share a kernel, so each kernel is launched once.
#include "bench/chain/check.h"

#include <cmath>

#include <sluice/chain.h>
#include <sluice/check/packed_check.h>
#include <sluice/messages/errors.h>
#include <sluice/try.h>

#include "bench/contender/sluice_contender.h"

namespace sluice::bench {
namespace {

/// Allowed ratio of measured to predicted distance. In recorded chains it is 0.6 to 1.8.
constexpr double kDistanceSlack = 2.5;
/// Upper limit of any allowed distance. A result of zeros has distance 1, an unrelated result 1.4.
constexpr double kUnrelated = 0.7;

Result<void> verdict(const std::string& kernel, const Result<Comparison>& found) {
  if (!found) return found.error();
  if (found->passed() && found->checked > 0) return {};
  const bool wrong = found->verdict() == Verdict::wrong || found->checked == 0;
  return error_of(ErrorCode::internal, "{} is {}: {}", kernel, wrong ? "wrong" : "not judged",
                  describe(*found));
}

/// Root mean square of the rounding error of `type`, relative to the rounded number.
double rounding_of(DType type) {
  return 0.72 / std::sqrt(3.0) * std::exp2(-(verify::code_layout(type).fraction_bits + 1));
}

Result<void> check_packed(const Lab& lab, const Plan& plan) {
  SLUICE_TAKE(packed::HostData host, packed::random_data(packed::small_problem(plan.problem),
                                                         packed::DataKind::exact, lab.method.seed));
  SLUICE_TAKE(const packed::DeviceData data, packed::DeviceData::create(lab.device, std::move(host)));
  return verdict(short_name(plan.config),
                 packed::check_config(lab.device, data, plan.config, lab.stream.get()));
}

}  // namespace

Result<void> check_product(const Lab& lab, const Problem& problem, const OnOperands& launch) {
  const Scalars scalars{.alpha = 1.0f / std::sqrt(static_cast<float>(problem.k)),
                        .beta = problem.epilogue.residual ? 1.0f : 0.0f};
  SLUICE_TAKE(ProblemData made, make_operands(lab, problem, scalars, lab.method.seed));
  SLUICE_TAKE(const Contender contender, launch(std::span(&made, 1)));
  return verdict(contender.detail, verify(lab, contender, made));
}

Result<void> check_products(const Lab& lab, const ChainPlan& plan) {
  for (const StepPlan& step : plan.plans) {
    const auto* product = step.get<Plan>();
    if (product == nullptr) continue;
    if (is_packed(product->problem)) {
      SLUICE_TRY(check_packed(lab, *product));
      continue;
    }
    const auto ours = [&](std::span<const ProblemData> operands) -> Result<Contender> {
      SLUICE_TAKE(const gemm::Kernel kernel, gemm::prepare(lab.device, *product));
      return sluice_contender(lab, kernel, operands, "sluice");
    };
    SLUICE_TRY(check_product(lab, product->problem, ours));
  }
  return {};
}

double predicted_distance(const LayerSpec& spec) {
  const int layers = spec.layers * spec.passes;
  const double token = rounding_of(token_type(spec)), stream = rounding_of(DType::bf16);
  if (spec.parts == LayerParts::projections)
    return std::sqrt(2.0 * static_cast<double>(layers * static_cast<int>(kLayerProducts))) * token;
  // Each layer adds two numbers to the residual stream, each as large as the stream was at first. Each
  // addition rounds the stream, in both variants. Each added number has been rounded four times in both
  // variants. Relative to the stream, its error shrinks as the stream grows.
  double squares = 0;
  for (int i = 0; i < 2 * layers; ++i) squares += 2 * stream * stream + 8 * token * token / (i + 2);
  return std::sqrt(squares);
}

double most_distance(const LayerSpec& spec) {
  return std::min(kDistanceSlack * predicted_distance(spec), kUnrelated);
}

}  // namespace sluice::bench
