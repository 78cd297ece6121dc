// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Gemma 2: norms before and after both halves of a layer, softcaps, a window in every other layer.
#include "model/arch/config_reader.h"
#include "model/arch/family.h"
#include "model/arch/gemma.h"
#include "model/arch/gguf_keys.h"
#include "model/arch/tensor_names.h"

namespace hone::model {
namespace {

constexpr auto kTensors = Join(kOuterNames, kGemmaNormNames, kAttentionNames, kFfnNames);

Result<HfFacts> ReadConfig(const Json& config) {
  ConfigReader reader(config);
  HfFacts facts;
  DecoderSpec& spec = facts.spec;
  reader.Common(&spec);
  ReadGemma(reader, &spec);
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (config.Find(key) == nullptr) {
      reader.Fail(Code::kNotFound, StrCat("key ", key, " is missing; add it (null: no softcap)"));
    }
  }
  facts.biases = reader.Biases();
  facts.tie_head = reader.OptionalFlag("tie_word_embeddings");
  const std::int64_t window = reader.Window(true);
  const Json* old_key = config.FindNonNull("sliding_window_size");
  if (old_key != nullptr && old_key->IsInt() && old_key->AsInt() == window) {
    reader.MarkRead("sliding_window_size");
  }
  reader.Windows(&spec, window, [](std::int64_t layer) { return layer % 2 == 0; });
  reader.Rope(&spec);
  reader.RefuseOtherKeys();
  HONE_TRY(reader.Finish(&facts.warnings));
  return facts;
}

Status ReadGguf(GgufKeys& keys, DecoderSpec* spec) {
  HONE_ASSIGN(const double attention_cap, keys.Positive("attn_logit_softcapping"));
  HONE_ASSIGN(const double logits_cap, keys.Positive("final_logit_softcapping"));
  spec->attention_softcap = static_cast<float>(attention_cap);
  spec->logits_softcap = static_cast<float>(logits_cap);
  constexpr std::int64_t kLayersOf27B = 46;
  return ReadGemmaGguf(keys, kLayersOf27B, 2, spec);
}

constexpr GgufRules kGguf = {.architecture = "gemma2", .read = ReadGguf};

}  // namespace

const Family kGemma2 = {.name = "gemma2",
                        .hf_class = "Gemma2ForCausalLM",
                        .model_type = "gemma2",
                        .tensors = kTensors,
                        .read_config = ReadConfig,
                        .tied_by_default = true,
                        .norms_less_one = true,
                        .gguf = &kGguf};

}  // namespace hone::model
