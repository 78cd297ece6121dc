// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "model/arch/config_reader.h"

#include <algorithm>
#include <cmath>

#include "model/rope.h"

namespace hone::model {
namespace {

constexpr std::int64_t kMaxLayers = 4096;
constexpr const char* kFull = "full_attention";

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
    "base_model_pp_plan",
    "cache_implementation",
    "mup_denominator",
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
    {"full_attn_mod", 1},
    {"interpolate_factor", 1},
    {"mlp_multiplier", 1},
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
      return item.IsString() && item.AsString() == kFull;
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

void ConfigReader::Default(std::string_view key, Json value) {
  if (config_.FindNonNull(key) != nullptr) return;
  defaults_.push_back(StrCat(key, " = ", value.Dump()));
  config_.Set(key, std::move(value));
}

void ConfigReader::Common(DecoderSpec* spec) {
  spec->num_layers = Dimension("num_hidden_layers", kMaxLayers);
  spec->hidden = Dimension("hidden_size");
  spec->ffn = Dimension("intermediate_size");
  spec->vocab = Dimension("vocab_size");
  spec->max_positions = Dimension("max_position_embeddings");
  Heads(spec);
  spec->norm_epsilon = Epsilon("rms_norm_eps");
}

std::int64_t ConfigReader::Dimension(std::string_view key, std::int64_t max) {
  const Json* json = Find(key);
  if (json == nullptr) {
    Fail(Code::kNotFound, StrCat("key ", key, " is missing; add it, Hone does not guess it"));
    return 1;
  }
  if (!json->IsInt() || json->AsInt() < 1 || json->AsInt() > max) {
    Fail(Code::kDataLoss,
         StrCat("key ", key, " is ", Show(*json), ", expected an integer from 1 to ", max));
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
  struct Name {
    std::string_view name;
    Activation activation;
  };
  constexpr Name kNames[] = {{"silu", Activation::kSilu},
                             {"swish", Activation::kSilu},
                             {"gelu_pytorch_tanh", Activation::kGeluTanh},
                             {"gelu_new", Activation::kGeluTanh},
                             {"gelu", Activation::kGelu}};
  const Json* json = Find(key);
  if (json == nullptr) {
    Fail(Code::kNotFound, StrCat("key ", key, " is missing; add it, Hone does not guess it"));
    return Activation::kSilu;
  }
  if (json->IsString()) {
    for (const Name& entry : kNames) {
      if (json->AsString() == entry.name) return entry.activation;
    }
  }
  Fail(Code::kUnsupported,
       StrCat(
           "key ", key, " is ", Show(*json),
           ", but only \"silu\", \"gelu\", \"gelu_new\" and \"gelu_pytorch_tanh\" are supported"));
  return Activation::kSilu;
}

double ConfigReader::Positive(std::string_view key) {
  if (Find(key) == nullptr) {
    Fail(Code::kNotFound, StrCat("key ", key, " is missing; add it, Hone does not guess it"));
    return 1;
  }
  return PositiveOrOff(key);
}

double ConfigReader::PositiveOrOff(std::string_view key) {
  const Json* json = Find(key);
  if (json == nullptr) return 0;
  if (!json->IsNumber() || !(json->AsDouble() > 0) || !(json->AsDouble() < 1e30)) {
    Fail(Code::kDataLoss, StrCat("key ", key, " is ", Show(*json), ", expected a number over 0"));
    return 1;
  }
  return json->AsDouble();
}

std::vector<Role> ConfigReader::Biases() {
  std::vector<Role> out;
  if (Flag("attention_bias")) out = {Role::kQBias, Role::kKBias, Role::kVBias, Role::kOBias};
  if (Flag("mlp_bias")) {
    out.insert(out.end(), {Role::kGateBias, Role::kUpBias, Role::kDownBias});
  }
  return out;
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

void ConfigReader::RefuseOtherKeys() {
  if (const Json* json = Find("quantization_config"); json != nullptr && !IsOff(*json)) {
    Fail(Code::kUnsupported,
         StrCat("key quantization_config: the checkpoint is ", DescribeQuantization(*json)));
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
  if (!defaults_.empty() && error_.ok()) {
    std::string list;
    for (const std::string& entry : defaults_) list += StrCat(list.empty() ? "" : ", ", entry);
    warnings->push_back(
        StrCat("config.json leaves out keys; this architecture's own values are used: ", list));
  }
  warnings->insert(warnings->end(), warnings_.begin(), warnings_.end());
  return std::move(error_);
}

std::string DescribeQuantization(const Json& quantization_config) {
  struct Method {
    std::string_view key;
    const char* name;
  };
  constexpr Method kMethods[] = {{"gptq", "GPTQ"},
                                 {"awq", "AWQ"},
                                 {"bitsandbytes", "bitsandbytes"},
                                 {"mxfp4", "MXFP4"},
                                 {"compressed-tensors", "compressed-tensors (llm-compressor)"},
                                 {"fp8", "FP8 (blocks with weight_scale_inv)"},
                                 {"fbgemm_fp8", "FP8 (fbgemm)"},
                                 {"modelopt", "NVIDIA ModelOpt"},
                                 {"torchao", "torchao"},
                                 {"exl2", "EXL2"},
                                 {"exl3", "EXL3"}};
  const Json* method = quantization_config.FindNonNull("quant_method");
  std::string name = "an unknown method";
  if (method != nullptr && method->IsString()) {
    name = method->AsString();
    for (const Method& entry : kMethods) {
      if (entry.key == name) name = entry.name;
    }
  } else if (quantization_config.FindNonNull("load_in_4bit") != nullptr) {
    name = "bitsandbytes";
  }
  return StrCat("already quantized with ", name, "; take the original float checkpoint");
}

}  // namespace hone::model
