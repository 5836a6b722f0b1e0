// SPDX-License-Identifier: Apache-2.0
// The numeric contents of the simulated machine. The mma_k products of one instruction are summed in double
// and added to an fp32 accumulator with one rounding; docs/numerics.md tells how the tensor core differs.
// Sums that are sent to other CTAs are in numbers_combine.cc.
#include <sluice/twin/numbers.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <sluice/reference/element.h>
#include <sluice/reference/quantize.h>
#include <sluice/spec/loaded_rows.h>

namespace sluice::twin {

Numbers::Numbers(const Work& work, const Scenario& scenario, Workspace& workspace)
    : work_(work),
      scenario_(scenario),
      workspace_(workspace),
      stages_(scenario.ctas() * work.config.stages),
      groups_(scenario.ctas() * kMathGroups) {
  const KernelConfig& c = work.config;
  if (is_conv(work.problem.conv)) gather_ = gather_for(work.problem.conv, c.tile.k);
  for (Stage& s : stages_) {
    // NaN rather than 0, so that a use of elements that were not loaded is visible.
    s.a.assign(c.tile.m * c.tile.k, std::numeric_limits<float>::quiet_NaN());
    s.b.assign(c.tile.k * c.tile.n, std::numeric_limits<float>::quiet_NaN());
  }
  for (Group& g : groups_) {
    g.sums.resize(group_rows(c) * c.tile.n);
    if (promotes()) g.partial.resize(g.sums.size());
    g.sent.resize(c.cluster.k);
    g.received.resize(c.cluster.k);
    for (StoreBuffer& buffer : g.buffers) buffer.bytes.resize(store_buffer_bytes(c));
  }
}

void Numbers::on_step(int agent_index, const Step& step) {
  const Agent agent = agent_at(scenario_, agent_index);
  if (step.kind == StepKind::write_scales) stage(agent.cta, step.stage).scales = step;
  if (agent.role == Role::copies && (step.kind == StepKind::load_a || step.kind == StepKind::load_b))
    on_load(agent.cta, step.kind == StepKind::load_a ? 0 : work_.config.cluster.n, step);
  if (agent.role != Role::math) return;
  Group& group = group_of(agent);
  switch (step.kind) {
    case StepKind::begin_tile:
      if (promotes() || step.count == 0) std::fill(group.sums.begin(), group.sums.end(), 0.0f);
      break;
    case StepKind::issue_mma: group.in_flight.push_back(step); break;
    case StepKind::clear_rest: clear_rest(agent, step); break;
    case StepKind::retire_older: retire(agent, 1); break;
    case StepKind::retire_all: retire(agent, 0); break;
    case StepKind::read_scales: group.scales = stage(agent.cta, step.stage).scales; break;
    case StepKind::read_columns: group.of_columns = stage(agent.cta, step.stage).scales; break;
    case StepKind::promote: promote(agent, step.unit); break;
    case StepKind::write_chunk: write_chunk(agent, step); break;
    case StepKind::issue_store: group.buffers[step.stage].issued = step; break;
    case StepKind::store_direct: store_direct(agent, step); break;
    case StepKind::copy_chunk: copy_chunk(agent, step); break;
    case StepKind::send_sums: send(agent, step); break;
    case StepKind::receive_sums: receive(agent, step); break;
    case StepKind::write_partial: write_partial(agent, step.tile); break;
    case StepKind::elect: count_arrival(agent, step); break;
    case StepKind::sum_partials: sum_partials(agent, step.tile); break;
    default: break;
  }
}

namespace {
/// Returns the row of B at position `row` in the order in which tiles use rows.
i64 row_of_b(const Problem& p, i64 row) {
  return p.epilogue.gated ? gated_row(row, p.n) : row;
}
/// Returns the index of the accumulator for column `column` of the tile's part of D; if gated, of the first
/// of two.
int first_sum(const KernelConfig& c, int column) {
  return c.epilogue.gated ? column / kGatedRows * kGatedGroup + column % kGatedRows : column;
}
}  // namespace

void Numbers::on_load(int cta, int slice, const Step& load) {
  ++loads_;
  const Problem& p = work_.problem;
  const KernelConfig& c = work_.config;
  const bool is_a = load.kind == StepKind::load_a;
  const Matrix& matrix = is_a ? p.a : p.b;
  const void* data = is_a ? work_.buffers.a : work_.buffers.b;
  const int tile_rows = is_a ? c.tile.m : c.tile.n, slices = is_a ? c.cluster.n : c.cluster.m;
  const int index = is_a ? slice : slice - c.cluster.n;
  const i64 first_row = is_a ? load.tile.m_offset : load.tile.n_offset, rows = is_a ? p.m : p.n;
  // A k-tile of a filter is a block of channels of one tap.
  const bool is_filter = !is_a && gathers_a(c.conv);
  const TapBox& tap = load.conv.boxes[0];
  const i64 first_k = is_filter ? tap.channel : load.tile.k_begin + static_cast<i64>(load.k_tile) * c.tile.k;
  const i64 depth = is_filter ? gathered_channels(p.conv) : p.k;
  const int batch = is_filter ? tap.filter : load.tile.batch;

  // With multicast, a slice is a range of rows of a K-major tile, or a range of k of an MN-major one
  // (device/load/tma_tile.cuh).
  int row_begin = 0, row_end = tile_rows, k_begin = 0, k_end = c.tile.k;
  if (matrix.major == Major::k) {
    row_begin = index * (tile_rows / slices);
    row_end = row_begin + tile_rows / slices;
  } else {
    k_begin = index * (c.tile.k / slices);
    k_end = k_begin + c.tile.k / slices;
    const int blocks = blocks_loaded(static_cast<int>(rows), static_cast<int>(first_row), tile_rows);
    row_end = std::min(row_end, blocks * kMnBlock);
  }
  if (is_a && has_groups(c))
    row_end = row_begin + group_slice_rows(load.tile.row_end, static_cast<int>(first_row) + row_begin,
                                           tile_rows / slices);
  else if (matrix.major == Major::k && !(is_a && c.conv.phased))
    row_end = row_begin + slice_rows(static_cast<int>(rows), static_cast<int>(first_row) + row_begin,
                                     tile_rows / slices, is_a ? kLoadRows : row_group(c));
  Stage& s = stage(cta, load.stage);
  if (is_a && gathers_a(c.conv)) return load_rows(load, row_begin, row_end, s);
  if (!is_a && c.conv.op == ConvOp::wgrad) return load_columns(load, k_begin, k_end, s);
  for (int row = row_begin; row < row_end; ++row)
    for (int k = k_begin; k < k_end; ++k) {
      const bool inside = first_row + row < rows && first_k + k < depth;  // TMA fills with zeros outside
      const i64 at = !inside ? 0
                     : is_a  ? a_index(p, batch, first_row + row, first_k + k)
                             : b_index(p, batch, row_of_b(p, first_row + row), first_k + k);
      const float value = inside ? static_cast<float>(load_element(matrix.type, data, at)) : 0.0f;
      (is_a ? s.a[row * c.tile.k + k] : s.b[k * c.tile.n + row]) = value;
    }
}

void Numbers::clear_rest(const Agent& agent, const Step& step) {
  const KernelConfig& c = work_.config;
  Stage& s = stage(agent.cta, step.stage);
  const int live = step.tile.k_end - step.tile.k_begin - (step.tile.k_tiles - 1) * c.tile.k;
  for (int k = live; k < c.tile.k; ++k) {
    for (int row = 0; row < group_rows(c); ++row) s.a[(group_row(agent) + row) * c.tile.k + k] = 0.0f;
    std::fill_n(&s.b[k * c.tile.n], c.tile.n, 0.0f);
  }
}

void Numbers::retire(const Agent& agent, size_t left) {
  std::vector<Step>& in_flight = group_of(agent).in_flight;
  while (in_flight.size() > left) {
    multiply(agent, in_flight.front());
    in_flight.erase(in_flight.begin());
  }
}

Numbers::Range Numbers::range_of(int unit) const {
  const KernelConfig& c = work_.config;
  const int rows = unit_waves(c) * kWaveRows, columns = unit_columns(c);
  const int row = waves(c) == 1 ? 0 : unit * rows, column = waves(c) == 1 ? unit * columns : 0;
  return {row, row + rows, column, column + columns};
}

i64 Numbers::scale_column(int n_offset, int column) const {
  const KernelConfig& c = work_.config;
  const int n = static_cast<int>(work_.problem.n);
  if (scales_each_column(c.epilogue)) return std::min(n_offset + column, n - 1);
  return i64{scale_block_of(c, n, n_offset, scale_part_of(c, column))} * kScaleBlock;
}

void Numbers::promote(const Agent& agent, int unit) {
  const Problem& p = work_.problem;
  const KernelConfig& c = work_.config;
  Group& group = group_of(agent);
  const Range range = range_of(unit);
  for (int row = range.row_begin; row < range.row_end; ++row)
    for (int column = range.column_begin; column < range.column_end; ++column) {
      float& sum = group.sums[row * c.tile.n + column];
      const float partial = group.partial[row * c.tile.n + column];
      if (!is_block_scaled(c.epilogue)) {
        sum += partial;
        continue;
      }
      const Step& rows = group.scales;
      const Step& columns = scales_each_column(c.epilogue) ? group.of_columns : rows;
      const i64 m =
          std::min<i64>(rows.tile.m_offset + group_row(agent) + row, scale_a_row_end(p, rows.tile.batch) - 1);
      const i64 n = scale_column(columns.tile.n_offset, column);
      const float scale =
          work_.buffers.scale_a[block_scale_a_index(p, rows.tile.batch, m, i64{rows.k_tile} * c.tile.k)] *
          work_.buffers
              .scale_b[block_scale_b_index(p, columns.tile.batch, n, i64{columns.k_tile} * c.tile.k)];
      sum = std::fma(partial, scale, sum);
    }
}

void Numbers::multiply(const Agent& agent, const Step& product) {
  const KernelConfig& c = work_.config;
  Group& group = group_of(agent);
  std::vector<float>& sums = promotes() ? group.partial : group.sums;
  const Range range = range_of(product.unit);
  if (product.fresh)
    for (int row = range.row_begin; row < range.row_end; ++row)
      std::fill_n(&sums[row * c.tile.n + range.column_begin], range.column_end - range.column_begin, 0.0f);
  const Stage& s = stage(agent.cta, product.stage);
  constexpr int kColumns = 8;  // columns computed at once, in registers; divides every tile.n
  const int depth = mma_k(c.a);
  for (int row = range.row_begin; row < range.row_end; ++row)
    for (int first = 0; first < c.tile.k; first += depth) {
      const float* a = &s.a[(group_row(agent) + row) * c.tile.k + first];
      for (int column = range.column_begin; column < range.column_end; column += kColumns) {
        double products[kColumns] = {};
        for (int k = 0; k < depth; ++k) {
          const double factor = a[k];
          const float* b = &s.b[(first + k) * c.tile.n + column];
          for (int i = 0; i < kColumns; ++i) products[i] += factor * b[i];
        }
        float* sum = &sums[row * c.tile.n + column];
        for (int i = 0; i < kColumns; ++i) sum[i] = static_cast<float>(sum[i] + products[i]);
      }
    }
}

double Numbers::before_activation(double sum, const ElementIndex& at) const {
  const Problem& p = work_.problem;
  const Epilogue& e = p.epilogue;
  const auto scale = [](ScaleMode mode, const float* values, i64 index) {
    if (mode == ScaleMode::none || scales_128_of_k(mode)) return 1.0;  // per 128 of k: promote()
    return static_cast<double>(values[mode == ScaleMode::vector ? index : 0]);
  };
  double value = 0.0;
  if (work_.scalars.alpha != 0.0f)
    value = work_.scalars.alpha * scale(e.scale_a, work_.buffers.scale_a, at.row) *
            scale(e.scale_b, work_.buffers.scale_b, column_index(p, at.batch, at.column)) * sum;
  if (e.residual && work_.scalars.beta != 0.0f)
    value += work_.scalars.beta * load_element(e.c_type, work_.buffers.c, c_index(p, at));
  if (e.bias != Bias::none)
    value += load_element(e.bias_type, work_.buffers.bias,
                          e.bias == Bias::column ? column_index(p, at.batch, at.column) : at.row);
  return value;
}

double Numbers::epilogue(const float* sums, const ElementIndex& at) const {
  const Epilogue& e = work_.problem.epilogue;
  double value = activate(e.activation, before_activation(sums[0], at));
  if (e.gated)
    value *=
        gate_factor(e.activation,
                    before_activation(sums[kGatedRows], {at.batch, at.row, at.column + work_.problem.n / 2}));
  if (e.row_factors) value *= static_cast<double>(work_.buffers.row_factors[at.row]);
  return e.scale_d == ScaleMode::tensor ? value * static_cast<double>(1.0f / *work_.buffers.scale_d) : value;
}

std::vector<double> Numbers::outputs(const Agent& agent, const Tile& tile, int row, int column, int count) {
  const KernelConfig& c = work_.config;
  const std::vector<float>& sums = group_of(agent).sums;
  std::vector<double> values;
  for (int i = 0; i < count; ++i) {
    const ElementIndex at{tile.batch, tile.m_offset + group_row(agent) + row,
                          outputs_of(c.epilogue, tile.n_offset) + column + i};
    // Elements outside of D are not stored, and count for no scale.
    if (at.row >= work_.problem.m || at.column >= d_columns(work_.problem)) break;
    values.push_back(epilogue(&sums[row * c.tile.n + first_sum(c, column + i)], at));
  }
  if (!writes_scales(c.epilogue) || values.empty()) return values;
  const i64 first = outputs_of(c.epilogue, tile.n_offset) + column;
  const i64 in_d = tile.m_offset + group_row(agent) + row;
  float amax = 0.0f;
  for (const double value : values) amax = larger_magnitude(amax, static_cast<float>(value));
  const ReferenceScale scale = reference_scale(amax);
  if (in_d < scenario_.row_end_of(tile))
    work_.buffers.scale_out[scale_out_index(work_.problem, tile.batch, in_d, first)] = scale.scale;
  for (double& value : values) value = decode_code(DType::e4m3, quantised(static_cast<float>(value), scale));
  return values;
}

void Numbers::write_chunk(const Agent& agent, const Step& chunk) {
  const KernelConfig& c = work_.config;
  Group& group = group_of(agent);
  const int columns = store_columns(c);
  for (int i = 0; i < kWaveRows; ++i) {
    const std::vector<double> values =
        outputs(agent, chunk.tile, chunk.wave * kWaveRows + i, chunk.column, columns);
    for (int j = 0; j < static_cast<int>(values.size()); ++j) {
      const int to = is_swapped(c) ? j * kWaveRows + i : i * columns + j;
      store_element(c.d, group.buffers[chunk.stage].bytes.data(), to, values[static_cast<size_t>(j)]);
    }
  }
}

void Numbers::on_store_read(int cta, int group_index, int which) {
  ++stores_;
  const Problem& p = work_.problem;
  const KernelConfig& c = work_.config;
  const Agent agent{.cta = cta, .group = group_index};
  const StoreBuffer& buffer = group_of(agent).buffers[which];
  const Step& chunk = buffer.issued;
  const i64 first_row = chunk.tile.m_offset + group_row(agent) + chunk.wave * kWaveRows;
  const i64 first_column = outputs_of(c.epilogue, chunk.tile.n_offset) + chunk.column;
  if (c.conv.phased) return store_phase(chunk, buffer);
  if (c.conv.op == ConvOp::wgrad) return store_filter_chunk(chunk, first_row, first_column, buffer);
  const i64 columns = std::min<i64>(store_columns(c), d_columns(p) - first_column), size = bytes_of(c.d);
  if (is_swapped(c)) {  // the buffer's rows are D's columns
    const i64 rows = std::min<i64>(kWaveRows, p.m - first_row);
    for (i64 j = 0; j < columns && rows > 0; ++j)
      std::memcpy(static_cast<u8*>(work_.buffers.d) +
                      size * d_index(p, {chunk.tile.batch, first_row, first_column + j}),
                  buffer.bytes.data() + j * store_row_bytes(c), static_cast<size_t>(rows * size));
    return;
  }
  store_rows(chunk, first_row, p.m, buffer);
}

void Numbers::store_rows(const Step& chunk, i64 first_row, i64 row_end, const StoreBuffer& buffer) {
  const Problem& p = work_.problem;
  const KernelConfig& c = work_.config;
  const i64 first_column = outputs_of(c.epilogue, chunk.tile.n_offset) + chunk.column;
  const i64 columns = std::min<i64>(store_columns(c), d_columns(p) - first_column), size = bytes_of(c.d);
  for (i64 i = 0; i < kWaveRows && first_row + i < row_end && columns > 0; ++i) {
    const u8* from = buffer.bytes.data() + i * store_row_bytes(c);
    const i64 to = d_index(p, {chunk.tile.batch, first_row + i, first_column});
    if (!chunk.adds) {
      std::memcpy(static_cast<u8*>(work_.buffers.d) + size * to, from, static_cast<size_t>(columns * size));
      continue;
    }
    for (i64 column = 0; column < columns; ++column)
      add_to_d(to + column, static_cast<float>(load_element(DType::fp32, from, column)));
  }
}

/// Adds to an element of D in fp32, like a reduction in global memory.
void Numbers::add_to_d(i64 index, float value) {
  const float old = static_cast<float>(load_element(DType::fp32, work_.buffers.d, index));
  store_element(DType::fp32, work_.buffers.d, index, old + value);
}

void Numbers::copy_chunk(const Agent& agent, const Step& chunk) {
  ++stores_;
  const i64 first_row = chunk.tile.m_offset + group_row(agent) + chunk.wave * kWaveRows;
  store_rows(chunk, first_row, chunk.tile.row_end, group_of(agent).buffers[chunk.stage]);
}

void Numbers::store_direct(const Agent& agent, const Step& step) {
  const Tile& tile = step.tile;
  const KernelConfig& c = work_.config;
  stores_ += waves(c);
  const int together = writes_scales(c.epilogue) ? kScaleBlock : own_outputs(c);
  for (int row = 0; row < group_rows(c); ++row)
    for (int first = 0; first < own_outputs(c); first += together) {
      if (has_groups(c) && tile.m_offset + group_row(agent) + row >= tile.row_end) continue;
      const std::vector<double> values = outputs(agent, tile, row, first, together);
      for (int i = 0; i < static_cast<int>(values.size()); ++i) {
        const i64 to = d_place({tile.batch, tile.m_offset + group_row(agent) + row,
                                outputs_of(c.epilogue, tile.n_offset) + first + i});
        if (to < 0) continue;
        const double value = values[static_cast<size_t>(i)];
        if (step.adds)
          add_to_d(to, static_cast<float>(value));
        else
          store_element(c.d, work_.buffers.d, to, value);
      }
    }
}

}  // namespace sluice::twin
