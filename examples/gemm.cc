// SPDX-License-Identifier: Apache-2.0
// The public interface in one program: open, plan, prepare, launch. All inputs are one, so every element of D
// is k. The caller owns memory and streams; here they come from the CUDA runtime.
#include <cuda_runtime.h>
#include <sluice/gemm.h>

#include <cstdio>
#include <vector>

namespace {

int fail(const sluice::Error& error) {
  std::fprintf(stderr, "%s: %s\n", name_of(error.code), error.message.c_str());
  return 1;
}

}  // namespace

int main() {
  const auto device = sluice::Device::open(0, sluice::options_from_environment());
  if (!device) return fail(device.error());

  const sluice::Problem problem{.m = 1024, .n = 2048, .k = 4096};  // bf16 in and out, B stored n x k
  const auto plan = sluice::gemm::plan(problem, device->info(), {}, device->records());
  if (!plan) return fail(plan.error());
  const auto kernel = sluice::gemm::prepare(*device, *plan);  // compiles, or finds it in the cache
  if (!kernel) return fail(kernel.error());
  std::printf("%s", describe(*plan).c_str());

  constexpr unsigned short kOne = 0x3f80;  // 1.0 in bf16
  const std::vector<unsigned short> ones(2048 * 4096, kOne);
  sluice::gemm::Args args;
  void *a = nullptr, *b = nullptr;
  if (cudaMalloc(&a, 1024 * 4096 * 2) != cudaSuccess || cudaMalloc(&b, 2048 * 4096 * 2) != cudaSuccess ||
      cudaMalloc(&args.d, 1024 * 2048 * 2) != cudaSuccess)
    return fail({sluice::ErrorCode::driver, "out of device memory"});
  cudaMemcpy(a, ones.data(), 1024 * 4096 * 2, cudaMemcpyHostToDevice);
  cudaMemcpy(b, ones.data(), 2048 * 4096 * 2, cudaMemcpyHostToDevice);
  args.a = a;
  args.b = b;
  // A split-K plan adds its slices in a workspace. Each stream needs its own, which is zeroed once and
  // reused.
  const auto workspace = sluice::Workspace::create(*device, plan->workspace_bytes);
  if (!workspace) return fail(workspace.error());
  args.workspace = workspace->view();

  const auto launched = sluice::gemm::launch(*kernel, args, nullptr);  // asynchronous; any stream
  if (!launched) return fail(launched.error());
  unsigned short first = 0;
  cudaMemcpy(&first, args.d, 2, cudaMemcpyDeviceToHost);
  std::printf("d[0][0] = 0x%04x, 4096 in bf16 is 0x4580\n", first);
  return first == 0x4580 ? 0 : 1;
}
