// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "model/arch/config_reader.h"

#include <algorithm>
#include <cmath>

#include "model/rope.h"

namespace hone::model {
namespace {

constexpr std::int64_t kMaxDimension = std::int64_t{1} << 24;

// Keys that say nothing about the forward pass: training, generation, bookkeeping.
constexpr std::string_view kHarmless[] = {
    "architectures",
    "model_type",
    "torch_dtype",
    "dtype",
    "attention_dropout",
    "hidden_dropout",
    "hidden_dropout_prob",
    "resid_pdrop",
    "embd_pdrop",
    "attn_pdrop",
    "initializer_range",
    "use_cache",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "unk_token_id",
    "sep_token_id",
    "cls_token_id",
    "decoder_start_token_id",
    "bos_token",
    "eos_token",
    "pad_token",
    "unk_token",
    "tokenizer_class",
    "transformers_version",
    "transformers.js_config",
    "generation_config",
    "gradient_checkpointing",
    "output_attentions",
    "output_hidden_states",
    "return_dict",
    "return_dict_in_generate",
    "output_scores",
    "torchscript",
    "use_bfloat16",
    "problem_type",
    "finetuning_task",
    "task_specific_params",
    "id2label",
    "label2id",
    "num_labels",
    "prefix",
    "is_decoder",
    "is_encoder_decoder",
    "is_llama_config",
    "chunk_size_feed_forward",
    "do_sample",
    "early_stopping",
    "length_penalty",
    "max_length",
    "min_length",
    "max_new_tokens",
    "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size",
    "num_beams",
    "num_beam_groups",
    "diversity_penalty",
    "num_return_sequences",
    "repetition_penalty",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
    "bad_words_ids",
    "begin_suppress_tokens",
    "suppress_tokens",
    "exponential_decay_length_penalty",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "remove_invalid_values",
    "original_max_position_embeddings",
    "max_window_layers",
    "max_sequence_length",
    "seq_length",
    "model_max_length",
    "type_vocab_size",
    "auto_map",
    "custom_pipelines",
    "base_model_tp_plan",
};
constexpr std::string_view kHarmlessPrefixes[] = {"_", "unsloth", "neuron", "quantization_annot"};

// Keys that other architectures use, with the value that leaves Llama's numbers alone.
struct NeutralKey {
  std::string_view key;
  double neutral;
};
constexpr NeutralKey kNeutral[] = {
    {"pretraining_tp", 1},
    {"scale_emb", 1},
    {"embedding_multiplier", 1},
    {"residual_multiplier", 1},
    {"attention_multiplier", 0},
    {"logits_scaling", 1},
    {"logit_scale", 1},
    {"mup_multiplier", 1},
    {"partial_rotary_factor", 1},
    {"rotary_pct", 1},
    {"num_experts", 0},
    {"num_local_experts", 0},
    {"num_nextn_predict_layers", 0},
};

// Off: the feature that the key would turn on is not used.
bool IsOff(const Json& value) {
  if (value.IsNull()) return true;
  if (value.IsBool()) return !value.AsBool();
  if (value.IsNumber()) return value.AsDouble() == 0 || (!value.IsInt() && value.AsDouble() == 1);
  if (value.IsString()) return value.AsString().empty();
  return value.IsArray() ? value.AsArray().empty() : value.AsObject().empty();
}

// [1, 1, ...] or ["full_attention", ...]: every layer is an ordinary one.
bool IsOrdinaryLayers(std::string_view key, const Json& value) {
  if (!value.IsArray()) return false;
  const Json::Array& items = value.AsArray();
  if (key == "layer_types") {
    return std::all_of(items.begin(), items.end(), [](const Json& item) {
      return item.IsString() && item.AsString() == "full_attention";
    });
  }
  if (key == "no_rope_layers") {
    return std::all_of(items.begin(), items.end(),
                       [](const Json& item) { return item.IsInt() && item.AsInt() == 1; });
  }
  return false;
}

bool IsHarmless(std::string_view key) {
  return std::find(std::begin(kHarmless), std::end(kHarmless), key) != std::end(kHarmless) ||
         std::any_of(std::begin(kHarmlessPrefixes), std::end(kHarmlessPrefixes),
                     [&](std::string_view prefix) { return key.starts_with(prefix); });
}

// The text of a value for a message, clipped.
std::string Show(const Json& value) {
  std::string text = value.Dump();
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

}  // namespace

void ConfigReader::Fail(Code code, std::string message) {
  if (error_.ok()) error_ = Status(code, "config.json: " + std::move(message));
}

const Json* ConfigReader::Find(std::string_view key) {
  MarkRead(key);
  return config_.FindNonNull(key);
}

std::int64_t ConfigReader::Dimension(std::string_view key) {
  const Json* json = Find(key);
  if (json == nullptr) {
    Fail(Code::kNotFound, StrCat("key ", key, " is missing; add it, Hone does not guess it"));
    return 1;
  }
  if (!json->IsInt() || json->AsInt() < 1 || json->AsInt() > kMaxDimension) {
    Fail(Code::kDataLoss, StrCat("key ", key, " is ", Show(*json),
                                 ", expected an integer from 1 to ", kMaxDimension));
    return 1;
  }
  return json->AsInt();
}

void ConfigReader::Heads(DecoderSpec* spec) {
  spec->num_heads = Dimension("num_attention_heads");
  spec->num_kv_heads =
      Find("num_key_value_heads") == nullptr ? spec->num_heads : Dimension("num_key_value_heads");
  if (spec->num_heads % spec->num_kv_heads != 0) {
    Fail(Code::kDataLoss,
         StrCat("num_attention_heads (", spec->num_heads,
                ") is not a multiple of num_key_value_heads (", spec->num_kv_heads, ")"));
  }
  if (Find("head_dim") != nullptr) {
    spec->head_dim = Dimension("head_dim");
  } else {
    spec->head_dim = spec->hidden / spec->num_heads;
    if (spec->hidden % spec->num_heads != 0) {
      Fail(Code::kDataLoss,
           StrCat("hidden_size (", spec->hidden, ") is not a multiple of num_attention_heads (",
                  spec->num_heads, ") and there is no head_dim"));
    }
  }
  if (error_.ok() && (spec->head_dim < 2 || spec->head_dim % 2 != 0)) {
    Fail(Code::kUnsupported,
         StrCat("head_dim is ", spec->head_dim, ", but rotary positions need an even number"));
  }
  // The right rounding of a Python float: head_dim ** -0.5 in double, then float32.
  spec->attention_scale = static_cast<float>(std::pow(static_cast<double>(spec->head_dim), -0.5));
}

float ConfigReader::Epsilon(std::string_view key) {
  const Json* json = Find(key);
  if (json == nullptr) {
    Fail(Code::kNotFound, StrCat("key ", key, " is missing; add it, Hone does not guess it"));
    return 1;
  }
  if (!json->IsNumber() || !(json->AsDouble() >= 0) || !(json->AsDouble() < 1)) {
    Fail(Code::kDataLoss,
         StrCat("key ", key, " is ", Show(*json), ", expected a number from 0 to 1"));
    return 1;
  }
  return static_cast<float>(json->AsDouble());
}

Activation ConfigReader::HiddenActivation(std::string_view key) {
  const Json* json = Find(key);
  if (json == nullptr) {
    Fail(Code::kNotFound, StrCat("key ", key, " is missing; add it, Hone does not guess it"));
  } else if (!json->IsString() || (json->AsString() != "silu" && json->AsString() != "swish")) {
    Fail(Code::kUnsupported,
         StrCat("key ", key, " is ", Show(*json), ", but only \"silu\" is supported"));
  }
  return Activation::kSilu;
}

bool ConfigReader::Flag(std::string_view key) { return OptionalFlag(key).value_or(false); }

std::optional<bool> ConfigReader::OptionalFlag(std::string_view key) {
  const Json* json = Find(key);
  if (json == nullptr) return std::nullopt;
  if (!json->IsBool()) {
    Fail(Code::kDataLoss, StrCat("key ", key, " is ", Show(*json), ", expected true or false"));
    return std::nullopt;
  }
  return json->AsBool();
}

void ConfigReader::Rope(DecoderSpec* spec) {
  for (const char* key : {"rope_theta", "rope_scaling", "rope_parameters"}) MarkRead(key);
  if (!error_.ok()) return;
  auto facts = ReadRopeFacts(config_, spec->max_positions, &warnings_);
  if (!facts.ok()) {
    error_ = std::move(facts).status();
    return;
  }
  auto table = MakeRopeTable(*facts, spec->head_dim);
  if (!table.ok()) {
    error_ = std::move(table).status().Context("config.json");
    return;
  }
  spec->rope = *std::move(table);
}

void ConfigReader::RefuseOtherKeys() {
  if (const Json* json = Find("quantization_config"); json != nullptr && !IsOff(*json)) {
    const Json* method = json->FindNonNull("quant_method");
    Fail(Code::kUnsupported,
         StrCat("key quantization_config: the checkpoint is already quantized (",
                method != nullptr && method->IsString() ? method->AsString() : "unknown method",
                "); take the original float checkpoint"));
  }
  const Json* old_dtype = config_.FindNonNull("torch_dtype");
  const Json* new_dtype = config_.FindNonNull("dtype");
  if (old_dtype != nullptr && new_dtype != nullptr && old_dtype->Dump() != new_dtype->Dump()) {
    Fail(Code::kDataLoss, StrCat("torch_dtype is ", Show(*old_dtype), " but dtype is ",
                                 Show(*new_dtype), "; keep the right one"));
  }
  for (const auto& [key, value] : config_.AsObject()) {
    if (read_.contains(key) || IsHarmless(key) || value.IsNull()) continue;
    const auto* neutral = std::find_if(std::begin(kNeutral), std::end(kNeutral),
                                       [&](const NeutralKey& k) { return k.key == key; });
    if (neutral != std::end(kNeutral)) {
      if (value.IsNumber() && value.AsDouble() == neutral->neutral) continue;
    } else if (IsOff(value) || IsOrdinaryLayers(key, value)) {
      continue;
    } else if (key == "sliding_window" && !Flag("use_sliding_window") &&
               config_.FindNonNull("use_sliding_window") != nullptr) {
      continue;  // switched off by its own flag
    }
    Fail(Code::kUnsupported,
         StrCat("key ", key, " = ", Show(value),
                " is not known for this architecture and may change the numbers; remove it only if "
                "the model does not use it"));
  }
}

Status ConfigReader::Finish(std::vector<std::string>* warnings) {
  warnings->insert(warnings->end(), warnings_.begin(), warnings_.end());
  return std::move(error_);
}

}  // namespace hone::model
