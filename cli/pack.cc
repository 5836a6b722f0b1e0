// SPDX-License-Identifier: Apache-2.0
// `sluice pack`: prints the layout and size of a packed blob of weights, and makes the blob from raw arrays.
// Runs on the CPU; sluice/pack.h packs a model's weights on the GPU.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

#include <sluice/bench/parse.h>
#include <sluice/bench/whole_file.h>
#include <sluice/messages/errors.h>
#include <sluice/pack_weights.h>
#include <sluice/spec/packing.h>
#include <sluice/text.h>
#include <sluice/try.h>

#include "cli/problem_flags.h"
#include "cli/table.h"
#include "cli/verb.h"

namespace sluice::cli {
namespace {

struct PackFlags {
  i64 n = 0, k = 0;
  PackedFlags format{.weights = "int4"};
  std::string tokens = "fp16";
  int shards = 1;
  bool gated = false;
  std::string codes, scales, zeros, out;
};

/// Returns the number that is added to a signed value of the file to get its code. An int8 file that comes
/// with stored zero points holds codes 0..255, because zero points are codes too.
int added_to_values(const std::string& weights, ScaleZero zero) {
  if (weights == "int4") return implied_zero(WeightType::uint4);
  return weights == "int8" && zero == ScaleZero::none ? implied_zero(WeightType::int8) : 0;
}

Result<FragmentOrder> order_of(const std::string& tokens) {
  if (tokens == "fp16" || tokens == "bf16") return FragmentOrder::half;
  if (tokens == "e4m3") return FragmentOrder::byte;
  return bad_argument("tokens-type {} is not one of: fp16, bf16, e4m3", in_quotes(tokens));
}

Result<WeightFormat> format_of(const PackFlags& flags) {
  SLUICE_TAKE(WeightFormat format, format_of(flags.format));
  SLUICE_TAKE(const FragmentOrder order, order_of(flags.tokens));
  format.order = order;
  if (const char* rule = validate(format))
    return error_of(ErrorCode::invalid_config,
                    "--weights {} --group {} --scale {} --zero {} --tokens-type {}: {}", flags.format.weights,
                    format.group, name_of(format.scale), name_of(format.zero), flags.tokens, rule);
  return format;
}

Result<void> check_sizes(const PackFlags& flags) {
  constexpr i64 kLargest = (i64{1} << 31) - 1;
  if (flags.n < 1 || flags.k < 1 || flags.n > kLargest || flags.k > kLargest)
    return error_of(ErrorCode::invalid_size, "--n {} --k {}: each must be in 1..2^31-1", flags.n, flags.k);
  if (flags.shards < 1 || flags.shards > 64)
    return error_of(ErrorCode::invalid_size, "--shards {} must be in 1..64", flags.shards);
  if (const char* rule = flags.gated ? validate_gated(flags.n) : nullptr)
    return error_of(ErrorCode::invalid_size, "--n {}{}", flags.n, rule);
  if (flags.gated && flags.shards > 1)
    return bad_argument("--shards {} is for one half of a gated product: say --n {} without --gated",
                        flags.shards, flags.n / 2);
  return {};
}

void print_numbers(const PackFlags& flags, const WeightFormat& f) {
  const auto line = [](const char* name, const std::string& text) { fmt::print("{:<16}{}\n", name, text); };
  line("format", fmt::format("{}, group {}, {} scales, {}, order {}", name_of(f.type),
                             f.group == 0 ? "of the whole k" : std::to_string(f.group), name_of(f.scale),
                             f.zero == ScaleZero::none ? fmt::format("zero {}", implied_zero(f.type))
                                                       : std::string("a zero a group"),
                             name_of(f.order)));
  line("tile", fmt::format("{} bytes for {} x {}: codes {}, scales {}, zeros {}", tile_bytes(f), kStripRows,
                           kPackedTileK, tile_code_bytes(f), tile_scale_bytes(f), tile_zero_bytes(f)));
  line("strip", fmt::format("{} bytes for {} rows: {} tiles, then {} bytes of the rows' scales and zeros",
                            strip_bytes(f, flags.k), kStripRows, packed_k_tiles(flags.k),
                            row_scale_bytes(f) + row_zero_bytes(f)));
  const i64 strips = flags.gated ? gated_strips(flags.n) : strip_count(flags.n);
  const i64 bytes = strips * strip_bytes(f, flags.k);
  const double bits = bits_each(bytes, flags.n, flags.k);
  line("blob", fmt::format("{} bytes for {} x {}: {} strips{}", bytes, flags.n, flags.k, strips,
                           flags.gated ? ", half of them the gate's" : ""));
  line("bits a weight", fmt::format("{:.4g} stored, {} of them its code; {:.3f} of 16 bits", bits,
                                    code_bits(f.type), bits / 16));
}

/// The range of `extent` that shard `index` gets, in whole multiples of `unit`. If they do not divide evenly,
/// the first shards get one more.
SliceRange share_of(i64 extent, int unit, int shards, int index) {
  const i64 units = ceil_div(extent, i64{unit});
  const auto at = [&](i64 shard) { return std::min(extent, ceil_div(units * shard, i64{shards}) * unit); };
  return {at(index), at(index + 1)};
}

void print_slices(const PackFlags& flags, const WeightFormat& f) {
  const Table table({{.title = "shard"},
                     {.title = "rows", .width = 14},
                     {.title = "offset", .width = 12},
                     {.title = "bytes", .width = 12},
                     {.title = "k", .width = 14},
                     {.title = "offset", .width = 12},
                     {.title = "bytes x strips", .width = 16}});
  fmt::print("\n{}", table.header());
  const auto range = [](SliceRange r) { return fmt::format("{}..{}", r.begin, r.end); };
  for (int i = 0; i < flags.shards; ++i) {
    const SliceRange rows = share_of(flags.n, kStripRows, flags.shards, i);
    const SliceRange part = share_of(flags.k, kPackedTileK, flags.shards, i);
    const SliceCopy of_rows = rows_slice(f, flags.k, rows), of_k = k_slice_tiles(f, flags.n, flags.k, part);
    fmt::print("{}",
               table.row({std::to_string(i), range(rows), std::to_string(of_rows.source_offset),
                          std::to_string(of_rows.width), range(part), std::to_string(of_k.source_offset),
                          fmt::format("{} x {}", of_k.width, of_k.height)}));
  }
  fmt::print("pitch of strips {} bytes{}\n", strip_bytes(f, flags.k),
             f.group == 0 ? "; a slice of k takes the rows' scales behind each strip too" : "");
}

Result<std::vector<u8>> read_file(const std::string& path, const char* flag, i64 bytes) {
  std::error_code failed;
  const auto size = std::filesystem::file_size(path, failed);
  if (failed) return error_of(ErrorCode::io, "{} {}: {}", flag, escaped(path), failed.message());
  if (static_cast<i64>(size) != bytes)
    return error_of(ErrorCode::invalid_size, "{} {} has {} bytes and must have {}: a raw row-major array",
                    flag, escaped(path), size, bytes);
  std::vector<u8> content(static_cast<std::size_t>(bytes));
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(content.data()), static_cast<std::streamsize>(bytes)))
    return error_of(ErrorCode::io, "{} {}: cannot be read", flag, escaped(path));
  return content;
}

/// Converts signed values of the file to codes, in place.
Result<void> to_codes(const PackFlags& flags, int added, std::vector<u8>& values) {
  if (added == 0) return {};
  const int least = -added, most = added - 1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int value = static_cast<signed char>(values[i]);
    if (value < least || value > most)
      return bad_argument("--codes {}: value {} at [{}][{}] must be in {}..{}: {} is one signed value a byte",
                          escaped(flags.codes), value, static_cast<i64>(i) / flags.k,
                          static_cast<i64>(i) % flags.k, least, most, flags.format.weights);
    values[i] = static_cast<u8>(value + added);
  }
  return {};
}

/// Refuses an output path that is the same file as an input, even under another name.
Result<void> check_out(const PackFlags& flags) {
  const struct {
    const char* flag;
    const std::string& path;
  } inputs[] = {{"--codes", flags.codes}, {"--scales", flags.scales}, {"--zeros", flags.zeros}};
  std::error_code ignored;
  for (const auto& [flag, path] : inputs)
    if (std::filesystem::equivalent(flags.out, path, ignored))
      return bad_argument("--out {} is the file of {}, which would be lost: name another", escaped(flags.out),
                          flag);
  return {};
}

Result<int> pack_files(const PackFlags& flags, const WeightFormat& f) {
  const i64 scale_bytes = flags.n * group_count(f, flags.k) * bytes_of(f.scale);
  const bool has_zeros = f.zero == ScaleZero::per_group;
  if (flags.scales.empty() || flags.out.empty() || has_zeros == flags.zeros.empty())
    return bad_argument("--codes FILE needs --scales FILE and --out FILE too, and {}",
                        has_zeros ? "--zeros FILE" : "no --zeros FILE, which is for --zero per_group");
  SLUICE_TRY(check_out(flags));
  SLUICE_TAKE(std::vector<u8> codes, read_file(flags.codes, "--codes", flags.n * flags.k));
  SLUICE_TRY(to_codes(flags, added_to_values(flags.format.weights, f.zero), codes));
  SLUICE_TAKE(const std::vector<u8> scales, read_file(flags.scales, "--scales", scale_bytes));
  std::optional<std::vector<u8>> zeros;
  if (has_zeros) {
    SLUICE_TAKE(std::vector<u8> read, read_file(flags.zeros, "--zeros", scale_bytes));
    zeros = std::move(read);
  }
  SLUICE_TAKE(const auto blob, pack_weights(f, {flags.n, flags.k, codes.data(), scales.data(),
                                                zeros ? zeros->data() : nullptr, flags.gated}));
  const std::string bytes(reinterpret_cast<const char*>(blob.data()), blob.size());
  if (Result<void> written = bench::write_whole(bytes, flags.out); !written)
    return Error{ErrorCode::io, "--out " + written.error().message};
  fmt::print("\n{} bytes written to {}\n", blob.size(), escaped(flags.out));
  return kExitOk;
}

Result<int> run_pack(const PackFlags& flags) {
  SLUICE_TAKE(const WeightFormat format, format_of(flags));
  SLUICE_TRY(check_sizes(flags));
  if (flags.codes.empty() && !(flags.scales.empty() && flags.zeros.empty() && flags.out.empty()))
    return bad_argument("--scales, --zeros and --out need --codes FILE: nothing to pack");
  print_numbers(flags, format);
  if (flags.shards > 1) print_slices(flags, format);
  return flags.codes.empty() ? Result<int>(kExitOk) : pack_files(flags, format);
}

}  // namespace

Verb add_pack_verb(CLI::App& app) {
  auto flags = std::make_shared<PackFlags>();
  CLI::App* verb =
      app.add_subcommand("pack", "Show the packed format of weights, and pack raw arrays; needs no GPU");
  verb->add_option("-n,--n", flags->n, "Rows: outputs of the layer")->required();
  verb->add_option("-k,--k", flags->k, "Length of the sums")->required();
  verb->add_option("--weights", flags->format.weights, kWeightNames)->capture_default_str();
  verb->add_option("--group", flags->format.group, kGroupHelp);
  verb->add_option("--scale", flags->format.weight_scale, kScaleHelp);
  verb->add_option("--zero", flags->format.zero, "none or per_group")->capture_default_str();
  verb->add_option("--tokens-type", flags->tokens, "fp16, bf16 or e4m3; gives the order")
      ->capture_default_str();
  verb->add_flag("--gated", flags->gated, "The rows are gate and up of a gated product, half of n each");
  verb->add_option("--shards", flags->shards, "Show the slices of so many ranks, by rows and by k")
      ->capture_default_str();
  verb->add_option("--codes", flags->codes,
                   "File: n x k values, a byte each: signed ones of int4 and int8, codes of int8 with zeros");
  verb->add_option("--scales", flags->scales, "File: n x groups scales");
  verb->add_option("--zeros", flags->zeros, "File: n x groups zeros, of the scales' type");
  verb->add_option("--out", flags->out, "File for the blob");
  return {verb, [flags] { return run_pack(*flags); }};
}

}  // namespace sluice::cli
