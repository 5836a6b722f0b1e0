// SPDX-License-Identifier: Apache-2.0
// What tools/gpu_sanitize.sh runs under compute-sanitizer: `planted.*` must make their tool complain,
// `sanitize.*` must not. Without a tool all pass. Problems are small and few because a tool slows a kernel
// down a hundredfold.
#include <cstdio>
#include <cstdlib>

#include <sluice/host/device_impl.h>
#include <sluice/host/driver/launch.h>
#include <sluice/host/driver/memory.h>

#include "batch_runner.h"
#include "config_pool.h"
#include "gpu.h"
#include "kernel_pool.h"
#include "planted_bugs.h"
#include "kernel_changes.h"

namespace sluice::testing {
namespace {

/// SLUICE_CHANGE names what is changed in the kernels (tests/gpu/kernel_changes.cc).
class sanitize : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    const char* name = std::getenv("SLUICE_CHANGE");
    if (name == nullptr) return;
    const Change* change = find_change(name);
    ASSERT_NE(change, nullptr) << "no change is called " << name;
    device().impl().cache = changed_cache(device().options(), *change, {"--generate-line-info"});
  }
};
class planted : public GpuTest {
 protected:
  void SetUp() override {
    if (setting("SLUICE_PLANTED", 0) == 0)
      GTEST_SKIP() << "for tools/gpu_sanitize.sh, which sets SLUICE_PLANTED=1";
    GpuTest::SetUp();
  }
  void launch(const std::string& unit, bool initialised) {
    const auto module = device().impl().load_unit(unit, 0);
    ASSERT_TRUE(ok(module));
    const auto data = DeviceBuffer::allocate(device(), kPlantedInts * sizeof(int));
    const auto sum = DeviceBuffer::allocate(device(), sizeof(int));
    ASSERT_TRUE(ok(data));
    ASSERT_TRUE(ok(sum));
    if (initialised) {
      ASSERT_TRUE(ok(data->fill(1, nullptr)));
    }
    const PlantedParams params{static_cast<int*>(data->data()), static_cast<int*>(sum->data())};
    const ContextScope scope(*device().impl().primary);
    ASSERT_TRUE(ok(launch_kernel(*device().impl().api, (*module)->function(),
                                 {.grid_x = 1, .block_x = kPlantedInts}, &params, nullptr)));
    const Result<void> waited =
        synchronize(device());  // memcheck makes this fail, which is its way to report
    if (!waited) std::printf("the tool stopped the kernel: %s\n", waited.error().message.c_str());
  }
};

TEST_F(planted, memcheck_finds_a_write_past_the_end) {
  launch(planted_unit("memcheck"), true);
}
TEST_F(planted, racecheck_finds_a_missing_barrier) {
  launch(planted_unit("racecheck"), true);
}
TEST_F(planted, initcheck_finds_a_read_of_what_nobody_wrote) {
  launch(planted_unit("initcheck"), false);
}
TEST_F(planted, synccheck_finds_a_warp_barrier_with_a_wrong_mask) {
  launch(planted_unit("synccheck"), true);
}
TEST_F(planted, divergent_barrier_is_what_half_a_warp_misses) {
  launch(planted_unit("divergent"), true);
}
TEST_F(planted, nothing_is_found_in_the_sound_kernel) {
  launch(sound_unit(), true);
}

struct Size {
  i64 m, n, k;
  int clusters;
};

/// Two CTAs' worth of tiles for each cluster at least: the ring wraps, ping-pong takes turns, buffers are
/// used again.
constexpr Size kSizes[] = {{300, 200, 520, 1}, {65, 72, 64, 0}, {129, 129, 1100, 2}};

TEST_F(sanitize, every_class_of_kernel) {
  const i64 only = setting("SLUICE_SANITIZE_CLASS", -1);  // to look at one class alone
  const std::vector<KernelConfig> classes = class_pool();
  if (only < 0) {
    ASSERT_TRUE(ok(class_kernels(device())));
  }
  auto runner = BatchRunner::create(device(), 1, i64{32} << 20);
  ASSERT_TRUE(ok(runner));
  for (size_t i = 0; i < classes.size(); ++i) {
    if (only >= 0 && static_cast<size_t>(only) != i) continue;
    for (const Size& size : kSizes) {
      const Problem problem = problem_for(classes[i], size.m, size.n, size.k);
      const auto kernel =
          gemm::prepare(device(), plan_for(problem, classes[i], device().info(), size.clusters));
      ASSERT_TRUE(ok(kernel));
      const std::string name = "SLUICE_SANITIZE_CLASS=" + std::to_string(i);
      ASSERT_TRUE(ok(runner->run(*kernel, exact_data(problem, i + 1), Judge::exact, name)));
    }
  }
  ASSERT_TRUE(ok(runner->flush()));
  for (const Failure& failure : runner->failures()) ADD_FAILURE() << describe(failure);
  std::printf("%d problems on %zu classes\n", runner->passed(), only >= 0 ? size_t{1} : classes.size());
}

}  // namespace
}  // namespace sluice::testing
