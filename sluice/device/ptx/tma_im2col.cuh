// SPDX-License-Identifier: Apache-2.0
// The copy engine's im2col mode: loads consecutive pixels, each shifted by the tap's offsets, and stores
// consecutive pixels. PTX ISA 9.7.9.27, "im2col mode" (sm_90).
#pragma once

#include <sluice/spec/params.h>

namespace sluice::ptx {

/// Channel, coordinates of the first pixel before the tap's offset, and image. Pixels outside the tensor, and
/// channels past its last, are read as zero and never written.
struct PixelAt {
  int channel, w, h, d, image;
};

// cp.async.bulk.tensor.{3,4,5}d.shared::cluster.global.im2col: completes on `barrier` with the bytes of the
// whole box. `tap`: its offsets are given w first.
template <int kSpatial>
SLUICE_DEVICE void tma_load_pixels(u32 destination, const TensorMap& map, const PixelAt& at, const Tap& tap,
                                   u32 barrier) {
  if constexpr (kSpatial == 1)
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5}], [%2], {%6};" ::"r"(destination),
        "l"(&map), "r"(barrier), "r"(at.channel), "r"(at.w), "r"(at.image), "h"(tap.offset[0])
        : "memory");
  else if constexpr (kSpatial == 2)
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(destination),
        "l"(&map), "r"(barrier), "r"(at.channel), "r"(at.w), "r"(at.h), "r"(at.image), "h"(tap.offset[0]),
        "h"(tap.offset[1])
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10};" ::"r"(destination),
        "l"(&map), "r"(barrier), "r"(at.channel), "r"(at.w), "r"(at.h), "r"(at.d), "r"(at.image),
        "h"(tap.offset[0]), "h"(tap.offset[1]), "h"(tap.offset[2])
        : "memory");
}

// tma_load_pixels with .multicast::cluster: writes the same offsets, and signals, in every CTA of `cta_mask`
template <int kSpatial>
SLUICE_DEVICE void tma_load_pixels_multicast(u32 destination, const TensorMap& map, const PixelAt& at,
                                             const Tap& tap, u32 barrier, u16 cta_mask) {
  if constexpr (kSpatial == 1)
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], {%6}, %7;" ::"r"(destination),
        "l"(&map), "r"(barrier), "r"(at.channel), "r"(at.w), "r"(at.image), "h"(tap.offset[0]), "h"(cta_mask)
        : "memory");
  else if constexpr (kSpatial == 2)
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8}, %9;" ::"r"(destination),
        "l"(&map), "r"(barrier), "r"(at.channel), "r"(at.w), "r"(at.h), "r"(at.image), "h"(tap.offset[0]),
        "h"(tap.offset[1]), "h"(cta_mask)
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%0], [%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10}, %11;" ::"r"(destination),
        "l"(&map), "r"(barrier), "r"(at.channel), "r"(at.w), "r"(at.h), "r"(at.d), "r"(at.image),
        "h"(tap.offset[0]), "h"(tap.offset[1]), "h"(tap.offset[2]), "h"(cta_mask)
        : "memory");
}

// cp.async.bulk.tensor.{3,4,5}d.global.shared::cta.im2col_no_offs.bulk_group
template <int kSpatial>
SLUICE_DEVICE void tma_store_pixels(const TensorMap& map, const PixelAt& at, u32 source) {
  if constexpr (kSpatial == 1)
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs.bulk_group [%0, {%2, %3, %4}], [%1];" ::
            "l"(&map),
        "r"(source), "r"(at.channel), "r"(at.w), "r"(at.image)
        : "memory");
  else if constexpr (kSpatial == 2)
    asm volatile(
        "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%0, {%2, %3, %4, %5}], "
        "[%1];" ::"l"(&map),
        "r"(source), "r"(at.channel), "r"(at.w), "r"(at.h), "r"(at.image)
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.5d.global.shared::cta.im2col_no_offs.bulk_group [%0, {%2, %3, %4, %5, %6}], "
        "[%1];" ::"l"(&map),
        "r"(source), "r"(at.channel), "r"(at.w), "r"(at.h), "r"(at.d), "r"(at.image)
        : "memory");
}

}  // namespace sluice::ptx
