// SPDX-License-Identifier: Apache-2.0
// The steps of kernels/gemm.cuh on the GPU. Each thread has one object, which holds addresses and, in math
// threads, the accumulators. Its host twin is sluice/twin/machine.h: if you add a step here, add it there.
#pragma once

#include <sluice/spec/params.h>
#include <sluice/spec/validate.h>
#include <sluice/device/dependent_launch.cuh>
#include <sluice/device/epilogue/epilogue_vectors.cuh>
#include <sluice/device/epilogue/partial_slot.cuh>
#include <sluice/device/epilogue/residual.cuh>
#include <sluice/device/epilogue/sum_exchange.cuh>
#include <sluice/device/epilogue/tile_store.cuh>
#include <sluice/device/groups.cuh>
#include <sluice/device/load/operands.cuh>
#include <sluice/device/math/block_scales.cuh>
#include <sluice/device/math/wgmma_ss.cuh>
#include <sluice/device/optional_member.cuh>
#include <sluice/device/ptx/global.cuh>
#include <sluice/device/ptx/mbarrier.cuh>
#include <sluice/device/ptx/sync.cuh>

namespace sluice {

template <KernelConfig kConfig>
class Machine {
  static_assert(validate(kConfig) == nullptr, "impossible config: spec/validate.h names the rule");

 public:
  SLUICE_DEVICE Machine(const GemmParams& params, u32 smem)
      : params_(params),
        smem_(smem),
        cta_rank_(kClustered ? ptx::cluster_cta_rank() : 0),
        warpgroup_(warpgroup()),
        ops_(params) {}

  static SLUICE_DEVICE constexpr KernelConfig config() { return kConfig; }
  SLUICE_DEVICE const GemmParams& params() const { return params_; }
  SLUICE_DEVICE int cta_rank() const { return cta_rank_; }
  SLUICE_DEVICE int cluster_index() const {
    const int in_grid = blockIdx.x / cluster_size(kConfig);
    return params_.numbering == Numbering::gpc ? params_.numbers[in_grid] : in_grid;
  }
  SLUICE_DEVICE int cluster_count() const { return gridDim.x / cluster_size(kConfig); }

  /// Warp 0 prefetches the tensor maps, and then computes its first tile while warp 1 initialises the
  /// barriers. One thread initialises all of them: with one barrier per lane it takes 0.65 us longer.
  SLUICE_DEVICE void start() {
    if (threadIdx.x == 0) {
      if constexpr (kConfig.combine == Combine::separate) ptx::launch_dependents();
      Launch::begin();
      if constexpr (kConfig.load_a == Load::tma) ptx::prefetch_tensormap(params_.map_a);
      if constexpr (kConfig.load_b == Load::tma) ptx::prefetch_tensormap(params_.map_b);
      if constexpr (kConfig.store == StorePath::tma) ptx::prefetch_tensormap(params_.map_d);
    }
    if (threadIdx.x == 32) {
      for (int stage = 0; stage < kConfig.stages; ++stage) {
        ptx::mbarrier_init(full(stage), full_arrivals(kConfig));
        ptx::mbarrier_init(empty(stage), empty_arrivals(kConfig));
      }
      for (int group = 0; group < kMathGroups; ++group)
        ptx::mbarrier_init(turn(group), turn_arrivals(kConfig));
      for (int group = 0; kSplitsInCluster && group < kMathGroups; ++group) {
        ptx::mbarrier_init(barrier(sums_full_barrier(kConfig, group)), sums_full_arrivals(kConfig));
        ptx::mbarrier_init(barrier(sums_empty_barrier(kConfig, group)), sums_empty_arrivals(kConfig));
      }
      ptx::fence_mbarrier_init();
    }
    __syncwarp();
  }
  /// On return the barriers are initialised and visible to the whole cluster. Without a cluster, the loading
  /// warp waits only for the warp that initialised them.
  SLUICE_DEVICE void meet() {
    if constexpr (kClustered) {
      ptx::cluster_sync_relaxed();
    } else if (threadIdx.x < 32) {
      ptx::named_barrier_sync(kLoadBarrier, 2 * 32);
    } else {
      if (threadIdx.x < 2 * 32) ptx::named_barrier_arrive(kLoadBarrier, 2 * 32);
      ptx::named_barrier_sync(kStartBarrier, kThreads - 32);
    }
  }

  // ---- roles ----
  SLUICE_DEVICE bool is_load_role() const { return warpgroup_ == 0; }
  SLUICE_DEVICE void enter_load_role() { ptx::setmaxnreg_dec<load_registers(kConfig)>(); }
  /// Call from whole warps. The shuffle shows the compiler that the result is uniform. A branch that it
  /// cannot prove uniform costs registers, of which loaders have 24.
  SLUICE_DEVICE bool is_load_warp() const { return __shfl_sync(~0u, threadIdx.x / 32, 0) == 0; }
  SLUICE_DEVICE bool is_load_thread() const { return threadIdx.x == 0; }
  SLUICE_DEVICE bool is_scale_warp() const { return kBlockScaled && threadIdx.x / 32 - 1 < kScaleWarps; }
  SLUICE_DEVICE bool is_strided_warp() const { return kStrided && threadIdx.x / 32 - 1 < kStridedWarps; }
  SLUICE_DEVICE void enter_math_role() { ptx::setmaxnreg_inc<math_registers(kConfig)>(); }
  SLUICE_DEVICE void read_tensor_scales() { ops_.read_tensor_scales(); }

  // ---- the list of tiles, with groups ----
  /// All threads of the CTA, behind their PDL wait. On return the table is visible to them.
  SLUICE_DEVICE void read_list() {
    if constexpr (reads_table(kConfig)) {
      if (threadIdx.x / 32 == kListWarp) scan_groups<kConfig>(params_, groups());
      ptx::named_barrier_sync(kListBarrier, kThreads);
    }
  }
  SLUICE_DEVICE GroupTable<SharedInts> groups() const {
    return {{smem_ + group_table_offset(kConfig)}, kConfig.groups.most};
  }

  // ---- PDL wait and trigger ----
  SLUICE_DEVICE void wait_prerequisites() { Launch::wait(); }
  SLUICE_DEVICE void launch_dependents() { Launch::loaded(); }
  SLUICE_DEVICE void prefetch() { Launch::prefetch(params_); }
  SLUICE_DEVICE void hand_off() { Launch::hand_off(params_); }

  SLUICE_DEVICE int math_group() const { return warpgroup_ - 1; }

  // ---- load ----
  SLUICE_DEVICE void wait_empty(int stage, u32 parity) { ptx::mbarrier_wait_parity(empty(stage), parity); }
  SLUICE_DEVICE void begin_loads(const Tile& tile) {
    tile_bytes_ = loaded_bytes_a(kConfig, params_.m, tile) + loaded_bytes_b(kConfig, params_.n, tile);
    load_a_ = LoadA::begin(params_, LoadSlices::of_a(load_rank()), tile);
    load_b_ = LoadB::begin(params_, LoadSlices::of_b(load_rank()), tile);
    if constexpr (!kGathers) pin(tile_bytes_, load_a_, load_b_);
  }
  SLUICE_DEVICE void expect_stage(int stage) { ptx::mbarrier_arrive_expect_tx(full(stage), tile_bytes_); }
  SLUICE_DEVICE void load_a(int stage, int k_tile) {
    LoadA::load(params_, load_a_, LoadSlices::of_a(load_rank()).index, stage_a(stage), full(stage), k_tile);
  }
  SLUICE_DEVICE void load_b(int stage, int k_tile) {
    LoadB::load(params_, load_b_, LoadSlices::of_b(load_rank()).index, stage_b(stage), full(stage), k_tile);
  }

  // ---- block scales: all lanes of each of kScaleWarps warps ----
  SLUICE_DEVICE void begin_scales(const Tile& tile) {
    if constexpr (kBlockScaled) scale_loader_.begin_tile(params_, tile, threadIdx.x / 32 - 1);
  }
  SLUICE_DEVICE void fetch_scales(int k_tile) {
    if constexpr (kBlockScaled) scale_loader_.fetch(params_, k_tile);
  }
  SLUICE_DEVICE void write_scales(int stage, int k_tile) {
    if constexpr (kBlockScaled) scale_loader_.write(scale_slot(stage), k_tile);
  }
  SLUICE_DEVICE void publish_scales(int stage) { arrive_as_warp(stage); }

  // ---- strided operands: all lanes of each of kStridedWarps warps ----
  SLUICE_DEVICE void begin_strided(const Tile& tile) {
    if constexpr (kStrided) strided_.begin(params_, tile);
  }
  SLUICE_DEVICE void fetch_strided(int k_tile) {
    if constexpr (kStrided) strided_.fetch(k_tile);
  }
  SLUICE_DEVICE void write_strided(int stage, int k_tile) {
    if constexpr (kStrided) strided_.write(stage_a(stage), stage_b(stage), k_tile);
  }
  /// Makes this warp's writes visible to WGMMA, which reads through the async proxy, and arrives.
  SLUICE_DEVICE void publish_strided(int stage) {
    ptx::fence_proxy_async();
    arrive_as_warp(stage);
  }

  // ---- scale vectors: all threads of a math group ----
  /// Starts copying the vectors for the CTA's part of the tile. Call when all threads of the group have read
  /// the previous tile's. Also prefetches that part of C into L2 and loads the operands of rows.
  SLUICE_DEVICE void stage_vectors(const Tile& own) {
    if constexpr (kStagesVectors)
      vectors().stage(params_, own.m_offset + group_row(), own.n_offset, has_groups(kConfig) ? own.batch : 0);
    if constexpr (kResidual)
      prefetch_residual<kConfig>(params_, own, own.m_offset + group_row(), group_thread());
    if constexpr (RowOperands<kConfig>::kUsed) rows_.read(ops_, own.m_offset + fragment_row());
  }
  /// Waits for this thread's copies. Those of other threads are covered by the group's next barrier, before
  /// its first store.
  SLUICE_DEVICE void wait_vectors() {
    if constexpr (kStagesVectors) ptx::copy_async_wait_all();
  }

  // ---- math ----
  SLUICE_DEVICE void begin_tile(int k_tiles) {
    if (kPromotes || k_tiles == 0) sums_.clear();
  }
  SLUICE_DEVICE void wait_full(int stage, u32 parity) { ptx::mbarrier_wait_parity(full(stage), parity); }
  /// Issues the products of the stage with the rows and columns of pass `unit`. Without promotion there is
  /// only one pass.
  SLUICE_DEVICE void issue_mma(int unit, int stage, bool fresh) {
    const u32 a = stage_a(stage) + (group_row() + unit_wave(unit) * kWaveRows) * kSwizzleRowBytes;
    const u32 b = stage_b(stage) + unit_column(unit) * kSwizzleRowBytes;
    if constexpr (kPromotes)
      WgmmaSs<kConfig>::issue(partial_, a, b, fresh);
    else
      WgmmaSs<kConfig>::issue(sums_, a, b, fresh);
  }
  SLUICE_DEVICE void pass_stage(int, const Tile&, int) {}
  /// Waits until all products have finished except those of the newest issue_mma.
  SLUICE_DEVICE void wait_mma_but_newest() { ptx::wgmma_wait_group<1>(); }
  SLUICE_DEVICE void wait_mma() {
    ptx::wgmma_wait_group<0>();
    if constexpr (!kPromotes) sums_.pin();
  }
  /// Adds the partial sums of a pass over `stage` to the accumulators. Its products must have finished.
  SLUICE_DEVICE void promote(int unit, int stage) {
    if constexpr (kPromotes) {
      partial_.pin();
      const int first = unit_column(unit) / 2;
#pragma unroll
      for (int wave = 0; wave < unit_waves(kConfig); ++wave)
#pragma unroll
        for (int i = 0; i < unit_columns(kConfig) / 2; ++i) {
          if constexpr (kBlockScaled) scales_.read_columns(scale_slot(stage), first + i);
          add_partial(unit_wave(unit) + wave, first + i, partial_.values[wave][i]);
        }
    }
  }
  /// Reads the block scales of this stage, whose products are promoted next.
  SLUICE_DEVICE void read_scales(int stage) {
    if constexpr (kBlockScaled) scales_.read(scale_slot(stage), fragment_row());
  }
  /// Each warp arrives once at every CTA that loads into this CTA's stages. Lane i signals the i-th of them:
  /// first the CTAs of this cluster column, then the others of this cluster row.
  SLUICE_DEVICE void release_stage(int stage) {
    const int lane = threadIdx.x % 32;
    if constexpr (kBlockScaled) __syncwarp();  // all lanes have read their scales
    if constexpr (!multicasts(kConfig)) {
      if (lane == 0) ptx::mbarrier_arrive(empty(stage));
    } else {
      constexpr int kRows = kConfig.cluster.m, kColumns = kConfig.cluster.n;
      const int row = cta_rank_ % kRows, column = cta_rank_ / kRows;
      const int other = lane - kRows + (lane - kRows >= column ? 1 : 0);
      const int target = lane < kRows ? column * kRows + lane : other * kRows + row;
      if (lane < kRows + kColumns - 1) ptx::mbarrier_arrive_cluster(empty(stage), target);
    }
  }
  /// Zeros the rows of k that belong to the next group (device/groups.cuh).
  SLUICE_DEVICE void clear_rest(int stage, const Tile& tile) {
    if constexpr (sums_groups(kConfig)) {
      const int live = tile.k_end - tile.k_begin - (tile.k_tiles - 1) * kConfig.tile.k, row = group_row();
      if (live == kConfig.tile.k) return;
      zero_rows_of_k<kConfig>(stage_a(stage) + row * kSwizzleRowBytes, stage_b(stage), live, group_thread());
      publish_chunk();
    }
  }
  SLUICE_DEVICE void wait_turn(u32 parity) {
    ptx::mbarrier_wait_parity(turn(math_group()), parity);
  }
  SLUICE_DEVICE void pass_turn() {
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(turn(1 - math_group()));
  }

  // ---- exchange in a cluster along k ----
  static SLUICE_DEVICE constexpr int exchange_passes() {
    return kExchangePasses;
  }
  SLUICE_DEVICE bool has_rows(const Tile& tile) const {
    return group_live_rows(tile) > 0;
  }
  SLUICE_DEVICE void wait_sums_empty(u32 parity) {
    ptx::mbarrier_wait_parity(barrier(sums_empty_barrier(kConfig, math_group())), parity);
  }
  SLUICE_DEVICE void send_sums(const Tile& tile, int pass) {
    if constexpr (kSplitsInCluster) {
      const u32 barrier_here = barrier(sums_full_barrier(kConfig, math_group()));
      const int bytes = kConfig.cluster.k * exchange_live_bytes(kConfig, group_live_rows(tile));
      if (group_thread() == 0) ptx::mbarrier_arrive_expect_tx(barrier_here, bytes);
      Exchange::send(sums_, pass, {exchange_buffer(), barrier_here}, cta_rank_, live_rows(tile));
    }
  }
  SLUICE_DEVICE void wait_sums_full(u32 parity) {
    ptx::mbarrier_wait_parity(barrier(sums_full_barrier(kConfig, math_group())), parity);
  }
  SLUICE_DEVICE void receive_sums(const Tile& tile, int pass) {
    if constexpr (kSplitsInCluster) Exchange::receive(sums_, pass, exchange_buffer(), live_rows(tile));
  }
  SLUICE_DEVICE void release_sums() {
    __syncwarp();
    const int lane = threadIdx.x % 32;
    if (lane < kConfig.cluster.k)
      ptx::mbarrier_arrive_cluster(barrier(sums_empty_barrier(kConfig, math_group())), lane);
  }

  // ---- combine ----
  SLUICE_DEVICE void write_partial(const Tile& tile) {
    // for CTAs that are not the last arriver, and so do not reach the later wait
    if constexpr (kStagesVectors) ptx::copy_async_wait_all();
    if constexpr (kCombines) Partials::write(sums_, slot(tile, tile.sharing.rank), live_rows(tile));
  }
  SLUICE_DEVICE void publish_partial() {
    group_sync();
  }
  /// One thread counts the group's arrival: a release of the group's writes, and an acquire of its peers'.
  /// All threads of the group get the result.
  SLUICE_DEVICE bool is_last_arriver(const Tile& tile) {
    bool last = false;
    if (group_thread() == 0) {
      u32* counter = params_.counters + part_index(kConfig, tile.sharing.counter, cta_rank_, combined_part());
      const u32 bound = tile.sharing.peers - 1;
      last = ptx::atomic_inc_acq_rel(counter, bound) == bound;
    }
    return ptx::named_barrier_any(1 + math_group(), kWarpgroupThreads, last);
  }
  SLUICE_DEVICE void sum_partials(const Tile& tile) {
    if constexpr (kCombines)
      Partials::sum(sums_, slot(tile, 0), peer_pitch(kConfig), tile.sharing.peers, live_rows(tile));
  }
  SLUICE_DEVICE void end_tile() {}

  // ---- store ----
  SLUICE_DEVICE void wait_store_buffer() {
    if (group_thread() == 0) ptx::bulk_wait_group_read<kStoreBuffers - 1>();
    group_sync();
  }
  SLUICE_DEVICE void write_chunk(int buffer, const Tile& tile, int wave, int column) {
    if constexpr (kConfig.store == StorePath::tma)
      own_store().write_chunk(store_buffer(buffer), tile, {wave, column});
  }
  SLUICE_DEVICE void publish_chunk() {
    ptx::fence_proxy_async();
    group_sync();
  }
  SLUICE_DEVICE void issue_store(int buffer, const Tile& tile, int wave, int column) {
    if constexpr (has_groups(kConfig)) {
      const int live = group_live_rows(tile) - wave * kWaveRows;
      if (live < kWaveRows) {
        own_store().copy_chunk(store_buffer(buffer), tile, {wave, column}, live);
        // An empty group: wait_store_buffer() counts one per chunk.
        if (group_thread() == 0) ptx::bulk_commit_group();
        return;
      }
    }
    if (group_thread() != 0) return;
    const int first_column = outputs_of(kConfig.epilogue, tile.n_offset) + column;
    const int first_row = tile.m_offset + group_row() + wave * kWaveRows;
    if constexpr (kConfig.conv.phased) {
      const PhaseParams& phase = phase_of(params_, tile.batch);
      PixelWalk<kConfig.conv.spatial> pixel;
      pixel.begin(phase.pixels, first_row);
      ptx::tma_store_pixels<kConfig.conv.spatial>(phase.map_d, pixel_of(pixel, first_column),
                                                  store_buffer(buffer));
    } else if constexpr (adds(kConfig.epilogue)) {
      ptx::tma_add(params_.map_d, store_box(tile, first_row, first_column), store_buffer(buffer));
    } else {
      ptx::tma_store(params_.map_d, store_box(tile, first_row, first_column), store_buffer(buffer));
    }
    ptx::bulk_commit_group();
  }
  SLUICE_DEVICE void finish_stores() {
    if (kConfig.store == StorePath::tma && group_thread() == 0) ptx::bulk_wait_group_read<0>();
  }
  SLUICE_DEVICE void store_direct(const Tile& tile) {
    if constexpr (kStagesVectors) group_sync();  // all threads have arrived
    own_store().store_direct(tile, live_rows(tile));
    if constexpr (kStagesVectors) group_sync();  // all threads have read their vectors
  }

 private:
  /// Arrives once for the warp, after the writes of all its lanes.
  SLUICE_DEVICE void arrive_as_warp(int stage) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(full(stage));
  }
  // named barriers; the math groups have 1 and 2
  static constexpr int kStartBarrier = 0, kLoadBarrier = 3, kListBarrier = 4;
  static constexpr int kListWarp = 3;  // has no other role, unless operands are strided
  static constexpr bool kClustered = cluster_size(kConfig) > 1;
  using Launch = DependentLaunch<kConfig.overlap>;
  static constexpr bool kPromotes = kConfig.promotes;
  static constexpr bool kCombines = uses_workspace(kConfig);
  static constexpr bool kSplitsInCluster = kConfig.cluster.k > 1;
  using Partials = PartialSlot<waves(kConfig), kConfig.tile.n, own_columns(kConfig)>;
  static constexpr int kExchangePasses = ::sluice::exchange_passes(kConfig);
  using Exchange = SumExchange<kConfig>;
  static constexpr bool kBlockScaled = is_block_scaled(kConfig.epilogue);
  static constexpr bool kStrided = loads_strided(kConfig);
  static constexpr bool kStagesVectors = stages_vectors(kConfig.epilogue);
  static constexpr bool kResidual = kConfig.epilogue.residual;
  using Sums = Accumulator<waves(kConfig), kConfig.tile.n>;
  using PartialSums = Accumulator<unit_waves(kConfig), unit_columns(kConfig)>;
  using LoadSlices = MulticastSlices<kConfig.cluster.m, kConfig.cluster.n>;
  using LoadA = typename LoadersOf<kConfig, kConfig.conv.op>::A;
  using LoadB = typename LoadersOf<kConfig, kConfig.conv.op>::B;
  static constexpr bool kGathers = kConfig.conv.op != ConvOp::none;
  /// The shuffle tells the compiler that the value is the same in all lanes. All lanes must take part, so it
  /// is done once, in the constructor, and never inside a divergent branch.
  static SLUICE_DEVICE int warpgroup() {
    return __shfl_sync(~0u, threadIdx.x / kWarpgroupThreads, 0);
  }
  static SLUICE_DEVICE int group_thread() {
    return threadIdx.x % kWarpgroupThreads;
  }
  SLUICE_DEVICE void group_sync() const {
    ptx::named_barrier_sync(1 + math_group(), kWarpgroupThreads);
  }

  SLUICE_DEVICE u32 barrier(int index) const {
    return smem_ + barrier_offset(kConfig) + 8 * index;
  }
  SLUICE_DEVICE u32 full(int stage) const {
    return barrier(full_barrier(kConfig, stage));
  }
  SLUICE_DEVICE u32 empty(int stage) const {
    return barrier(empty_barrier(kConfig, stage));
  }
  SLUICE_DEVICE u32 turn(int group) const {
    return barrier(turn_barrier(kConfig, group));
  }
  SLUICE_DEVICE u32 stage_a(int stage) const {
    return smem_ + stage_offset(kConfig, stage);
  }
  SLUICE_DEVICE u32 stage_b(int stage) const {
    return stage_a(stage) + stage_a_bytes(kConfig);
  }
  SLUICE_DEVICE u32 scale_slot(int stage) const {
    return smem_ + scale_offset(kConfig, stage);
  }
  SLUICE_DEVICE u32 store_buffer(int buffer) const {
    return smem_ + store_offset(kConfig, math_group(), 0) + buffer * store_buffer_bytes(kConfig);
  }
  SLUICE_DEVICE u32 exchange_buffer() const {
    return smem_ + exchange_offset(kConfig, math_group());
  }

  /// Forces these values to be computed here rather than at first use; for the first tile that is before the
  /// CTA's barrier. a.batch equals b.batch.
  static SLUICE_DEVICE void pin(int bytes, const TileLoad& a, const TileLoad& b) {
    asm volatile("" ::"r"(bytes), "l"(a.map), "r"(a.row), "r"(a.batch), "l"(b.map), "r"(b.row));
  }
  /// Rank for multicast; in a cluster along k every CTA loads for itself.
  SLUICE_DEVICE int load_rank() const {
    return multicasts(kConfig) ? cta_rank_ : 0;
  }
  /// First wave and column of a pass within the group's accumulator.
  static SLUICE_DEVICE constexpr int unit_wave(int unit) {
    return waves(kConfig) == 1 ? 0 : unit;
  }
  static SLUICE_DEVICE constexpr int unit_column(int unit) {
    return waves(kConfig) == 1 ? unit * unit_columns(kConfig) : 0;
  }
  SLUICE_DEVICE void add_partial(int wave, int i, float partial) {
    float& sum = sums_.values[wave][i];
    if constexpr (kBlockScaled)
      sum = fmaf(partial, scales_.of(wave, i), sum);
    else
      sum += partial;
  }

  /// Index of the group's part among the parts of a tile that are combined separately.
  SLUICE_DEVICE int combined_part() const {
    return kConfig.schedule == Schedule::cooperative ? math_group() : 0;
  }
  /// Address of this thread's first vector in the slot of the peer with rank `rank`.
  SLUICE_DEVICE float* slot(const Tile& tile, int rank) const {
    const int index = part_index(kConfig, tile.sharing.slot + rank, cta_rank_, combined_part());
    return params_.partials + i64{index} * part_floats(kConfig) + group_thread() * 4;
  }
  /// Rows inside the matrix, from the group's first row on, and from this warp's; 0 or less: none.
  SLUICE_DEVICE int group_live_rows(const Tile& tile) const {
    return row_end_of<kConfig>(params_, tile) - (tile.m_offset + group_row());
  }
  SLUICE_DEVICE int live_rows(const Tile& tile) const {
    return group_live_rows(tile) - group_thread() / 32 * 16;
  }
  /// The box of D that begins at this row and column of the product. For wgrad, D has one matrix per tap, and
  /// a chunk of columns is always within one tap.
  SLUICE_DEVICE ptx::TmaBox store_box(const Tile& tile, int row, int column) const {
    if constexpr (kConfig.conv.op == ConvOp::wgrad) {
      const int columns = gather_of(params_).blocks * kConvBlock, tap = quotient(column, columns);
      return {column - tap * columns, row, tap};
    }
    return is_swapped(kConfig) ? ptx::TmaBox{row, column, tile.batch}
                               : ptx::TmaBox{column, row, row_matrix_of<kConfig>(tile)};
  }
  /// First row of the CTA tile for this math group.
  SLUICE_DEVICE int group_row() const {
    return kConfig.schedule == Schedule::cooperative ? math_group() * group_rows(kConfig) : 0;
  }
  /// This thread's first row of the tile.
  SLUICE_DEVICE int fragment_row() const {
    return group_row() + group_thread() / 32 * 16 + group_thread() % 32 / 4;
  }
  SLUICE_DEVICE EpilogueVectors<kConfig> vectors() const {
    return {smem_ + epilogue_vector_offset(kConfig, math_group()), group_thread()};
  }
  SLUICE_DEVICE TileStore<kConfig> own_store() const {
    return {params_, ops_, sums_, vectors(), rows_, group_row()};
  }

  const GemmParams& params_;
  u32 smem_;
  int cta_rank_;
  int warpgroup_;
  int tile_bytes_;  // these three: the load thread's current tile
  typename LoadA::State load_a_;
  typename LoadB::State load_b_;
  ElementWise<kConfig.epilogue> ops_;
  Sums sums_;
  Optional<kPromotes, PartialSums> partial_;  // partial sums of one pass
  RowOperands<kConfig> rows_;
  Optional<kBlockScaled, ScaleReader<kConfig>> scales_;
  Optional<kBlockScaled, ScaleLoaderOf<kConfig>> scale_loader_;
  Optional<kStrided, StridedLoader<kConfig>> strided_;
};

}  // namespace sluice
