// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What the checks look at: a bundle, read as far as it can be read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "bridge/chat_template.h"
#include "bridge/stop_tokens.h"
#include "bridge/tokenizer.h"
#include "bundle/check.h"
#include "formats/hf_config/text_facts.h"
#include "formats/litertlm/litertlm.h"
#include "formats/litertlm/llm_metadata.h"
#include "formats/tflite/tflite.h"
#include "model/decoder_spec.h"

namespace hone::bundle {

struct ModelSection {
  std::size_t index = 0;   // of the section
  std::string model_type;  // "tf_lite_embedder", lower case
  ByteSpan bytes;
  std::optional<formats::tflite::Model> model;
  Code code = Code::kOk;  // why there is no model
  std::string error;
};

// An input or output of a signature.
struct Port {
  std::string name;
  const formats::tflite::Tensor* tensor = nullptr;
  std::uint32_t index = 0;
};

struct SignatureFacts {
  const formats::tflite::SignatureDef* signature = nullptr;
  const formats::tflite::Subgraph* graph = nullptr;
  std::int64_t length = 0;  // tokens
  std::vector<Port> inputs, outputs;
  const Port* Input(std::string_view name) const;
};

// What the signatures of the decoder say.
struct DecoderFacts {
  std::vector<SignatureFacts> prefill;  // longest first
  std::optional<SignatureFacts> decode;
  std::int64_t context = 0;  // positions, as LiteRT-LM finds them: the mask's, else the cache's
  std::int64_t vocab = 0, hidden = 0;
  bool takes_embeddings = false;
  std::uint64_t cache_bytes = 0;  // of all caches of the decode signature
};

// A token of the metadata, resolved as LiteRT-LM does.
struct ResolvedToken {
  std::vector<std::int32_t> ids;
  std::string text;
};

struct Subject {
  const CheckOptions* options = nullptr;
  std::string path;
  ByteSpan bytes;
  std::optional<formats::litertlm::Header> header;  // sections may lie anywhere
  std::uint64_t header_end = 0;
  std::string header_error;
  std::shared_ptr<const formats::litertlm::Bundle> bundle;  // null while the container is damaged

  std::optional<formats::litertlm::LlmMetadata> llm;
  std::optional<formats::litertlm::ExecutorMetadata> executor;
  std::string llm_error, executor_error;
  std::optional<Json> hone;  // hone.json
  std::string hone_error;

  std::string tokenizer_error;  // of the section or the tokenizer in it
  Code tokenizer_code = Code::kOk;
  bool tokenizer_size_lies = false;
  std::optional<bridge::Tokenizer> tokenizer;
  std::optional<bridge::ChatTemplate> chat_template;
  std::string template_error;
  formats::TextFacts text;  // the special tokens, as far as the bundle tells them
  std::string end_of_turn;  // the special token that the template writes after an answer

  std::vector<ModelSection> models;
  const ModelSection* decoder = nullptr;
  const ModelSection* embedder = nullptr;
  DecoderFacts facts;

  // The decoder's weights by role; nothing with the reason where the lifter does not know the
  // graph.
  std::optional<model::DecoderModel> lifted;
  std::string lift_error;

  std::string_view Item(std::string_view key) const;  // of the decoder's section
  bool AllowsBackend(std::string_view name) const;    // by backend_constraint; none allows all
  ResolvedToken Resolve(const formats::litertlm::TokenUnion& token) const;
};

// Reads the file in one pass; damage is recorded, not an error.
Result<std::unique_ptr<Subject>> ReadSubject(const std::string& path, const CheckOptions& options,
                                             std::unique_ptr<MappedFile>* map);

// Runs the table of checks.
Result<CheckReport> CheckSubject(const Subject& subject);

// "17 (.<|im_end|>\n)" as JSON text.
std::string TokenText(const Subject& subject, std::int32_t id);

// Where the checks put what they find.
class Findings {
 public:
  // id must be in the table. The table's "what to do" counts if todo is empty.
  void Add(std::string_view id, std::string what, std::string todo = "");
  std::vector<Finding> list;
  std::uint64_t scales_read = 0;
};

}  // namespace hone::bundle
