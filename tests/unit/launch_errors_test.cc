// SPDX-License-Identifier: Apache-2.0
// Invalid calls: each kind returns its documented error, names the argument and the value, and launches
// nothing. The ten kinds are numbered. To see one fail: remove its line in ops/operands.cc. Every `refused`
// also counts launches.
#include "launch_fixture.h"

namespace sluice {
namespace {

class LaunchErrors : public LaunchTest {
 protected:
  Result<void> run(const Problem& problem, const gemm::Args& args = {}) {
    return gemm::run(device(), problem, args, nullptr);
  }
  Result<void> launch(const gemm::Args& args, Stream stream = nullptr) {
    return gemm::launch(kernel, args, stream);
  }

  const gemm::Kernel kernel = prepared(full_problem());
  const gemm::Args good = args_for(full_problem());
};

TEST_F(LaunchErrors, the_good_call_is_good) {
  launched(launch(good), 1);
}

TEST_F(LaunchErrors, kind_1_null) {
  const struct {
    const char* name;
    void (*clear)(gemm::Args&);
  } cases[] = {{"A is null", [](gemm::Args& x) { x.a = nullptr; }},
               {"B is null", [](gemm::Args& x) { x.b = nullptr; }},
               {"C is null", [](gemm::Args& x) { x.c = nullptr; }},
               {"D is null", [](gemm::Args& x) { x.d = nullptr; }},
               {"scale_a is null", [](gemm::Args& x) { x.scale_a = nullptr; }},
               {"scale_b is null", [](gemm::Args& x) { x.scale_b = nullptr; }},
               {"bias is null", [](gemm::Args& x) { x.bias = nullptr; }}};
  for (const auto& [name, clear] : cases) {
    gemm::Args args = good;
    clear(args);
    refused(launch(args), ErrorCode::invalid_pointer, name);
  }
}

TEST_F(LaunchErrors, kind_2_misaligned) {
  const struct {
    const char* rule;
    void (*move)(gemm::Args&);
  } cases[] = {{"multiple of 16", [](gemm::Args& x) { x.a = shifted(x.a, 8); }},
               {"multiple of 16", [](gemm::Args& x) { x.b = shifted(x.b, 2); }},
               {"StorePath::direct", [](gemm::Args& x) { x.d = shifted(x.d, 8); }},
               {"multiple of 2", [](gemm::Args& x) { x.c = shifted(x.c, 1); }},
               {"multiple of 4", [](gemm::Args& x) { x.scale_a = shifted(x.scale_a, 2); }},
               {"multiple of 4", [](gemm::Args& x) { x.scale_b = shifted(x.scale_b, 1); }},
               {"multiple of 4", [](gemm::Args& x) { x.bias = shifted(x.bias, 2); }}};
  for (const auto& [rule, move] : cases) {
    gemm::Args args = good;
    move(args);
    refused(launch(args), ErrorCode::misaligned, rule);
  }
  gemm::Args args = good;
  args.c = shifted(args.c, 2);  // C only needs the alignment of an element
  args.scale_a = shifted(args.scale_a, 4);
  launched(launch(args), 1);
}

TEST_F(LaunchErrors, kind_3_wrong_stride) {
  Problem p = small_problem();
  p.a.ld = 120;
  refused(run(p, good), ErrorCode::invalid_stride, "120");
  p = small_problem();
  p.d.ld = 511;
  refused(run(p, good), ErrorCode::invalid_stride, "511");
  p = small_problem();
  p.batch = 2;
  p.d.batch_stride = 512;  // matrices of D overlap
  refused(run(p, good), ErrorCode::invalid_stride, "512");
  p = small_problem();
  p.a.type = p.b.type = DType::e4m3;
  p.a.ld = 129;
  refused(run(p, good), ErrorCode::misaligned, "129");
}

TEST_F(LaunchErrors, kind_4_k_not_a_multiple) {
  Problem p = small_problem();
  p.k = 100;
  p.a.type = p.b.type = DType::e4m3;
  refused(run(p, good), ErrorCode::misaligned, "must be a multiple of 16 for e4m3");
}

TEST_F(LaunchErrors, kind_5_overlap) {
  const struct {
    const char* name;
    void (*alias)(gemm::Args&);
  } cases[] = {{"overlaps A", [](gemm::Args& x) { x.a = x.d; }},
               {"overlaps B", [](gemm::Args& x) { x.b = shifted(x.d, 64); }},
               {"overlaps C", [](gemm::Args& x) { x.c = shifted(x.d, 2); }},
               {"overlaps scale_a", [](gemm::Args& x) { x.scale_a = static_cast<const float*>(x.d); }},
               {"overlaps scale_b", [](gemm::Args& x) { x.scale_b = static_cast<const float*>(x.d) + 1; }},
               {"overlaps bias", [](gemm::Args& x) { x.bias = shifted(x.d, 256 * 512 * 2 - 4); }}};
  for (const auto& [name, alias] : cases) {
    gemm::Args args = good;
    alias(args);
    refused(launch(args), ErrorCode::aliasing, name);
  }
  gemm::Args args = good;  // begins right after the last byte of D, so nothing overlaps
  args.bias = shifted(args.d, 256 * 512 * 2);
  EXPECT_TRUE(ops::check_args<ops::Gemm>(kernel.impl(), args).ok());
}

TEST_F(LaunchErrors, kind_5_c_is_d_with_other_strides_or_type) {
  Problem p = full_problem();
  p.c.ld = 520;
  gemm::Args args = args_for(p);
  args.c = args.d;
  refused(gemm::launch(prepared(p), args, nullptr), ErrorCode::aliasing, "same type and strides");
  p = full_problem();
  p.epilogue.c_type = DType::fp16;
  refused(gemm::launch(prepared(p), args, nullptr), ErrorCode::aliasing, "same type and strides");
}

TEST_F(LaunchErrors, kind_6_negative) {
  for (i64 Problem::*size : {&Problem::m, &Problem::n, &Problem::k, &Problem::batch}) {
    Problem p = small_problem();
    p.*size = -1;
    refused(run(p, good), ErrorCode::invalid_size, "-1");
  }
  Problem p = small_problem();
  p.b.ld = -128;
  refused(run(p, good), ErrorCode::invalid_stride, "-128");
}

TEST_F(LaunchErrors, kind_7_past_2_to_the_31) {
  for (i64 Problem::*size : {&Problem::m, &Problem::n, &Problem::k, &Problem::batch}) {
    Problem p = small_problem();
    p.*size = i64{1} << 31;
    refused(run(p, good), ErrorCode::invalid_size, "2147483648");
  }
  Problem p = small_problem();
  p.batch = 1 << 20;
  p.m = 1 << 20;  // each size is valid, but there are more than 2^31 tiles
  refused(run(p, good), ErrorCode::invalid_size, "1048576");
}

TEST_F(LaunchErrors, kind_8_wrong_device) {
  const gemm::Args other = args_for(full_problem(), 1);
  gemm::Args args = good;
  args.b = other.b;
  refused(launch(args), ErrorCode::wrong_device, "is memory of device 1");
  driver.make_current(1);
  refused(launch(good), ErrorCode::wrong_device, "the current context is of device 1");
  driver.make_current(-1);
  refused(launch(good, driver.foreign_stream()), ErrorCode::wrong_device, "another device or context");
  driver.make_current(0);
  launched(launch(good), 1);
}

TEST_F(LaunchErrors, kind_8_host_memory) {
  const auto host_memory = [&](unsigned kind) { return driver.memory(1 << 20, 0, kind); };
  for (const unsigned kind : {unsigned{0}, unsigned{CU_MEMORYTYPE_HOST}}) {
    gemm::Args args = good;
    args.a = host_memory(kind);
    refused(launch(args), ErrorCode::invalid_pointer, "A = 0x");
    args = good;
    args.d = host_memory(kind);
    refused(launch(args), ErrorCode::invalid_pointer, "host memory or none");
    args = good;
    args.scale_b = static_cast<const float*>(host_memory(kind));
    refused(launch(args), ErrorCode::invalid_pointer, "scale_b = 0x");
  }
}

TEST(LaunchErrorsNoDevice, kind_9_no_hopper) {
  FakeDriver driver;
  driver.machine.compute_major = 8;
  const Result<Device> device = open_fake_device();
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.error().code, ErrorCode::unsupported_arch);
  const Result<Plan> plan = gemm::plan(small_problem(), {.compute_major = 8});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, ErrorCode::unsupported_arch);
  EXPECT_EQ(driver.alive(), Alive{});
}

TEST_F(LaunchErrors, kind_10_capture_without_prepare) {
  const StreamHandle stream = *StreamHandle::create(device());
  const int modules = driver.alive().modules;
  Problem p = full_problem();
  p.m = 512;
  const gemm::Args args = args_for(p);
  const Result<Graph> graph =
      Graph::capture(device(), stream.get(), [&] { return gemm::run(device(), p, args, stream.get()); });
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.error().code, ErrorCode::not_prepared);
  EXPECT_NE(graph.error().message.find(".m = 512"), std::string::npos) << graph.error().message;
  EXPECT_EQ(driver.launches(), 0);
  EXPECT_EQ(driver.alive().modules, modules) << "nothing is compiled or loaded during a capture";
  EXPECT_EQ(device().impl().cache.stats().compiles, 1) << "only this fixture's kernel";
}

}  // namespace
}  // namespace sluice
