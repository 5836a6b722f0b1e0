// SPDX-License-Identifier: Apache-2.0
#include <sluice/host/locate.h>

#include <sluice/host/device_impl.h>
#include <sluice/host/driver/error.h>
#include <sluice/host/driver/events.h>
#include <sluice/host/driver/launch.h>
#include <sluice/host/driver/memory.h>
#include <sluice/host/jit/source.h>
#include <sluice/spec/locate.h>

namespace sluice {
namespace {

/// Of 16: no kernel's, but only they join the halves of a GPC.
constexpr int kClusterSizes[] = {16, 8, 4, 2, 1};
constexpr int kMostPortable = 8;
/// Behind each other: the first may find the GPU at rest, which deals out its CTAs from another GPC on.
constexpr int kRepeats = 3;
constexpr u32 kHoldNs = 10'000;

/// A few launches of one cluster size; the last one's places. Empty if the GPU makes no such clusters.
Result<LaunchPlaces> places_of(const Device& device, const Module& module, int cluster,
                               const DeviceBuffer& buffer, const StreamHandle& stream) {
  const DriverApi& api = *device.impl().api;
  const int ctas = device.info().sm_count / cluster * cluster;
  LaunchPlaces places{.cluster = cluster, .sms = std::vector<u32>(static_cast<std::size_t>(ctas))};
  const LaunchShape shape{.grid_x = static_cast<u32>(ctas),
                          .block_x = kLocateThreads,
                          .cluster_x = static_cast<u32>(cluster),
                          .smem_bytes = kLocateSmemBytes};
  const LocateParams params{.sms = static_cast<u32*>(buffer.data()), .hold_ns = kHoldNs};
  for (int i = 0; i < kRepeats; ++i)
    if (Result<void> launched = launch_kernel(api, module.function(), shape, &params, stream.get());
        !launched) {
      if (cluster > kMostPortable) return LaunchPlaces{.cluster = cluster};
      return launched.error();
    }
  if (Result<void> done = stream.synchronize(); !done) return done.error();
  const i64 bytes = static_cast<i64>(places.sms.size() * sizeof(u32));
  if (Result<void> read = buffer.download(places.sms.data(), bytes); !read) return read.error();
  return places;
}

Result<GpcOrder> find_order(const Device& device) {
  const Result<std::shared_ptr<const Module>> module =
      device.impl().load_unit(locate_unit_text(), kLocateSmemBytes);
  if (!module) return module.error();
  const ContextScope scope(*device.impl().primary);
  if (const Result<void> entered = scope.entered(); !entered) return entered.error();
  const DriverApi& api = *device.impl().api;
  if (const CUresult code = api.cuFuncSetAttribute((*module)->function(),
                                                   CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
      code != CUDA_SUCCESS)
    return driver_error(api, code, "cuFuncSetAttribute", "clusters of more than 8 CTAs");
  const Result<DeviceBuffer> buffer =
      DeviceBuffer::allocate(device, i64{device.info().sm_count} * static_cast<i64>(sizeof(u32)));
  if (!buffer) return buffer.error();
  const Result<StreamHandle> stream = StreamHandle::create(device);
  if (!stream) return stream.error();
  std::vector<LaunchPlaces> launches;
  for (const int cluster : kClusterSizes) {
    Result<LaunchPlaces> places = places_of(device, **module, cluster, *buffer, *stream);
    if (!places) return places.error();
    launches.push_back(*std::move(places));
  }
  return gpc_order_of(launches);
}

}  // namespace

std::string locate_unit_text() {
  return "#include <sluice/kernels/locate.cuh>\n" + entry_text({.params = "sluice::LocateParams",
                                                                .threads = "sluice::kLocateThreads",
                                                                .ctas = "1",
                                                                .call = "sluice::locate(params)"});
}

Result<std::shared_ptr<const GpcOrder>> gpc_order(const Device& device) {
  Device::Impl& impl = device.impl();
  const std::lock_guard lock(impl.gpc_order_mutex);
  if (impl.gpc_order == nullptr) {
    Result<GpcOrder> found = find_order(device);
    if (!found) return found.error();
    impl.gpc_order = std::make_shared<const GpcOrder>(*std::move(found));
  }
  return impl.gpc_order;
}

}  // namespace sluice
