// SPDX-License-Identifier: Apache-2.0
// NaN and infinity must propagate from inputs, C and scales, and from results beyond a type's range. Values
// that must not be read (C with beta = 0, padding) are NaN and must have no effect. One kernel of each class
// is tested.
#include <sluice/kernels/verify_arith.h>

#include "batch_runner.h"
#include "config_pool.h"
#include "gpu.h"
#include "kernel_pool.h"

namespace sluice::testing {
namespace {

constexpr i64 kArenaBytes = i64{64} << 20;

class special_values : public GpuTest {
 protected:
  /// Runs every class of kernel on a small exact problem whose data `change` has altered. D must still equal
  /// the fp64 result.
  template <class Change>
  void expect_agreement(const Change& change) {
    ASSERT_TRUE(ok(class_kernels(device())));
    auto runner = BatchRunner::create(device(), 16, kArenaBytes);
    ASSERT_TRUE(ok(runner));
    u64 seed = 0;
    for (const KernelConfig& config : class_pool()) {
      const Problem problem = problem_for(config, 130, 72, 200);
      DataSpec data = exact_data(problem, ++seed);
      change(data);
      const auto kernel = gemm::prepare(device(), plan_for(problem, config, device().info()));
      ASSERT_TRUE(ok(kernel));
      ASSERT_TRUE(ok(runner->run(*kernel, data, Judge::exact, "seed " + std::to_string(seed))));
    }
    ASSERT_TRUE(ok(runner->flush()));
    for (const Failure& failure : runner->failures()) ADD_FAILURE() << describe(failure);
  }
};

TEST_F(special_values, of_a_come_out_in_their_rows) {
  expect_agreement([](DataSpec& data) {
    // Values have magnitude 1: e4m3 saturates infinity to 448, and sums must stay exact.
    data.a = {.kind = Fill::specials};
    data.b.magnitude = 1;
  });
}

TEST_F(special_values, of_b_come_out_in_their_columns) {
  expect_agreement([](DataSpec& data) {
    data.b = {.kind = Fill::specials};
    data.a.magnitude = 1;
  });
}

TEST_F(special_values, of_c_come_out_where_they_are) {
  expect_agreement([](DataSpec& data) {
    data.c.kind = Fill::specials;
    data.beta = 1.0f;
  });
}

TEST_F(special_values, of_the_bias_fill_their_columns) {
  expect_agreement([](DataSpec& data) { data.bias.kind = Fill::specials; });
}

TEST_F(special_values, c_is_not_read_when_beta_is_zero) {
  expect_agreement([](DataSpec& data) {
    data.beta = 0.0f;
    data.c.kind = Fill::poison;
  });
}

TEST_F(special_values, a_b_and_scales_are_not_read_when_alpha_is_zero) {
  expect_agreement([](DataSpec& data) {
    data.alpha = 0.0f;
    data.a.kind = data.b.kind = data.scale_a.kind = data.scale_b.kind = Fill::poison;
  });
}

}  // namespace
}  // namespace sluice::testing
