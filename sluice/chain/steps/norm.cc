// SPDX-License-Identifier: Apache-2.0
#include <sluice/chain/shaped_step.h>
#include <sluice/chain/steps/kinds.h>
#include <sluice/run/ops/norm.h>

namespace sluice {
namespace {

class NormOfChain : public ShapedStep<ops::NormOp> {
 public:
  using ShapedStep::ShapedStep;

  StepRecipe recipe() const override {
    return NormRecipe{.rows = args_.shape.rows,
                      .columns = args_.shape.columns,
                      .input = options_.input,
                      .store = norm_store_of(options_)};
  }
};

}  // namespace

std::shared_ptr<const Step> make_step(const NormStep& step) {
  return std::make_shared<const NormOfChain>(step.options, ops::NormOp::Args{step.shape, step.args});
}

}  // namespace sluice
