// SPDX-License-Identifier: Apache-2.0
// The data of one cluster: the contents of stages, accumulators and store buffers while Simulator runs. Each
// effect happens as late as the hardware allows (products when they are waited for, stores when TMA has read
// the buffer). So a buffer that is reused too early gives wrong numbers. Called by run.cc only.
#pragma once

#include <sluice/plan.h>
#include <sluice/reference/gemm.h>
#include <sluice/spec/conv_params.h>
#include <sluice/twin/simulator.h>

namespace sluice::twin {

/// A problem with its strides set, its data, and the config that computes it.
struct Work {
  Problem problem;
  KernelConfig config;
  HostBuffers buffers;
  Scalars scalars;
};

/// Memory that all clusters of a launch share: one slot and one counter per part of a split-K tile.
struct Workspace {
  Workspace(const KernelConfig& config, const WorkSplit& split);

  std::vector<std::vector<float>> slots;
  std::vector<u32> counters;
};

class Numbers final : public Observer {
 public:
  Numbers(const Work& work, const Scenario& scenario, Workspace& workspace);

  /// Returns true if the arrival that the step `elect` counts would be the last.
  bool is_last(int agent, const Step& elect) const;

  void on_step(int agent, const Step& step) override;
  void on_load(int cta, int slice, const Step& load) override;
  void on_store_read(int cta, int group, int buffer) override;
  void on_sums(int cta, int group, int sender, const Step& send) override;

  /// Does the work of the second kernel of Combine::separate. Call it after all clusters of the launch have
  /// ended.
  void sum_parts();

  /// The first im2col box that TMA would refuse; empty if there is none.
  const std::optional<Failure>& refused() const { return refused_; }

  i64 loads() const { return loads_; }
  i64 stores() const { return stores_; }

 private:
  /// A[row][k] and B[k][column], decoded.
  struct Stage {
    std::vector<float> a, b;
    Step scales;  // the step that wrote the stage's block scales
  };
  struct StoreBuffer {
    std::vector<u8> bytes;
    Step issued;  // the store that reads the buffer
  };
  /// The contents of one math warpgroup.
  struct Group {
    std::vector<Step> in_flight;       // products, oldest first
    std::vector<float> sums, partial;  // [row][column]; partial (with promotion) has room for all passes
    Step scales;                       // step whose block scales are in registers
    Step of_columns;                   // step whose scales of columns are read while sums are promoted
    StoreBuffer buffers[kStoreBuffers];
    std::vector<std::vector<float>> received;  // [sender]: sums that have arrived and are not yet added
    std::vector<std::vector<float>> sent;      // [target]: sums in flight
  };

  bool promotes() const { return work_.config.promotes; }
  Stage& stage(int cta, int index) { return stages_[cta * work_.config.stages + index]; }
  Group& group_of(const Agent& agent) { return groups_[agent.cta * kMathGroups + agent.group]; }
  int group_row(const Agent& agent) const {
    return work_.config.schedule == Schedule::cooperative ? agent.group * group_rows(work_.config) : 0;
  }
  /// The rows and columns of the group that one pass of the exchange covers.
  struct Range {
    int row_begin, row_end, column_begin, column_end;
  };
  Range range_of(int unit) const;
  /// A column of B whose block scale the tile's column takes. Those outside take that of the last.
  i64 scale_column(int n_offset, int column) const;
  void promote(const Agent& agent, int unit);
  void retire(const Agent& agent, size_t left);
  void multiply(const Agent& agent, const Step& product);
  double before_activation(double sum, const ElementIndex& at) const;
  /// Returns the element of D. `sums` points to its accumulator; if gated, that of "up" is kGatedRows after
  /// it.
  double epilogue(const float* sums, const ElementIndex& at) const;
  /// Returns up to `count` elements of D from this row and column of the group's part on, as they are stored;
  /// fewer at the edge of D. With block scales of D they are one block, whose scale it stores.
  std::vector<double> outputs(const Agent& agent, const Tile& tile, int row, int column, int count);
  void write_chunk(const Agent& agent, const Step& chunk);
  void store_direct(const Agent& agent, const Step& step);
  void clear_rest(const Agent& agent, const Step& step);
  void copy_chunk(const Agent& agent, const Step& chunk);
  /// Stores the rows of a chunk up to `row_end`.
  void store_rows(const Step& chunk, i64 first_row, i64 row_end, const StoreBuffer& buffer);
  void add_to_d(i64 index, float value);

  // Defined in numbers_conv.cc.
  void load_rows(const Step& load, int row_begin, int row_end, Stage& stage);
  void load_columns(const Step& load, int k_begin, int k_end, Stage& stage);
  void store_phase(const Step& chunk, const StoreBuffer& buffer);
  void store_filter_chunk(const Step& chunk, i64 first_row, i64 first_column, const StoreBuffer& buffer);
  /// Returns the index in D of an element of the product; -1 if it is not stored.
  i64 d_place(const ElementIndex& at) const;
  void refuse(const Step& step, const Error& error);

  // Defined in numbers_combine.cc.
  void count_arrival(const Agent& agent, const Step& elect);
  void write_partial(const Agent& agent, const Tile& tile);
  void sum_partials(const Agent& agent, const Tile& tile);
  void send(const Agent& agent, const Step& step);
  void receive(const Agent& agent, const Step& step);

  const Work& work_;
  const Scenario& scenario_;
  Workspace& workspace_;
  std::vector<Stage> stages_;
  std::vector<Group> groups_;
  i64 loads_ = 0, stores_ = 0;
  std::optional<Failure> refused_;
  Gather gather_{};  // a convolution's
};

}  // namespace sluice::twin
