// SPDX-License-Identifier: Apache-2.0
// The JSON form of a record, reading and writing, and every refusal. A refusal names the file, the field, its
// value, the rule and the remedy. To see it fail: remove the check of left-over fields from Reader::verdict;
// an unknown field is then accepted.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tuner_fixture.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

Json sample_json() {
  return Json::parse(to_json(sample_record()));
}

/// Returns the only trouble reported for a text that contains no usable record.
std::string trouble_of(const std::string& text) {
  const ParsedRecords parsed = parse_records(text, "FILE");
  EXPECT_TRUE(parsed.records.empty()) << text;
  EXPECT_EQ(parsed.troubles.size(), 1u) << text;
  return parsed.troubles.empty() ? "" : parsed.troubles.front();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(tuner_record, goes_both_ways) {
  const TuningRecord record = sample_record();
  const ParsedRecords parsed = parse_records(to_json(record), "FILE");
  ASSERT_TRUE(parsed.troubles.empty()) << parsed.troubles.front();
  ASSERT_EQ(parsed.records.size(), 1u);
  EXPECT_EQ(parsed.records[0], record);
}

TEST(tuner_record, an_array_is_sorted_one_a_line_and_the_same_for_any_order) {
  Problem wide = tuned_problem();
  wide.n = 8192;
  const TuningRecord first = sample_record(), second = sample_record(wide);
  const std::string text = to_json(std::vector{second, first});
  EXPECT_EQ(text, to_json(std::vector{first, second}));
  EXPECT_EQ(text, "[\n" + to_json(first) + ",\n" + to_json(second) + "\n]\n");
  EXPECT_EQ(parse_records(text, "FILE").records, (std::vector{first, second}));
  EXPECT_EQ(to_json(std::vector<TuningRecord>{}), "[\n]\n");
  EXPECT_TRUE(parse_records("[\n]\n", "FILE").troubles.empty());
}

TEST(tuner_record, what_is_no_record_is_refused) {
  for (const char* text : {"", "{", "[1,", "null", "7", "\"x\"", "{}", "[3]", "[[]]", "\xff\xfe", "[{}]"})
    EXPECT_TRUE(has(trouble_of(text), "FILE: ")) << text;
}

TEST(tuner_record, every_missing_field_is_named) {
  const Json sample = sample_json();
  EXPECT_GE(sample.size(), 30u);
  for (const auto& [name, value] : sample.items()) {
    Json bent = sample;
    bent.erase(name);
    EXPECT_TRUE(has(trouble_of(bent.dump()), '"' + name + "\" is missing")) << name;
  }
}

TEST(tuner_record, every_field_of_another_type_is_named_with_its_value) {
  const Json sample = sample_json();
  for (const auto& [name, value] : sample.items())
    for (const Json& wrong : {Json(nullptr), Json("@"), Json(-1), Json(Json::array()), Json("")}) {
      if (wrong == "@" && value.is_string() &&
          (name == "gpu" || name == "sluice" || name == "driver" || name == "method"))
        continue;  // free text, any value is valid
      Json bent = sample;
      bent[name] = wrong;
      EXPECT_TRUE(has(trouble_of(bent.dump()), '"' + name + "\" = " + wrong.dump() + " must be"))
          << name << " " << wrong;
    }
}

TEST(tuner_record, says_how_a_product_is_added_to_d_and_nothing_where_it_is_not) {
  TuningRecord record = sample_record();
  EXPECT_FALSE(sample_json().contains("adding")) << "records from before it could be are still read";
  for (const Adding adding : {Adding::ordered, Adding::any_order}) {
    dense_recipe(record).adding = adding;
    EXPECT_EQ(Json::parse(to_json(record))["adding"], name_of(adding));
    EXPECT_EQ(parse_records(to_json(record), "FILE").records, std::vector{record});
  }
  Json bent = sample_json();
  bent["adding"] = "often";
  EXPECT_TRUE(
      has(trouble_of(bent.dump()), "\"adding\" = \"often\" must be one of: none, ordered, any_order"));
}

TEST(tuner_record, kernels_for_packed_weights_are_not_for_others) {
  for (const char* schedule : {"narrow", "wide", "strip"}) {
    Json bent = sample_json();
    bent["schedule"] = schedule;
    EXPECT_TRUE(has(trouble_of(bent.dump()), "must be one of: ping_pong, cooperative, plain, plain_wgmma"))
        << schedule;
  }
}

TEST(tuner_record, says_that_there_is_a_bias_and_nothing_where_there_is_none) {
  TuningRecord record = sample_record();
  EXPECT_FALSE(sample_json().contains("bias"));
  dense_recipe(record).bias = Bias::column;
  EXPECT_EQ(Json::parse(to_json(record))["bias"], "column");
  EXPECT_EQ(parse_records(to_json(record), "FILE").records, std::vector{record});
}

TEST(tuner_record, says_that_operands_are_swapped_and_nothing_where_they_are_not) {
  TuningRecord record = sample_record();
  EXPECT_FALSE(sample_json().contains("swapped"));
  dense_choice(record).swapped = true;
  EXPECT_EQ(Json::parse(to_json(record))["swapped"], true);
  EXPECT_EQ(parse_records(to_json(record), "FILE").records, std::vector{record});
}

TEST(tuner_record, values_out_of_range_are_refused) {
  const struct {
    const char* name;
    Json value;
  } cases[] = {{"version", 1},
               {"version", 0},
               {"m", 0},
               {"m", 4096.0},
               {"n", 1ull << 31},
               {"k", 18446744073709551615ull},
               {"tile_m", 0},
               {"tile_n", 1025},
               {"cluster_m", 17},
               {"raster_group", 0},
               {"numbering", "gpcs"},
               {"clusters", 0},
               {"clusters", 65537},
               {"cluster_k", 0},
               {"streamed", -1},
               {"us", 0},
               {"us", 1e10},
               {"estimate_us", -0.5},
               {"residual_bytes", 5},
               {"a", "bf17"},
               {"sums", "slow"},
               {"date", "yesterday"},
               {"date", "2026-11-21T10:00:00"},
               {"gpu", std::string(201, 'x')},
               {"driver", "a\nb"},
               {"vectors", 1}};
  for (const auto& [name, value] : cases) {
    Json bent = sample_json();
    bent[name] = value;
    const std::string trouble = trouble_of(bent.dump());
    EXPECT_TRUE(has(trouble, std::string("FILE: \"") + name + "\" = ")) << trouble;
    EXPECT_TRUE(has(trouble, "remove the record or tune the problem again")) << trouble;
  }
}

TEST(tuner_record, nesting_without_end_is_refused_like_anything_else) {
  const std::string deep = std::string(200000, '[') + std::string(200000, ']');
  EXPECT_TRUE(has(trouble_of(deep), "FILE: not a JSON record"));
  std::string bent = to_json(sample_record());
  bent.replace(bent.find("4096"), 4, deep);
  EXPECT_TRUE(has(trouble_of(bent), "FILE: not a JSON record"));
  TuningRecord record = sample_record();
  record.method = "brackets [[[[[[[[[[ in a \"text\\";
  EXPECT_EQ(parse_records(to_json(record), "FILE").records, std::vector{record});
}

TEST(tuner_record, an_unknown_field_is_refused) {
  Json bent = sample_json();
  bent["tile_k"] = 64;
  EXPECT_TRUE(has(trouble_of(bent.dump()), "\"tile_k\" is no field of version 2"));
}

TEST(tuner_record, a_bad_record_of_an_array_spoils_only_itself) {
  Json bad = sample_json();
  bad["clusters"] = "many";
  const ParsedRecords parsed = parse_records(Json::array({bad, sample_json()}).dump(), "FILE");
  EXPECT_EQ(parsed.records, std::vector{sample_record()});
  ASSERT_EQ(parsed.troubles.size(), 1u);
  EXPECT_TRUE(has(parsed.troubles[0], "FILE: record 0: \"clusters\" = \"many\" must be"))
      << parsed.troubles[0];
}

TEST(tuner_recipe, shares_what_costs_the_same) {
  const Problem plain = tuned_problem();
  Problem same = plain;
  same.epilogue = {
      .scale_a = ScaleMode::tensor, .scale_b = ScaleMode::tensor, .activation = Activation::relu};
  same.a.ld = 8192;
  same.accumulate = Accumulate::fast;  // no change: 16-bit inputs are always accumulated in fp32
  EXPECT_EQ(recipe_of(plain), recipe_of(same));
  Problem rows = plain, columns = plain;
  rows.epilogue.scale_a = ScaleMode::vector;
  columns.epilogue.scale_b = ScaleMode::vector;
  EXPECT_EQ(recipe_of(rows), recipe_of(columns));
}

TEST(tuner_recipe, tells_apart_what_costs_more) {
  const Problem plain = tuned_problem();
  std::vector<Problem> others(16, plain);
  others[0].m += 8;
  others[1].n += 8;
  others[2].k += 8;
  others[3].batch = 2;
  others[4].d.type = DType::fp32;
  others[5].a.major = Major::mn;
  others[6].b.major = Major::mn;
  others[7].a.type = others[7].b.type = DType::fp16;
  others[8].epilogue.residual = true;
  others[9].epilogue.residual = true;
  others[9].epilogue.c_type = DType::fp32;
  others[10].epilogue.bias = Bias::column;
  others[11].epilogue.activation = Activation::gelu;
  others[12].d.ld = plain.n + 1;  // TMA cannot store such rows
  others[13].d.type = others[14].d.type = DType::fp32;
  others[13].epilogue.update = others[14].epilogue.update = Update::add;
  others[14].deterministic = false;
  others[15].epilogue.scale_b = ScaleMode::vector;
  for (std::size_t i = 0; i < others.size(); ++i) {
    EXPECT_NE(recipe_of(plain), recipe_of(others[i])) << i;
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_NE(recipe_of(others[i]), recipe_of(others[j])) << i << " " << j;
    EXPECT_EQ(recipe_of(example_of(recipe_of(others[i]))), recipe_of(others[i])) << i;
  }
  Problem fp8 = plain;
  fp8.a.type = fp8.b.type = DType::e4m3;
  fp8.accumulate = Accumulate::fast;
  Problem promoted = fp8;
  promoted.accumulate = Accumulate::promoted;
  Problem block = fp8;
  block.epilogue.scale_a = block.epilogue.scale_b = ScaleMode::block;
  EXPECT_NE(recipe_of(fp8), recipe_of(promoted));
  EXPECT_EQ(recipe_of(fp8).sums, Sums::fast);
  EXPECT_EQ(recipe_of(promoted).sums, Sums::promoted);
  EXPECT_EQ(recipe_of(plain).sums, Sums::fast) << "the key that all records of 16 bits have";
  EXPECT_NE(recipe_of(promoted), recipe_of(block));
  EXPECT_EQ(recipe_of(block).sums, Sums::block);
  Problem columns = block;
  columns.scale_a_ld = columns.m;
  EXPECT_NE(recipe_of(block), recipe_of(columns));
  EXPECT_EQ(recipe_of(example_of(recipe_of(columns))), recipe_of(columns));
  Problem each_column = columns;
  each_column.epilogue.scale_b = ScaleMode::vector128;
  EXPECT_EQ(recipe_of(each_column).sums, Sums::vector128);
  EXPECT_EQ(recipe_of(example_of(recipe_of(each_column))), recipe_of(each_column));
  Problem apart = columns;
  apart.scale_a_ld += 4;
  EXPECT_EQ(recipe_of(columns), recipe_of(apart));
  for (const Problem& p : {promoted, block}) EXPECT_EQ(recipe_of(example_of(recipe_of(p))), recipe_of(p));
  EXPECT_EQ(recipe_of(block), recipe_of([&] {
              Problem p = block;
              p.accumulate = Accumulate::promoted;  // block scales require it
              return p;
            }()));
}

}  // namespace
}  // namespace sluice
