// SPDX-License-Identifier: Apache-2.0
// The data of one cluster: what the stages, the sums and the store buffers hold while Simulator moves. Each
// thing happens as late as the hardware may do it (products when they are waited for, stores when TMA has
// read the buffer), so that a buffer reused too early gives wrong numbers. Called by run.cc only.
#pragma once

#include <sluice/plan.h>
#include <sluice/reference/gemm.h>
#include <sluice/twin/simulator.h>

namespace sluice::twin {

/// A problem with its strides filled in, its data, and the config that computes it.
struct Work {
  Problem problem;
  KernelConfig config;
  HostBuffers buffers;
  Scalars scalars;
};

/// What all clusters of a launch share: a slot or a counter for each part of a streamed tile.
struct Workspace {
  Workspace(const KernelConfig& config, const WorkSplit& split);

  std::vector<std::vector<float>> slots;
  std::vector<u32> counters;
};

class Numbers final : public Observer {
 public:
  Numbers(const Work& work, const Scenario& scenario, Workspace& workspace);

  /// Would the arrival that `elect` counts be the last?
  bool is_last(int agent, const Step& elect) const;

  void on_step(int agent, const Step& step) override;
  void on_load(int cta, int slice, const Step& load) override;
  void on_store_read(int cta, int group, int buffer) override;
  void on_sums(int cta, int group, int sender, const Step& send) override;

  /// What the kernel after one with Combine::separate does; all clusters of the launch have ended.
  void sum_parts();

  i64 loads() const { return loads_; }
  i64 stores() const { return stores_; }

 private:
  /// A[row][k] and B[k][column], decoded.
  struct Stage {
    std::vector<float> a, b;
    Step scales;  // the step that wrote the block scales beside it
  };
  struct StoreBuffer {
    std::vector<u8> bytes;
    Step issued;  // the store that reads it
  };
  /// What a math warpgroup holds.
  struct Group {
    std::vector<Step> in_flight;       // products, oldest first
    std::vector<float> sums, partial;  // [row][column]; partial (with promotion) has room for all units
    Step scales;                       // whose block scales are in registers
    StoreBuffer buffers[kStoreBuffers];
    std::vector<std::vector<float>> received;  // [sender]: the sums that have come and are to be added
    std::vector<std::vector<float>> sent;      // [target]: that are on their way
  };

  bool promotes() const { return work_.config.promotes; }
  Stage& stage(int cta, int index) { return stages_[cta * work_.config.stages + index]; }
  Group& group_of(const Agent& agent) { return groups_[agent.cta * kMathGroups + agent.group]; }
  int group_row(const Agent& agent) const {
    return work_.config.schedule == Schedule::cooperative ? agent.group * group_rows(work_.config) : 0;
  }
  /// Rows of the group and columns that a unit works on.
  struct Range {
    int row_begin, row_end, column_begin, column_end;
  };
  Range range_of(int unit) const;
  void promote(const Agent& agent, int unit);
  void retire(const Agent& agent, size_t left);
  void multiply(const Agent& agent, const Step& product);
  double before_activation(double sum, const ElementIndex& at) const;
  /// `sums`: where the element's is; of a gated one its "up" is kGatedRows behind it.
  double epilogue(const float* sums, const ElementIndex& at) const;
  void write_chunk(const Agent& agent, const Step& chunk);
  void store_direct(const Agent& agent, const Step& step);
  void add_to_d(i64 index, float value);

  // numbers_combine.cc
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
};

}  // namespace sluice::twin
