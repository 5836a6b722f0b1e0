// SPDX-License-Identifier: Apache-2.0
// Operands of a convolution that TMA loads in im2col mode (gather.h), from the boxes that the load thread
// requested, and outputs that are not contiguous in D. See numbers.h.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include <sluice/reference/element.h>
#include <sluice/twin/conv_maps.h>
#include <sluice/twin/numbers.h>
#include <sluice/device/pipeline.cuh>

namespace sluice::twin {
namespace {

GatherAt place_of(const ConvBoxes& boxes, i64 channel) {
  return {
      .channel = channel, .pixel = {boxes.pixel[0], boxes.pixel[1], boxes.pixel[2]}, .image = boxes.image};
}

/// Returns the rows of one box of a load.
Result<std::vector<GatherRow>> rows_of_box(const GatherMap& map, const ConvBoxes& boxes, const TapBox& box) {
  std::vector<GatherRow> rows;
  if (auto checked = check_gather_map(map); !checked) return checked.error();
  if (auto loaded = gather_load(map, place_of(boxes, box.channel), box.offset, rows); !loaded)
    return loaded.error();
  return rows;
}

}  // namespace

void Numbers::refuse(const Step& step, const Error& error) {
  if (!refused_) refused_ = Failure{FailureKind::wrong_boxes, to_string(step) + ": " + error.message};
}

void Numbers::load_rows(const Step& load, int row_begin, int row_end, Stage& stage) {
  const KernelConfig& c = work_.config;
  const Conv& v = work_.problem.conv;
  const Phases phases = phases_of(v);
  const Phase& phase = phases.items[c.conv.phased ? load.tile.batch : 0];
  const auto rows =
      rows_of_box(gathered_map(v, c.a, phase, c.tile.k, row_end - row_begin), load.conv, load.conv.boxes[0]);
  if (!rows) return refuse(load, rows.error());
  for (int row = row_begin; row < row_end; ++row) {
    const GatherRow& from = (*rows)[static_cast<size_t>(row - row_begin)];
    for (int k = 0; k < c.tile.k; ++k)
      stage.a[row * c.tile.k + k] =
          k < from.channels ? static_cast<float>(load_element(c.a, work_.buffers.a, from.element + k)) : 0.0f;
  }
}

void Numbers::load_columns(const Step& load, int k_begin, int k_end, Stage& stage) {
  const KernelConfig& c = work_.config;
  const Conv& v = work_.problem.conv;
  const Phases phases = phases_of(v);
  const GatherMap map = gathered_map(v, c.b, phases.items[0], kMnBlock, k_end - k_begin);
  for (int atom = 0; atom < load.conv.count; ++atom) {
    const auto rows = rows_of_box(map, load.conv, load.conv.boxes[atom]);
    if (!rows) return refuse(load, rows.error());
    for (int k = k_begin; k < k_end; ++k) {
      const GatherRow& from = (*rows)[static_cast<size_t>(k - k_begin)];
      for (int i = 0; i < kMnBlock; ++i)
        stage.b[k * c.tile.n + atom * kMnBlock + i] =
            i < from.channels ? static_cast<float>(load_element(c.b, work_.buffers.b, from.element + i))
                              : 0.0f;
    }
  }
}

/// Stores a chunk of a phase. Its rows are consecutive pixels of the phase, interleaved in dx with those of
/// other phases.
void Numbers::store_phase(const Step& chunk, const StoreBuffer& buffer) {
  const KernelConfig& c = work_.config;
  const Conv& v = work_.problem.conv;
  const Phases phases = phases_of(v);
  const Phase& phase = phases.items[chunk.tile.batch];
  const GatherMap map = phase_map(v, c.d, phase, store_columns(c), kWaveRows);
  std::vector<GatherRow> rows;
  if (auto checked = check_gather_map(map); !checked) return refuse(chunk, checked.error());
  if (auto stored = gather_store(map, place_of(chunk.conv, chunk.tile.n_offset + chunk.column), rows);
      !stored)
    return refuse(chunk, stored.error());
  const i64 size = bytes_of(c.d);
  for (int i = 0; i < kWaveRows; ++i) {
    const GatherRow& to = rows[static_cast<size_t>(i)];
    std::memcpy(static_cast<u8*>(work_.buffers.d) + size * (phase_offset(v, phase) + to.element),
                buffer.bytes.data() + i * store_row_bytes(c), static_cast<size_t>(to.channels * size));
  }
}

/// Stores a chunk of a filter's gradient into the matrix of its first column's tap, like Machine::store_box.
void Numbers::store_filter_chunk(const Step& chunk, i64 first_row, i64 first_column,
                                 const StoreBuffer& buffer) {
  const Problem& p = work_.problem;
  const KernelConfig& c = work_.config;
  const i64 of_tap = padded_channels(p.conv.channels), tap = first_column / of_tap;
  const i64 channel = first_column % of_tap, size = bytes_of(c.d);
  if (tap >= taps_of(p.conv)) return;
  const i64 count = std::min<i64>(store_columns(c), p.conv.channels - channel);
  for (i64 i = 0; i < kWaveRows && first_row + i < p.m; ++i)
    for (i64 j = 0; j < count; ++j) {
      const i64 to = d_index(p, {tap, first_row + i, channel + j});  // the batch of D is the taps
      const u8* from = buffer.bytes.data() + i * store_row_bytes(c) + j * size;
      if (chunk.adds)
        add_to_d(to, static_cast<float>(load_element(DType::fp32, from, 0)));
      else
        std::memcpy(static_cast<u8*>(work_.buffers.d) + size * to, from, static_cast<size_t>(size));
    }
}

i64 Numbers::d_place(const ElementIndex& at) const {
  const Problem& p = work_.problem;
  if (at.row >= p.m || at.column >= d_columns(p)) return -1;
  if (p.conv.op != ConvOp::wgrad) return d_index(p, at);
  const int column = filter_column(gather_, static_cast<int>(p.n), static_cast<int>(at.column));
  return column < 0 ? -1 : at.row * p.d.ld + column;
}

}  // namespace sluice::twin
