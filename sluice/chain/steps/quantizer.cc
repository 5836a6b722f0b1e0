// SPDX-License-Identifier: Apache-2.0
#include <sluice/chain/shaped_step.h>
#include <sluice/chain/steps/kinds.h>
#include <sluice/run/ops/quantize.h>

namespace sluice {
namespace {

class QuantizerOfChain : public ShapedStep<ops::QuantizeOp> {
 public:
  using ShapedStep::ShapedStep;

  Result<void> check(const ChainStep& step) const override {
    if (options_.granularity == Granularity::tensor && !args_.args.scale_given)
      return refused(
          "a scale of the whole matrix takes two kernels: give the scale (scale_given), or quantise rows");
    return ShapedStep::check(step);
  }
  StepRecipe recipe() const override {
    return QuantizerRecipe{.rows = args_.shape.rows,
                           .columns = args_.shape.columns,
                           .input = options_.input,
                           .output = options_.granularity ? DType::e4m3 : options_.input,
                           .granularity = options_.granularity.value_or(Granularity::tensor),
                           .gate = options_.gate};
  }
};

}  // namespace

std::shared_ptr<const Step> make_step(const QuantizerStep& step) {
  return std::make_shared<const QuantizerOfChain>(
      QuantizerOptions{
          .input = step.input, .granularity = step.granularity, .gate = step.gate, .gathered = step.gathered},
      ops::QuantizeOp::Args{step.shape, step.args});
}

}  // namespace sluice
