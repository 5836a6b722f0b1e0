// SPDX-License-Identifier: Apache-2.0
// Which config.json files `sluice chain --model` accepts. A file whose layers are not dense, full-rank and
// gated by SiLU is refused, with the key that says so. Fails if a rule of layer_rules.cc is missing, or if a
// message does not name its file.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <sluice/bench/chain.h>

namespace sluice::bench {
namespace {

constexpr const char* kSizes =
    R"("hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 16, "num_key_value_heads": 4)";

class ChainModels : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(testing::TempDir()) / ("sluice_models_" + std::to_string(getpid())) / "tiny-1b";
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_.parent_path()); }

  std::string write(const std::string& text, const char* name = "config.json") const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  /// Parses a config.json that has the sizes above and `more`.
  Result<Model> of(const std::string& more) const {
    return parse_model(write("{" + std::string(kSizes) + ", " + more + "}"));
  }
  void refused(const std::string& more, const std::string& mention) const {
    const Result<Model> model = of(more);
    ASSERT_FALSE(model.ok()) << more;
    const std::string& message = model.error().message;
    EXPECT_NE(message.find(mention), std::string::npos) << message;
    EXPECT_EQ(message.find("--model " + (folder_ / "config.json").string()), 0u) << message;
  }

  std::filesystem::path folder_;
};

TEST_F(ChainModels, dense_decoders_gated_by_silu_are_taken) {
  for (
      const char* more :
      {R"("model_type": "llama", "hidden_act": "silu")", R"("model_type": "mistral", "hidden_act": "silu")",
       R"("model_type": "qwen2", "hidden_act": "silu", "use_sliding_window": false)",
       R"("model_type": "qwen3", "hidden_act": "silu", "layer_types": ["full_attention", "sliding_attention"])",
       R"("model_type": "phi3", "hidden_act": "silu")", R"("model_type": "llama")", R"("hidden_act": "silu")",
       R"("model_type": "llama", "hidden_act": "silu", "num_local_experts": 1, "q_lora_rank": null)",
       R"("model_type": "stablelm", "hidden_act": "silu", "use_parallel_residual": false)"}) {
    const Result<Model> model = of(more);
    EXPECT_TRUE(model.ok()) << more << ": " << (model.ok() ? "" : model.error().message);
  }
  const Result<Model> seeing =
      parse_model(write(R"({"model_type": "mistral3", "text_config": {"model_type": "mistral", )" +
                        std::string(kSizes) + "}}"));
  EXPECT_TRUE(seeing.ok()) << seeing.error().message;
}

TEST_F(ChainModels, other_layers_are_refused_by_the_key_that_says_it) {
  refused(R"("model_type": "bert", "hidden_act": "gelu")", "hidden_act is \"gelu\"");
  refused(R"("model_type": "bert", "hidden_act": "silu")", "model_type is \"bert\"");
  refused(R"("model_type": "gemma2", "hidden_activation": "gelu_pytorch_tanh")",
          "hidden_activation is \"gelu_pytorch_tanh\"");
  refused(R"("model_type": "gemma3_text", "hidden_act": "silu", "hidden_activation": "gelu_pytorch_tanh")",
          "hidden_activation");
  refused(R"("model_type": "nemotron", "hidden_act": "relu2")", "hidden_act is \"relu2\"");
  refused(R"("model_type": "exaone", "activation_function": "gelu_new")", "activation_function");
  refused(R"("model_type": "deepseek_v2", "hidden_act": "silu", "kv_lora_rank": 512)", "kv_lora_rank is 512");
  refused(R"("model_type": "minicpm3", "hidden_act": "silu", "q_lora_rank": 768)", "q_lora_rank is 768");
  refused(R"("model_type": "mixtral", "hidden_act": "silu", "num_local_experts": 8)",
          "num_local_experts is 8");
  refused(R"("model_type": "qwen3_moe", "hidden_act": "silu", "num_experts": 128)", "num_experts is 128");
  refused(R"("model_type": "qwen2", "hidden_act": "silu", "moe_intermediate_size": 768)",
          "moe_intermediate_size");
  refused(R"("model_type": "falcon_h1", "hidden_act": "silu")", "model_type is \"falcon_h1\"");
  refused(R"("model_type": "cohere", "hidden_act": "silu")", "model_type is \"cohere\"");
  refused(R"("model_type": "qwen3", "hidden_act": "silu", "layer_types": ["linear_attention"])",
          "layer_types");
  refused(R"("model_type": "qwen3", "hidden_act": "silu", "attn_output_gate": true)",
          "attn_output_gate is true");
  refused(R"("model_type": "stablelm", "hidden_act": "silu", "use_parallel_residual": true)",
          "use_parallel_residual");
  refused(R"("model_type": "bart", "hidden_act": "silu", "is_encoder_decoder": true)", "is_encoder_decoder");
  refused(R"("model_type": 7, "hidden_act": "silu")", "model_type is 7");
  refused(R"("vocab_size": 32000)", "has no model_type and no hidden_act");
  refused(R"("model_type": "a\u001b[31m", "hidden_act": "silu")", "model_type is \"a\\\\u001b[31m\"");
}

TEST_F(ChainModels, a_size_that_is_not_there_is_called_missing) {
  const auto message = [&](const std::string& text) {
    const Result<Model> model = parse_model(write(text));
    return model.ok() ? "" : model.error().message;
  };
  EXPECT_NE(message(R"({"model_type": "gpt2", "n_embd": 768})").find("has no hidden_size"),
            std::string::npos);
  EXPECT_NE(message(R"({"model_type": "falcon", "hidden_size": 4544})").find("has no intermediate_size"),
            std::string::npos);
  EXPECT_NE(message(R"({"llm_config": {"model_type": "qwen2"}})").find("has no hidden_size"),
            std::string::npos);
  EXPECT_NE(message(R"({"hidden_size": "big"})").find("hidden_size must be a whole number"),
            std::string::npos);
}

TEST_F(ChainModels, errors_and_titles_name_the_file) {
  const std::string llama = "{" + std::string(kSizes) + R"(, "model_type": "llama"})";
  const std::string named = write(llama, "qwen3-8b.json");
  EXPECT_EQ(parse_model(named)->name, "qwen3-8b") << "the file's name, not its folder's";
  EXPECT_EQ(parse_model(write(llama))->name, "tiny-1b") << "config.json has its folder's";
  EXPECT_EQ(parse_model(folder_.string())->name, "tiny-1b") << "a folder with a config.json";
  EXPECT_EQ(parse_model(folder_.string() + ":4")->name, "tiny-1b-tp4");
  EXPECT_EQ(parse_model(named + ":4")->inner, 2048);
  const std::string broken = write("{", "broken.json");
  const Result<Model> model = parse_model(broken);
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().message.find(broken + ": is not JSON from byte"), std::string::npos)
      << model.error().message;
  EXPECT_EQ(parse_model((folder_ / "gone.json").string()).error().code, ErrorCode::io);
  EXPECT_NE(parse_model("Qwen/Qwen3-8B").error().message.find("config.json"), std::string::npos);
  EXPECT_NE(parse_model("Qwen/Qwen3-8B").error().message.find("hf download Qwen/Qwen3-8B"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice::bench
