// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Gemma 3, the text model: Gemma 2 with q and k norms, no softcaps, and a rope of their own for the
// layers with a window.
#include <utility>

#include "model/arch/config_reader.h"
#include "model/arch/family.h"
#include "model/arch/gemma.h"
#include "model/arch/gguf_keys.h"
#include "model/arch/tensor_names.h"
#include "model/rope.h"

namespace hone::model {
namespace {

constexpr auto kTensors =
    Join(kOuterNames, kGemmaNormNames, kQkNormNames, kAttentionNames, kFfnNames);

// Published folders with a vision tower leave out what transformers' class has as its default.
void AddDefaults(ConfigReader& reader, const Json& config) {
  reader.Default("num_attention_heads", Json(8));
  reader.Default("num_key_value_heads", Json(4));
  reader.Default("head_dim", Json(256));
  reader.Default("vocab_size", Json(262208));
  reader.Default("max_position_embeddings", Json(131072));
  reader.Default("rms_norm_eps", Json(1e-6));
  reader.Default("hidden_activation", Json("gelu_pytorch_tanh"));
  reader.Default("query_pre_attn_scalar", Json(256));
  if (config.FindNonNull("layer_types") == nullptr) {
    reader.Default("sliding_window_pattern", Json(6));
  }
  if (config.FindNonNull("rope_parameters") == nullptr) {
    reader.Default("rope_theta", Json(1000000));
    reader.Default("rope_local_base_freq", Json(10000));
  }
}

Result<HfFacts> ReadConfig(const Json& config) {
  ConfigReader reader(config);
  HfFacts facts;
  DecoderSpec& spec = facts.spec;
  AddDefaults(reader, config);
  reader.Common(&spec);
  ReadGemma(reader, &spec);
  spec.qk_norm = QkNorm::kPerHead;
  facts.biases = reader.Biases();
  facts.tie_head = reader.OptionalFlag("tie_word_embeddings");
  // With layer_types the pattern is only a leftover.
  const bool by_type = config.FindNonNull("layer_types") != nullptr;
  const std::int64_t pattern = by_type ? 1 : reader.Dimension("sliding_window_pattern");
  if (by_type) reader.MarkRead("sliding_window_pattern");
  reader.Windows(&spec, reader.Window(true),
                 [&](std::int64_t layer) { return (layer + 1) % pattern != 0; });
  reader.Rope(&spec);
  reader.RefuseOtherKeys();
  HONE_TRY(reader.Finish(&facts.warnings));
  return facts;
}

Status ReadGguf(GgufKeys& keys, DecoderSpec* spec) {
  spec->qk_norm = QkNorm::kPerHead;
  HONE_ASSIGN(const std::int64_t pattern, keys.DimensionOr("attention.sliding_window_pattern", 6));
  constexpr std::int64_t kLayersOf27B = 62;
  HONE_TRY(ReadGemmaGguf(keys, kLayersOf27B, pattern, spec));
  RopeFacts local;
  HONE_ASSIGN(local.theta, keys.PositiveOr("rope.freq_base_swa", 10000));
  auto table = MakeRopeTable(local, spec->head_dim);
  if (!table.ok()) return std::move(table).status();
  spec->ropes.push_back(*std::move(table));
  for (std::size_t i = 0; i < spec->layer_specs.size(); ++i) {
    if (static_cast<std::int64_t>(i + 1) % pattern != 0) spec->layer_specs[i].rope = 1;
  }
  return Status();
}

constexpr GgufRules kGguf = {.architecture = "gemma3", .read = ReadGguf};

}  // namespace

const Family kGemma3Text = {.name = "gemma3",
                            .hf_class = "Gemma3ForCausalLM",
                            .model_type = "gemma3_text",
                            .tensors = kTensors,
                            .read_config = ReadConfig,
                            .tied_by_default = true,
                            .norms_less_one = true,
                            .gguf = &kGguf};

}  // namespace hone::model
