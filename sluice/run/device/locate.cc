// SPDX-License-Identifier: Apache-2.0
#include <sluice/run/device/locate.h>

#include <sluice/plan/text/units.h>
#include <sluice/run/device/device_impl.h>
#include <sluice/run/driver/capture_mode.h>
#include <sluice/run/driver/error.h>
#include <sluice/run/driver/events.h>
#include <sluice/run/driver/launch.h>
#include <sluice/run/driver/memory.h>
#include <sluice/spec/locate.h>
#include <sluice/try.h>

namespace sluice {
namespace {

/// CTAs of the widest cluster. No kernel uses such clusters, but only they join the halves of a GPC.
constexpr int kWidestCluster = 16;
/// Launches in a row: the first may start at another GPC than launches that follow one.
constexpr int kRepeats = 3;
constexpr u32 kHoldNs = 10'000;

/// Adds a few launches of one cluster size; none if the GPU cannot make such clusters. A failed launch is
/// reported by the wait for the stream.
Result<void> add_launches(const Device& device, const Module& module, int cluster, const DeviceBuffer& buffer,
                          const StreamHandle& stream, std::vector<LaunchPlaces>& launches) {
  const int ctas = device.info().sm_count / cluster * cluster;
  if (ctas == 0) return {};
  const LaunchShape shape{.grid_x = static_cast<u32>(ctas),
                          .block_x = kLocateThreads,
                          .cluster_x = static_cast<u32>(cluster),
                          .smem_bytes = kLocateSmemBytes};
  std::vector<u32> sms(static_cast<std::size_t>(kRepeats * ctas));
  for (int i = 0; i < kRepeats; ++i) {
    const LocateParams params{.sms = static_cast<u32*>(buffer.data()) + i * ctas, .hold_ns = kHoldNs};
    if (!launch_kernel(*device.impl().api, module.function(), shape, &params, stream.get()))
      return stream.synchronize();
  }
  const i64 bytes = static_cast<i64>(sms.size() * sizeof(u32));
  SLUICE_TRY(buffer.download_async(sms.data(), bytes, stream.get()));
  SLUICE_TRY(stream.synchronize());
  for (auto from = sms.begin(); from != sms.end(); from += ctas)
    launches.push_back({.cluster = cluster, .sms = std::vector<u32>(from, from + ctas)});
  return {};
}

Result<GpcOrder> find_order(const Device& device) {
  SLUICE_TAKE(const std::shared_ptr<const Module> module,
              device.impl().load_unit(locate_unit_text(), kLocateSmemBytes));
  const ContextScope scope(*device.impl().primary);
  SLUICE_TRY(scope.entered());
  const DriverApi& api = *device.impl().api;
  const RelaxedCapture whatever_is_captured(api);
  if (const CUresult code =
          api.cuFuncSetAttribute(module->function(), CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
      code != CUDA_SUCCESS)
    return driver_error(api, code, "cuFuncSetAttribute", "clusters of more than 8 CTAs");
  SLUICE_TAKE(
      const DeviceBuffer buffer,
      DeviceBuffer::allocate(device, i64{kRepeats} * device.info().sm_count * static_cast<i64>(sizeof(u32))));
  SLUICE_TAKE(const StreamHandle stream, StreamHandle::create(device));
  std::vector<LaunchPlaces> launches;
  const auto add = [&](int cluster) {
    return add_launches(device, *module, cluster, buffer, stream, launches);
  };
  SLUICE_TRY(add(kWidestCluster));
  for (const int cluster : kNumberedClusters) SLUICE_TRY(add(cluster));
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
    SLUICE_TAKE(GpcOrder found, find_order(device));
    impl.gpc_order = std::make_shared<const GpcOrder>(std::move(found));
  }
  return impl.gpc_order;
}

}  // namespace sluice
