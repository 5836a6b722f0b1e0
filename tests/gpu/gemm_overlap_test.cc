// SPDX-License-Identifier: Apache-2.0
// Tests dense products that are launched before the previous launch has written A, its scales, C or the D
// that they add to. An earlier launch also reads D late. The kernels are those of contract_pool.h: every
// kind, with each wait. To see it fail: remove a wait from kernels/plain.cuh or gemm.cuh (and
// Module::check_waits). overlap_contract's own test proves that this is detected.
#include <sluice/check/verify_data.h>

#include "contract_pool.h"
#include "gpu.h"
#include "overlap_contract.h"

namespace sluice::testing {
namespace {

class gemm_overlap : public GpuTest {
 protected:
  Result<DeviceBuffer> filled(i64 bytes, u8 value) {
    Result<DeviceBuffer> memory = DeviceBuffer::allocate(device(), bytes);
    if (memory)
      if (Result<void> done = memory->fill(value, nullptr); !done) return done.error();
    return memory;
  }

  /// Expects the same result from `chained`, the kernel with overlap, as from `alone`, the same kernel
  /// without.
  void expect_contract(const Plan& plan, const gemm::Kernel& chained, const gemm::Kernel& alone) {
    const Problem& p = plan.problem;
    const Result<DataLayout> layout = lay_out(p, {});  // offsets and sizes of the operands
    ASSERT_TRUE(ok(layout));
    const Region* const regions = layout->regions;
    // The byte 0x3c is 1.5 in e4m3, and two of them are 0.0115 in bf16. All other operands have this value,
    // so only A makes elements of D differ.
    constexpr u8 kSmall = 0x3c;
    const auto a = filled(regions[0].span_bytes, kSmall), b = filled(regions[1].span_bytes, kSmall);
    const auto c = filled(regions[2].span_bytes, kSmall), d = filled(regions[kRegionD].span_bytes, 0);
    constexpr u8 kScale = 0x3f;  // four such bytes are 0.747 in fp32
    const auto bias = filled(regions[4].span_bytes, kSmall), scale_a = filled(regions[5].span_bytes, kScale);
    const auto scale_b = filled(regions[6].span_bytes, kScale),
               scale_d = filled(regions[7].span_bytes, kScale);
    const auto workspace = Workspace::create(device(), plan.workspace_bytes);
    ASSERT_TRUE(ok(a) && ok(b) && ok(c) && ok(d) && ok(workspace));
    ASSERT_TRUE(ok(scale_a) && ok(scale_b) && ok(scale_d) && ok(bias));
    const auto at = [](const DeviceBuffer& buffer, const Matrix& x) {
      return static_cast<const u8*>(buffer.data()) + (x.unaligned ? bytes_of(x.type) : 0);
    };
    const gemm::Args args{.a = at(*a, p.a),
                          .b = at(*b, p.b),
                          .c = c->data(),
                          .d = d->data(),
                          .scale_a = static_cast<const float*>(scale_a->data()),
                          .scale_b = static_cast<const float*>(scale_b->data()),
                          .scale_d = static_cast<const float*>(scale_d->data()),
                          .bias = bias->data(),
                          .beta = p.epilogue.residual ? 1.0f : 0.0f,
                          .workspace = workspace->view(),
                          .prefetch = {b->data(), b->bytes()},
                          .hand_off = {b->data(), b->bytes()}};
    const auto launching = [&](const gemm::Kernel& kernel, const DeviceBuffer& input) {
      return Chained{.launch = [&args, kernel](Stream stream) { return gemm::launch(kernel, args, stream); },
                     .input = &input,
                     .outputs = {&*d}};
    };
    const struct {
      const char* name;
      const DeviceBuffer& input;
      bool read;
    } inputs[] = {{"A", *a, true},
                  // A wgrad has no weights: B is images or their gradient.
                  {"B", *b, p.conv.op == ConvOp::wgrad},
                  {"scale_a", *scale_a, scale_a_count(p) > 0},
                  {"C", *c, p.epilogue.residual},
                  {"D", *d, p.epilogue.update == Update::add}};
    for (const auto& [name, input, read] : inputs)
      for (const bool in_graph : {false, true}) {
        if (!read || (in_graph && &input != &*a)) continue;
        const Result<i64> differing =
            bytes_that_differ(device(), launching(alone, input), launching(chained, input), in_graph);
        ASSERT_TRUE(ok(differing));
        EXPECT_EQ(*differing, 0) << short_name(plan.config) << ", late " << name
                                 << (in_graph ? ", in a graph" : "");
      }
    const Result<i64> early = bytes_written_early(device(), launching(chained, *a));
    ASSERT_TRUE(ok(early));
    EXPECT_EQ(*early, 0) << short_name(plan.config);
    EXPECT_TRUE(ok(workspace->verify()));
  }

  void expect_contracts(const Result<std::vector<Plan>>& given) {
    ASSERT_TRUE(ok(given));
    record("cases", static_cast<i64>(given->size()));
    std::vector<Plan> plans;  // each plan with overlap is followed by the same one without
    for (const Plan& plan : *given) {
      plans.push_back(plan);
      plans.push_back(plan);
      plans.back().config.overlap = {};
    }
    const auto kernels = gemm::prepare(device(), plans);
    for (size_t i = 0; i < plans.size(); i += 2) {
      ASSERT_TRUE(ok(kernels[i]) && ok(kernels[i + 1])) << short_name(plans[i].config);
      expect_contract(plans[i], *kernels[i], *kernels[i + 1]);
    }
  }
};

TEST_F(gemm_overlap, keeps_the_contract_with_every_schedule_cluster_and_split) {
  expect_contracts(contract_role_plans(device().info()));
}
TEST_F(gemm_overlap, keeps_the_contract_with_strided_operands) {
  expect_contracts(contract_strided_plans(device().info()));
}
TEST_F(gemm_overlap, keeps_the_contract_of_convolutions) {
  expect_contracts(contract_gathering_plans(device().info()));
}
TEST_F(gemm_overlap, keeps_the_contract_with_odd_widths) {
  expect_contracts(contract_width_plans(device().info()));
}
TEST_F(gemm_overlap, keeps_the_contract_with_every_value_of_every_field) {
  expect_contracts(contract_field_plans(device().info()));
}

}  // namespace
}  // namespace sluice::testing
