// SPDX-License-Identifier: Apache-2.0
// The tool's errors for impossible values, bad files and lost output. Each names the value and the rule and
// has exit code 2; the tool never aborts or silently uses a default.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "cli/command_line.h"
#include "run_tool.h"

namespace {

using sluice::Outcome;

class CliValues : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "sluice_values_" + std::to_string(getpid());
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Outcome sluice(const std::string& arguments, const std::string& environment = "") const {
    return sluice::run_tool(environment + " SLUICE_RECORDS_DIR= SLUICE_CACHE_DIR='" + folder_ + "/cache'",
                            arguments);
  }
  void refused(const std::string& arguments, const std::string& message) const {
    const Outcome outcome = sluice(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments << "\n" << outcome.text;
    EXPECT_TRUE(outcome.has(message)) << arguments << ": no " << message << " in\n" << outcome.text;
  }

  std::string folder_;
};

TEST_F(CliValues, counts_and_times_have_ranges) {
  const std::string verify = "verify --device host --largest 16 ";
  refused(verify + "--problems 0", "--problems: Value 0 not in range 1 to 1000000");
  refused(verify + "--problems -1", "--problems: Value -1 not in range");
  refused("verify --device host --problems 1 --largest -1", "--largest: Value -1 not in range 0 to");
  refused(verify + "--problems 1 --hang-s -1", "--hang-s: Value -1 not in range 0 to 86400");
  refused("run --device host --shape 8x8x8 --hang-s -5", "--hang-s: Value -5 not in range");
  refused("compile --shape 8x8x8 --top 0", "--top: Value 0 not in range 1 to 1000");
  refused("compile --shape 8x8x8 --top -1", "--top: Value -1 not in range");
  refused("compile --shape 8x8x8 --jobs -3", "--jobs: Value -3 not in range 0 to 1024");
  refused("plan --shape 8x8x8 --workspace-limit -5", "--workspace-limit: Value -5 not in range 0 to");
  refused("bench --rounds 0", "--rounds: Value 0 not in range 1 to 1000");
  refused("bench --rest-ms -1", "--rest-ms: Value -1 not in range");
  refused("bench --tune -1", "--tune: Value -1 not in range");
  refused("bench --replay-us 0", "--replay-us: Value 0 not in range");
  refused("bench --hang-s -1", "--hang-s: Value -1 not in range");
  refused("tune --rest-ms -1", "--rest-ms: Value -1 not in range");
  refused("tune --hang-s -1", "--hang-s: Value -1 not in range");
  EXPECT_EQ(sluice("plan --shape 8x8x8 --workspace-limit 0").code, 0);
}

TEST_F(CliValues, numbers_past_their_type_are_named_as_they_were_given) {
  refused("verify --problems 1 --seed -1", "--seed: -1 must be in 0..2^64-1");
  refused("verify --problems 1 --seed 18446744073709551616",
          "--seed: 18446744073709551616 must be in 0..2^64-1");
  refused("plan -m 99999999999999999999999 -n 1 -k 1",
          "--m: 99999999999999999999999 must be in -2^63..2^63-1");
  refused("plan --shape 16x16x16 --stages 99999999999", "--stages: 99999999999 must be in 2..32");
  refused("plan --shape 16x16x16 --stages 0x4", "--stages: 0x4 must be");
  refused("plan --shape 16x16x16 --stages four", "--stages: \"four\" must be a whole decimal number");
  refused("plan --shape 16x16x16 --swapped maybe", "--swapped: \"maybe\" must be true or false");
  EXPECT_EQ(sluice("plan --shape 8x8x8 --no-records --swapped FALSE").code, 0);
  EXPECT_EQ(sluice("verify --device host --problems 1 --largest 16 --seed 18446744073709551615").code, 0);
}

TEST_F(CliValues, factors_are_finite_floats) {
  const std::string run = "run --device host --no-compile --shape 16x16x16 ";
  for (const char* value : {"nan", "inf", "-inf", "1e60", "-3.5e38"}) {
    refused(run + "--alpha " + value, std::string(value) + " must be a finite float");
    refused(run + "--residual --beta " + value, std::string(value) + " must be a finite float");
  }
  refused(run + "--alpha much", "--alpha: \"much\" must be a number");
}

/// Where fp16 overflows, both results are infinite and count as equal; all other elements are compared.
TEST_F(CliValues, what_overflows_as_it_should_is_right) {
  const Outcome outcome = sluice("run --device host --no-compile --shape 16x16x16 --dtype fp16 --alpha 1e30");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_TRUE(outcome.has("256 elements within the bound")) << outcome.text;
}

TEST_F(CliValues, an_empty_text_is_no_value) {
  refused("plan --shape 8x8x8 --dtype ''", "--dtype: its text must not be empty");
  refused("compile --shape 8x8x8 --cache-dir ''", "--cache-dir: its text must not be empty");
  refused("bench --only ''", "--only: its text must not be empty");
  std::ofstream(folder_ + "/empty.json") << R"([{"shape": "8x8x8", "dtype": ""}])";
  refused("compile --shapes " + folder_ + "/empty.json", "entry 0: --dtype: its text must not be empty");
}

TEST_F(CliValues, an_unknown_first_word_is_named_beside_those_that_there_are) {
  refused("pln --shape 8x8x8",
          "there is no verb \"pln\": did you mean plan? (sluice --help lists the verbs)");
  refused("plna", "did you mean plan?");
  refused("frobnicate", "there is no verb \"frobnicate\": give one of run, plan, ");
  refused("records", "sluice tune makes records");
  refused("conv --input 1", "sluice run --conv");
  refused("--device host plan", "\"--device\" stands in front of the verb: begin with one of run, plan");
  refused("", "a verb is missing: give one of run, plan, compile, bench, chain, tune, doctor, pack");
}

TEST_F(CliValues, help_is_a_word_too) {
  EXPECT_EQ(sluice("help").text, sluice("--help").text);
  EXPECT_EQ(sluice("help").code, 0);
  EXPECT_EQ(sluice("help plan").text, sluice("plan --help").text);
  EXPECT_TRUE(sluice("help plan").has("--shape"));
  refused("help plna", "did you mean plan?");
}

TEST_F(CliValues, an_unknown_flag_is_answered_with_the_nearest) {
  refused("plan --shape 8x8x8 --wieghts int4",
          "there is no flag \"--wieghts\": did you mean --weights? (sluice plan --help lists the flags)");
  refused("bench --shaps x", "did you mean --shapes? (sluice bench --help lists the flags)");
  refused("plan -=a", "there is no flag \"-=a\": leave it out");
  refused("plan --shape 8x8x8 --epilogue gelu", "there is no flag \"--epilogue\": leave it out");
  std::ofstream(folder_ + "/list.txt") << "8x8x8 --dtpye e4m3\n";
  refused("compile --shapes " + folder_ + "/list.txt",
          "line 1: there is no flag \"--dtpye\": did you mean --dtype?");
}

TEST_F(CliValues, short_flags_take_an_equals_sign) {
  EXPECT_EQ(sluice("plan -m=64 -n=64 -k=64 --device host").code, 0);
  EXPECT_EQ(sluice("plan -m=64 -n=64 -k=64 --device host").text,
            sluice("plan --shape 64x64x64 --device host").text);
  refused("plan -m=four -n 8 -k 8", "--m: \"four\" must be a whole decimal number");
}

TEST_F(CliValues, types_have_the_names_that_torch_gives_them) {
  const auto plan = [&](const std::string& type) {
    return sluice("plan --shape 64x512x512 --device host --dtype " + type).text;
  };
  for (const auto& [theirs, ours] : {std::pair{"bfloat16", "bf16"},
                                     {"torch.bfloat16", "bf16"},
                                     {"float16", "fp16"},
                                     {"half", "fp16"},
                                     {"float8_e4m3fn", "e4m3"},
                                     {"torch.float8_e4m3fn", "e4m3"},
                                     {"e4m3fn", "e4m3"},
                                     {"fp8", "e4m3"},
                                     {"float8_e5m2", "e5m2"}})
    EXPECT_EQ(plan(theirs), plan(ours)) << theirs;
  EXPECT_TRUE(sluice("plan --shape 64x512x512 --device host --dtype fp8 --d float32").has("D fp32"));
  EXPECT_EQ(sluice("plan --shape 64x512x512 --device host --dtype float8_e4m3fn --accumulate promoted").code,
            0);
  refused("plan --shape 64x512x512 --dtype int8", "\"int8\" is not one of: bf16, fp16");
}

TEST_F(CliValues, the_version_is_told) {
  const Outcome outcome = sluice("--version");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_EQ(outcome.text.find("sluice 0."), 0u) << outcome.text;
  const std::string commit = sluice::cli::built_commit();
  if (!commit.empty()) {
    EXPECT_TRUE(outcome.has("(" + commit + ")")) << outcome.text;
    EXPECT_GE(commit.size(), 40u) << commit;
  }
  EXPECT_TRUE(outcome.has("\nkernels:")) << "certificates name what kernels are made of: " << outcome.text;
  EXPECT_TRUE(sluice("--help").has("--version"));
}

/// Redirects stderr to a file, because the shell's stdout is closed or full.
class CliLostOutput : public CliValues {
 protected:
  Outcome lost(const std::string& arguments, const std::string& how) const {
    const std::string tool = "'" SLUICE_BINARY_DIR "/sluice' ", said = folder_ + "/stderr";
    const std::string command = "( trap '' XFSZ; " + tool + arguments + " 2>'" + said + "' " + how + " )";
    const int code = std::system(command.c_str());
    std::ifstream file(said);
    return {WEXITSTATUS(code), {std::istreambuf_iterator<char>(file), {}}};
  }
  void expect_told(const Outcome& outcome) const {
    EXPECT_EQ(outcome.code, 2) << outcome.text;
    EXPECT_TRUE(outcome.has("sluice: io: the output cannot be written")) << outcome.text;
  }
};

TEST_F(CliLostOutput, a_closed_stdout_is_an_error_of_its_own) {
  for (const char* verb : {"plan --shape 16x16x16 --device host", "--help", "--version", "plan --help"}) {
    SCOPED_TRACE(verb);
    expect_told(lost(verb, ">&-"));
  }
}

TEST_F(CliLostOutput, a_closed_stdout_is_no_place_for_what_is_opened_next) {
  const std::string out = folder_ + "/blob";
  std::ofstream(folder_ + "/codes") << std::string(64 * 128, '\1');
  std::ofstream(folder_ + "/scales") << std::string(128, '\0');
  expect_told(lost(
      "pack -n 64 -k 128 --codes " + folder_ + "/codes --scales " + folder_ + "/scales --out " + out, ">&-"));
  if (std::ifstream blob(out); blob) {
    const std::string bytes{std::istreambuf_iterator<char>(blob), {}};
    EXPECT_EQ(bytes.find("format"), std::string::npos) << "the table went into the file";
  }
}

/// Simulates a full disk by a limit on file size.
TEST_F(CliLostOutput, a_full_disk_is_an_error_too) {
  for (const char* verb : {"plan --shape 16x16x16 --device host", "--help"}) {
    SCOPED_TRACE(verb);
    const std::string tool = "'" SLUICE_BINARY_DIR "/sluice' ";
    // stderr goes through a pipe, to which the limit does not apply.
    const Outcome outcome = [&] {
      const std::string command =
          "( trap '' XFSZ; ulimit -f 0; " + tool + verb + " 2>&1 >'" + folder_ + "/full'; echo rc $? )";
      FILE* pipe = popen(command.c_str(), "r");
      Outcome found{.code = 0};
      std::array<char, 4096> part;
      while (const size_t count = fread(part.data(), 1, part.size(), pipe))
        found.text.append(part.data(), count);
      pclose(pipe);
      return found;
    }();
    EXPECT_TRUE(outcome.has("sluice: io: the output cannot be written")) << outcome.text;
    EXPECT_TRUE(outcome.has("rc 2")) << outcome.text;
  }
}

TEST_F(CliValues, folders_are_no_files) {
  refused("compile --shapes " + folder_, "io: " + folder_ + " cannot be read");
  refused("tune --set smoke --out " + folder_, folder_ + " is a folder, and the records go into one file");
}

TEST_F(CliValues, a_byte_order_mark_is_no_part_of_the_first_problem) {
  std::ofstream(folder_ + "/lines.txt") << "\xEF\xBB\xBF"
                                        << "64x64x64\n";
  std::ofstream(folder_ + "/list.json") << "\xEF\xBB\xBF"
                                        << R"([{"shape": "64x64x64"}])";
  for (const char* name : {"/lines.txt", "/list.json"}) {
    const Outcome outcome = sluice("compile --shapes " + folder_ + name);
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_TRUE(outcome.has("1 problem for")) << outcome.text;
  }
}

TEST_F(CliValues, a_product_of_no_k_is_too_large_by_what_it_has) {
  refused("run --device host --shape 100000x100000x0", "100000x100000x0 has 1e+10 elements of D");
}

TEST_F(CliValues, doctor_lists_variables_and_records_that_mean_nothing) {
  const Outcome outcome = sluice("doctor --no-gpu", "SLUICE_CACHE_READ_ONLY=foo SLUICE_JOBS=many");
  EXPECT_TRUE(outcome.has("SLUICE_CACHE_READ_ONLY=foo means nothing")) << outcome.text;
  EXPECT_TRUE(outcome.has("SLUICE_JOBS=many means nothing")) << outcome.text;
  EXPECT_FALSE(sluice("doctor --no-gpu", "SLUICE_CACHE_READ_ONLY=False").has("means nothing"));
  const std::string records = folder_ + "/records";
  std::filesystem::create_directory(records);
  std::filesystem::permissions(records, std::filesystem::perms::owner_all);
  for (const char* name : {"/one.json", "/two.json"}) std::ofstream(records + name) << "{";
  const Outcome found =
      sluice::run_tool("SLUICE_RECORDS_DIR='" + records + "' SLUICE_CACHE_DIR=", "doctor --no-gpu");
  EXPECT_TRUE(found.has("2 passed over: ")) << found.text;
  EXPECT_TRUE(found.has("/one.json") && found.has("/two.json")) << found.text;
}

}  // namespace
