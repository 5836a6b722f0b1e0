// SPDX-License-Identifier: Apache-2.0
// Public structs initialised in user code: some fields by name, the rest omitted. Compiled with -Wextra
// -Werror, so a member without an initialiser fails (-Wmissing-field-initializers).
#include <sluice/chain.h>
#include <sluice/pack.h>
#include <sluice/spec/packed.h>

namespace user {

sluice::PlanOverrides overrides() {
  return {.stages = 4};
}
sluice::PlanOverrides packed_overrides() {
  return {.warps = 4};
}
sluice::Options options() {
  return {.jobs = 1};
}
sluice::Error error() {
  return {.code = sluice::ErrorCode::io};
}
std::vector<sluice::ChainStep> steps(void* x) {
  return {
      {.work = sluice::ProductStep{.problem = {.m = 8, .n = 64, .k = 64}}, .name = "qkv"},
      {.work = sluice::ProductStep{.args = {.a = x}}},
      {.work = sluice::ProductStep{.problem = {.m = 8, .b = {.packed = {.group = 64}}}, .args = {.a = x}}},
      {.work = sluice::ProductStep{.overrides = {.schedule = sluice::Schedule::strip, .tile_n = 64}}},
      {.work = sluice::NormStep{.options = {.input = sluice::DType::fp16}, .shape = {.rows = 1}}},
      {.work = sluice::NormStep{.args = {.input = x}}},
      {.work = sluice::QuantizerStep{.input = sluice::DType::fp16, .shape = {.rows = 1}}},
      {.work = sluice::QuantizerStep{.args = {.input = x}}},
      {.work = sluice::ForeignStep{.nodes = 0}},
      {.name = "nothing"}};
}
sluice::ChainOptions chain_options() {
  return {.overlap = sluice::ChainOverlap::off};
}
sluice::gemm::Args args(void* a) {
  return {.a = a};
}
sluice::PackArgs pack(void* codes) {
  return {.codes = codes};
}
sluice::Problem problem() {
  return {.m = 1, .epilogue = {.bias = sluice::Bias::column}};
}
sluice::Problem packed_problem() {
  return {.m = 1, .b = {.packed = {.group = 64}}};
}
sluice::Problem packed_problem_of_a_type() {
  return sluice::packed_problem(1, 64, 128, sluice::DType::fp16, sluice::DType::bf16, {.group = 64});
}
sluice::Plan plan() {
  return {.smem_bytes = 0};
}
sluice::NormOptions norm() {
  return {.input = sluice::DType::fp16};
}
std::vector<sluice::ChainStep> experts(int* rows) {
  return {{.work = sluice::route_step({.wide_ids = true}, {.tokens = 1}, {.ends = rows})},
          {.work = sluice::QuantizerStep{.args = {.row_index = rows}, .gathered = true}},
          {.work = sluice::combine_step({}, {.tokens = 1}, {.row_of_slot = rows})}};
}
sluice::TunedChoice tuned() {
  return {.tile_m = 64};
}

}  // namespace user
