// SPDX-License-Identifier: Apache-2.0
#include <sluice/chain.h>
#include <sluice/chain/shaped_step.h>
#include <sluice/run/ops/experts/combine.h>
#include <sluice/run/ops/experts/route.h>

namespace sluice {

OpStep route_step(const RouteOptions& options, const RouteShape& shape, const RouteArgs& args) {
  return op_step<ops::RouteOp>(options, {shape, args});
}

OpStep combine_step(const CombineOptions& options, const CombineShape& shape, const CombineArgs& args) {
  return op_step<ops::CombineOp>(options, {shape, args});
}

}  // namespace sluice
