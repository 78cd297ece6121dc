// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/check_subject.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/thread_pool.h"
#include "formats/litertlm/read_header.h"
#include "model/lift.h"

namespace hone::bundle {
namespace {

namespace litertlm = formats::litertlm;
namespace tflite = formats::tflite;
using litertlm::Section;
using litertlm::SectionType;

void ReadMetadata(Subject& subject) {
  const litertlm::Bundle& bundle = *subject.bundle;
  if (const Section* section = bundle.Find(SectionType::kLlmMetadata)) {
    auto parsed = litertlm::ParseLlmMetadata(bundle.SectionBytes(*section));
    if (parsed.ok()) {
      subject.llm = *std::move(parsed);
    } else {
      subject.llm_error = parsed.message();
    }
  }
  if (const Section* section = bundle.Find(SectionType::kExecutorMetadata)) {
    auto parsed = litertlm::ParseExecutorMetadata(bundle.SectionBytes(*section));
    if (parsed.ok()) {
      subject.executor = *std::move(parsed);
    } else {
      subject.executor_error = parsed.message();
    }
  }
  for (const Section& section : bundle.header().sections) {
    if (section.type != SectionType::kGenericBinaryData || section.Item("name") != "hone.json") {
      continue;
    }
    auto parsed = ParseJson(AsText(bundle.SectionBytes(section)));
    if (parsed.ok() && parsed->IsObject()) {
      subject.hone = *std::move(parsed);
    } else {
      subject.hone_error = parsed.ok() ? "it is not a JSON object" : std::string(parsed.message());
    }
  }
}

void ReadTokenizer(Subject& subject) {
  const litertlm::Bundle& bundle = *subject.bundle;
  const Section* section = bundle.Find(SectionType::kHfTokenizerZlib);
  if (section == nullptr) return;
  auto inflated = litertlm::InflateTokenizer(bundle.SectionBytes(*section));
  if (!inflated.ok()) {
    subject.tokenizer_error = inflated.message();
    subject.tokenizer_code = inflated.code();
    subject.tokenizer_size_lies = true;
    return;
  }
  auto tokenizer = bridge::Tokenizer::FromJson(*inflated);
  if (tokenizer.ok()) {
    subject.tokenizer = *std::move(tokenizer);
  } else {
    subject.tokenizer_error = tokenizer.message();
    subject.tokenizer_code = tokenizer.code();
  }
}

std::string HoneToken(const Subject& subject, std::string_view key) {
  const Json* tokens = subject.hone ? subject.hone->Find("tokens") : nullptr;
  const Json* token = tokens ? tokens->Find(key) : nullptr;
  return token && token->IsString() ? token->AsString() : "";
}

// The special tokens: hone.json says them; else start and stop tokens and the tokenizer's own BOS.
void FindSpecialTokens(Subject& subject) {
  formats::TextFacts& text = subject.text;
  text.bos_token = HoneToken(subject, "bos");
  text.eos_token = HoneToken(subject, "eos");
  text.pad_token = HoneToken(subject, "pad");
  text.unk_token = HoneToken(subject, "unk");
  if (!subject.llm) return;
  if (text.bos_token.empty() && subject.llm->start_token) {
    text.bos_token = subject.Resolve(*subject.llm->start_token).text;
  }
  if (text.bos_token.empty() && subject.tokenizer) {
    const auto plain = subject.tokenizer->Encode("a");
    const auto ids = subject.tokenizer->Encode("a", {.add_special_tokens = true});
    if (plain.ok() && ids.ok() && ids->size() > plain->size()) {
      auto piece = subject.tokenizer->Piece(ids->front());
      if (piece.ok()) text.bos_token = *std::move(piece);
    }
  }
  if (text.eos_token.empty() && !subject.llm->stop_tokens.empty()) {
    for (const litertlm::TokenUnion& stop : subject.llm->stop_tokens) {
      const ResolvedToken token = subject.Resolve(stop);
      if (token.ids.size() != 1) continue;
      text.eos_token = token.text;
      break;
    }
  }
}

void ReadText(Subject& subject) {
  ReadMetadata(subject);
  ReadTokenizer(subject);
  if (subject.llm && subject.llm->jinja_prompt_template) {
    subject.text.chat_template = *subject.llm->jinja_prompt_template;
    auto compiled = bridge::ChatTemplate::Compile(subject.text.chat_template);
    if (compiled.ok()) {
      subject.chat_template = *std::move(compiled);
    } else {
      subject.template_error = compiled.message();
    }
  }
  FindSpecialTokens(subject);
  if (!subject.tokenizer || !subject.chat_template) return;
  const bridge::StopTokens stops =
      bridge::FindStopTokens(*subject.tokenizer, &*subject.chat_template, {});
  if (!stops.tokens.empty()) subject.end_of_turn = stops.tokens.front().text;
}

std::vector<Port> Ports(const tflite::Subgraph& graph,
                        const std::vector<std::pair<std::string, std::uint32_t>>& list) {
  std::vector<Port> out;
  for (const auto& [name, index] : list) out.push_back({name, &graph.tensors[index], index});
  return out;
}

std::int64_t LastDim(const tflite::Tensor& tensor) {
  return tensor.shape.empty() ? 0 : tensor.shape.back();
}

// Tokens of a signature: from the positions, else the embeddings or ids.
std::int64_t Length(const SignatureFacts& facts) {
  for (const char* name : {"input_pos", "positions", "tokens", "token_ids"}) {
    if (const Port* port = facts.Input(name)) return LastDim(*port->tensor);
  }
  const Port* port = facts.Input("embeddings");
  return port && port->tensor->shape.size() >= 2 ? port->tensor->shape[1] : 0;
}

bool IsCache(std::string_view name) {
  return name.starts_with("kv_cache_") || name.starts_with("k_cache_") ||
         name.starts_with("v_cache_");
}

std::uint64_t TensorBytes(const tflite::Tensor& tensor) {
  std::uint64_t elements = 1;
  for (const std::int32_t dim : tensor.shape) {
    const auto product = MulChecked(elements, dim < 0 ? 1U : static_cast<std::uint64_t>(dim));
    if (!product) return 0;
    elements = *product;
  }
  return tflite::DataBytes(tensor.type, elements).value_or(0);
}

DecoderFacts ReadDecoderFacts(const tflite::Model& model) {
  DecoderFacts out;
  for (const tflite::SignatureDef& signature : model.signatures) {
    SignatureFacts facts;
    facts.signature = &signature;
    facts.graph = &model.subgraphs[signature.subgraph];
    facts.inputs = Ports(*facts.graph, signature.inputs);
    facts.outputs = Ports(*facts.graph, signature.outputs);
    facts.length = Length(facts);
    if (signature.key == "decode") {
      out.decode = std::move(facts);
    } else if (signature.key.starts_with("prefill")) {
      out.prefill.push_back(std::move(facts));
    }
  }
  std::stable_sort(out.prefill.begin(), out.prefill.end(),
                   [](const auto& a, const auto& b) { return a.length > b.length; });
  if (!out.decode) return out;
  for (const Port& port : out.decode->inputs) {
    if (port.name.find("mask") != std::string::npos && out.context == 0) {
      out.context = LastDim(*port.tensor);
    }
    if (port.name == "embeddings") {
      out.takes_embeddings = true;
      out.hidden = LastDim(*port.tensor);
    }
    if (IsCache(port.name)) out.cache_bytes += TensorBytes(*port.tensor);
  }
  for (const Port& port : out.decode->inputs) {
    const bool key = port.name.find("k_") != std::string::npos && IsCache(port.name);
    if (out.context == 0 && key && port.tensor->shape.size() >= 3) {
      out.context = port.tensor->shape[2];
    }
  }
  for (const Port& port : out.decode->outputs) {
    if (port.name == "logits") out.vocab = LastDim(*port.tensor);
  }
  return out;
}

void Lift(Subject& subject) {
  const ModelSection* decoder = subject.decoder;
  if (decoder == nullptr || !decoder->model) return;
  const ModelSection* embedder = subject.embedder;
  model::LiftSource second;
  if (embedder != nullptr && embedder->model) {
    second = {&*embedder->model, StrCat("section ", embedder->index)};
  }
  auto lifted = model::LiftModels({&*decoder->model, StrCat("section ", decoder->index)}, second);
  if (lifted.ok()) {
    subject.lifted = *std::move(lifted);
  } else {
    subject.lift_error = lifted.message();
  }
}

void ReadModels(Subject& subject) {
  const litertlm::Bundle& bundle = *subject.bundle;
  const auto& sections = bundle.header().sections;
  for (std::size_t i = 0; i < sections.size(); ++i) {
    if (sections[i].type != SectionType::kTfliteModel) continue;
    ModelSection entry;
    entry.index = i;
    entry.model_type = LowerCase(sections[i].Item("model_type"));
    if (entry.model_type.empty()) entry.model_type = "tf_lite_prefill_decode";
    entry.bytes = bundle.SectionBytes(sections[i]);
    auto model = tflite::ReadModel(entry.bytes);
    if (model.ok()) {
      entry.model = *std::move(model);
    } else {
      entry.code = model.code();
      entry.error = model.message();
    }
    subject.models.push_back(std::move(entry));
  }
  for (const ModelSection& entry : subject.models) {
    if (entry.model_type == "tf_lite_prefill_decode" && !subject.decoder) subject.decoder = &entry;
    if (entry.model_type == "tf_lite_embedder" && !subject.embedder) subject.embedder = &entry;
  }
  if (subject.decoder && subject.decoder->model) {
    subject.facts = ReadDecoderFacts(*subject.decoder->model);
  }
  Lift(subject);
}

}  // namespace

const Port* SignatureFacts::Input(std::string_view name) const {
  for (const Port& port : inputs) {
    if (port.name == name) return &port;
  }
  return nullptr;
}

std::string_view Subject::Item(std::string_view key) const {
  if (decoder == nullptr || !bundle) return "";
  return bundle->header().sections[decoder->index].Item(key);
}

bool Subject::AllowsBackend(std::string_view name) const {
  const std::string list = LowerCase(Item("backend_constraint"));
  if (list.empty()) return true;
  std::size_t begin = 0;
  while (begin <= list.size()) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    std::string_view word = std::string_view(list).substr(begin, end - begin);
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    if (word == name) return true;
    begin = end + 1;
  }
  return false;
}

ResolvedToken Subject::Resolve(const litertlm::TokenUnion& token) const {
  ResolvedToken out;
  if (token.is_text) {
    out.text = token.text;
    if (!tokenizer) return out;
    if (const auto id = tokenizer->TokenId(token.text)) {
      out.ids = {*id};
    } else if (auto ids = tokenizer->Encode(token.text); ids.ok()) {
      out.ids = *std::move(ids);
    }
    return out;
  }
  out.ids = token.ids;
  if (!tokenizer) return out;
  auto decoded = tokenizer->Decode(token.ids, /*skip_special=*/false);
  if (decoded.ok()) out.text = *std::move(decoded);
  return out;
}

std::string TokenText(const Subject& subject, std::int32_t id) {
  std::string text;
  if (subject.tokenizer) {
    auto decoded = subject.tokenizer->Decode(std::span(&id, 1), /*skip_special=*/false);
    if (decoded.ok()) text = *std::move(decoded);
  }
  return StrCat(id, " (", Json(text).Dump(), ")");
}

Result<std::unique_ptr<Subject>> ReadSubject(const std::string& path, const CheckOptions& options,
                                             std::unique_ptr<MappedFile>* map) {
  HONE_ASSIGN(MappedFile opened, MappedFile::Open(path));
  *map = std::make_unique<MappedFile>(std::move(opened));
  auto subject = std::make_unique<Subject>();
  subject->options = &options;
  subject->path = path;
  subject->bytes = (*map)->bytes();
  auto header = litertlm::ReadHeader(subject->bytes, &subject->header_end);
  if (header.ok()) {
    subject->header = *std::move(header);
  } else {
    subject->header_error = header.message();
  }
  auto bundle = litertlm::Bundle::Open(path);
  if (!bundle.ok()) {
    if (bundle.code() != Code::kDataLoss && bundle.code() != Code::kUnsupported) {
      return std::move(bundle).status();
    }
    return subject;
  }
  subject->bundle = *std::move(bundle);
  // The tokenizer is the slow half of the text and has nothing to do with the graphs.
  ThreadPool pool(std::clamp(options.num_threads, 1, 2));
  pool.Run(2, [&](int part) {
    if (part == 0) {
      ReadText(*subject);
    } else {
      ReadModels(*subject);
    }
  });
  return subject;
}

}  // namespace hone::bundle
