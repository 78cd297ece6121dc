// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "formats/foreign_file.h"
#include "formats/hf_config/hf_config.h"

namespace hone::formats {
namespace {

using Vocab = std::unordered_map<std::string_view, std::int64_t>;
using Pieces = std::unordered_map<std::int64_t, std::string_view>;

constexpr std::int64_t kMaxId = std::numeric_limits<std::int32_t>::max();

Status Damaged(std::string message) { return Status(Code::kDataLoss, std::move(message)); }

Result<std::int64_t> CheckId(const Json* id, std::string_view piece) {
  if (id == nullptr || !id->IsInt() || id->AsInt() < 0 || id->AsInt() > kMaxId) {
    return Damaged(StrCat("the id of ", Quote(piece), " is ",
                          id == nullptr ? std::string("missing") : Quote(id->Dump()),
                          ", expected an integer from 0 to 2147483647"));
  }
  return id->AsInt();
}

// The model's type; old files have none and are known by their fields.
Result<std::string> ModelType(const Json& model) {
  const Json* type = model.FindNonNull("type");
  const Json* vocab = model.Find("vocab");
  std::string name;
  if (type != nullptr) {
    if (!type->IsString()) {
      return Damaged(StrCat("model: \"type\" is ", type->TypeName(), ", expected a string"));
    }
    name = type->AsString();
  } else if (model.Find("merges") != nullptr) {
    name = "BPE";
  } else if (vocab != nullptr && vocab->IsArray()) {
    name = "Unigram";
  } else {
    return Damaged("model: \"type\" is missing, expected \"BPE\" or \"Unigram\"");
  }
  if (name != "BPE" && name != "Unigram") {
    return Status(Code::kUnsupported, StrCat("the tokenizer model type ", Quote(name),
                                             " is not supported, expected \"BPE\" or \"Unigram\""));
  }
  return name;
}

Status ReadBpeVocab(const Json& model, Vocab& vocab, Pieces& pieces) {
  const Json* json = model.Find("vocab");
  if (json == nullptr || !json->IsObject()) {
    return Damaged(StrCat("model: \"vocab\" is ", json == nullptr ? "missing" : json->TypeName(),
                          ", expected an object of pieces to ids"));
  }
  vocab.reserve(json->AsObject().size());
  pieces.reserve(json->AsObject().size());
  for (const auto& [piece, id_json] : json->AsObject()) {
    auto id = CheckId(&id_json, piece);
    if (!id.ok()) return std::move(id).status().Context("model: vocab");
    const auto [other, is_new] = pieces.emplace(*id, piece);
    if (!is_new) {
      return Damaged(StrCat("model: vocab: ", Quote(other->second), " and ", Quote(piece),
                            " have the same id ", *id));
    }
    vocab.emplace(piece, *id);
  }
  return Status();
}

// Both forms: "left right" and ["left", "right"].
std::optional<std::pair<std::string_view, std::string_view>> SplitMerge(const Json& merge) {
  if (merge.IsArray()) {
    const auto& pair = merge.AsArray();
    if (pair.size() != 2 || !pair[0].IsString() || !pair[1].IsString()) return std::nullopt;
    return std::pair<std::string_view, std::string_view>(pair[0].AsString(), pair[1].AsString());
  }
  if (!merge.IsString()) return std::nullopt;
  const std::string_view text = merge.AsString();
  const auto space = text.find(' ');
  if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
    return std::nullopt;
  }
  return std::pair(text.substr(0, space), text.substr(space + 1));
}

Status CheckMerges(const Json& model, const Vocab& vocab) {
  const Json* merges = model.Find("merges");
  if (merges == nullptr || !merges->IsArray()) {
    return Damaged(StrCat("model: \"merges\" is ",
                          merges == nullptr ? "missing" : merges->TypeName(),
                          ", expected an array"));
  }
  const Json* prefix_json = model.FindNonNull("continuing_subword_prefix");
  std::string_view prefix;
  if (prefix_json != nullptr && prefix_json->IsString()) prefix = prefix_json->AsString();
  std::string joined;
  for (std::size_t rank = 0; rank < merges->AsArray().size(); ++rank) {
    const Json& merge = merges->AsArray()[rank];
    const auto pair = SplitMerge(merge);
    const std::string what = "model: the merge of rank ";
    if (!pair) {
      return Damaged(StrCat(what, rank, " is ", Quote(merge.Dump()), ", expected two pieces"));
    }
    joined.assign(pair->first);
    // The result drops the prefix that marks the right piece as a continuation.
    joined += pair->second.substr(std::min(prefix.size(), pair->second.size()));
    for (const std::string_view piece : {pair->first, pair->second, std::string_view(joined)}) {
      if (vocab.find(piece) == vocab.end()) {
        return Damaged(StrCat(what, rank, ", ", Quote(pair->first), " + ", Quote(pair->second),
                              ", names the piece ", Quote(piece),
                              ", which is not in the vocabulary"));
      }
    }
  }
  return Status();
}

Status ReadUnigramVocab(const Json& model, Vocab& vocab, Pieces& pieces) {
  const Json* json = model.Find("vocab");
  if (json == nullptr || !json->IsArray()) {
    return Damaged(StrCat("model: \"vocab\" is ", json == nullptr ? "missing" : json->TypeName(),
                          ", expected an array of pieces and scores"));
  }
  for (const Json& entry : json->AsArray()) {
    const auto id = static_cast<std::int64_t>(pieces.size());
    if (!entry.IsArray() || entry.AsArray().size() != 2 || !entry.AsArray()[0].IsString() ||
        !entry.AsArray()[1].IsNumber() || id > kMaxId) {
      return Damaged(StrCat("model: vocab: entry ", id, " is ", Quote(entry.Dump()),
                            ", expected a piece and its score"));
    }
    const std::string_view piece = entry.AsArray()[0].AsString();
    pieces.emplace(id, piece);
    vocab.emplace(piece, id);
  }
  const Json* unk = model.FindNonNull("unk_id");
  if (unk != nullptr && (!unk->IsInt() || unk->AsInt() < 0 ||
                         unk->AsInt() >= static_cast<std::int64_t>(pieces.size()))) {
    return Damaged(
        StrCat("model: unk_id is ", Quote(unk->Dump()), ", expected an id below ", pieces.size()));
  }
  return Status();
}

Status ReadAddedTokens(const Json& tokenizer, const Vocab& vocab, Pieces& pieces) {
  const Json* added = tokenizer.FindNonNull("added_tokens");
  if (added == nullptr) return Status();
  if (!added->IsArray()) {
    return Damaged(StrCat("\"added_tokens\" is ", added->TypeName(), ", expected an array"));
  }
  for (const Json& token : added->AsArray()) {
    const Json* content = token.Find("content");
    if (content == nullptr || !content->IsString()) {
      return Damaged(
          StrCat("added_tokens: ", Quote(token.Dump()), " has no \"content\" that is a string"));
    }
    const std::string_view text = content->AsString();
    auto id = CheckId(token.Find("id"), text);
    if (!id.ok()) return std::move(id).status().Context("added_tokens");
    if (const auto in_vocab = vocab.find(text);
        in_vocab != vocab.end() && in_vocab->second != *id) {
      return Damaged(StrCat("added_tokens: ", Quote(text), " has the id ", *id,
                            ", but the vocabulary says ", in_vocab->second));
    }
    const auto [other, is_new] = pieces.emplace(*id, text);
    if (!is_new && other->second != text) {
      return Damaged(StrCat("added_tokens: ", Quote(text), " has the id ", *id,
                            ", which belongs to ", Quote(other->second)));
    }
  }
  return Status();
}

// The parts around the model, with the types that the tokenizer library reads. "Delimiter" and
// "Bert" are other names of CharDelimiterSplit and BertNormalizer.
struct Part {
  const char* key;
  const char* children;  // of the type "Sequence"
  std::initializer_list<std::string_view> types;
};

Status CheckPart(const Part& part, const Json& json, int depth) {
  constexpr int kMaxDepth = 16;
  const Json* type = json.FindNonNull("type");
  if (type == nullptr || !type->IsString()) return Status();  // old files; the library knows them
  const std::string& name = type->AsString();
  if (std::find(part.types.begin(), part.types.end(), name) == part.types.end()) {
    return Status(Code::kUnsupported, StrCat("the ", part.key, " type ", Quote(name),
                                             " is not supported; leaving it out would change ids"));
  }
  const Json* children = json.FindNonNull(part.children);
  if (name != "Sequence" || children == nullptr || !children->IsArray()) return Status();
  if (depth >= kMaxDepth) {
    return Damaged(StrCat(part.key, ": nested more than ", kMaxDepth, " times"));
  }
  for (const Json& child : children->AsArray()) HONE_TRY(CheckPart(part, child, depth + 1));
  return Status();
}

Status CheckParts(const Json& tokenizer) {
  const Part parts[] = {
      {"normalizer",
       "normalizers",
       {"Bert", "BertNormalizer", "Strip", "StripAccents", "NFC", "NFD", "NFKC", "NFKD", "Sequence",
        "Lowercase", "Nmt", "Precompiled", "Replace", "Prepend", "ByteLevel"}},
      {"pre_tokenizer",
       "pretokenizers",
       {"BertPreTokenizer", "ByteLevel", "Delimiter", "CharDelimiterSplit", "Metaspace",
        "Whitespace", "Sequence", "Split", "Punctuation", "WhitespaceSplit", "Digits",
        "UnicodeScripts", "FixedLength"}},
      {"post_processor",
       "processors",
       {"RobertaProcessing", "BertProcessing", "ByteLevel", "TemplateProcessing", "Sequence"}},
      {"decoder",
       "decoders",
       {"BPEDecoder", "ByteLevel", "WordPiece", "Metaspace", "CTC", "Sequence", "Replace", "Fuse",
        "Strip", "ByteFallback"}},
  };
  // The tokenizer library reads no other key and then fails without naming it.
  for (const auto& [key, value] : tokenizer.AsObject()) {
    constexpr std::string_view kOthers[] = {"version", "truncation", "padding", "added_tokens",
                                            "model"};
    const auto is_key = [name = std::string_view(key)](const Part& part) {
      return part.key == name;
    };
    if (std::find(std::begin(kOthers), std::end(kOthers), key) == std::end(kOthers) &&
        std::none_of(std::begin(parts), std::end(parts), is_key)) {
      return Status(Code::kUnsupported, StrCat("unknown key ", Quote(key), "; remove it"));
    }
  }
  for (const Part& part : parts) {
    const Json* json = tokenizer.FindNonNull(part.key);
    if (json != nullptr) HONE_TRY(CheckPart(part, *json, 0));
  }
  return Status();
}

}  // namespace

Result<std::int64_t> CheckTokenizerJson(const Json& tokenizer) {
  if (!tokenizer.IsObject()) {
    return Damaged(StrCat("the tokenizer is ", tokenizer.TypeName(), ", expected an object"));
  }
  const Json* model = tokenizer.Find("model");
  if (model == nullptr || !model->IsObject()) {
    return Damaged(StrCat("\"model\" is ", model == nullptr ? "missing" : model->TypeName(),
                          ", expected an object"));
  }
  HONE_ASSIGN(const std::string type, ModelType(*model));
  Vocab vocab;
  Pieces pieces;
  if (type == "BPE") {
    HONE_TRY(ReadBpeVocab(*model, vocab, pieces));
    HONE_TRY(CheckMerges(*model, vocab));
  } else {
    HONE_TRY(ReadUnigramVocab(*model, vocab, pieces));
  }
  HONE_TRY(ReadAddedTokens(tokenizer, vocab, pieces));
  HONE_TRY(CheckParts(tokenizer));
  if (pieces.empty()) return Damaged("the vocabulary is empty");
  std::int64_t end = 0;
  for (const auto& [id, piece] : pieces) end = std::max(end, id + 1);
  return end;
}

}  // namespace hone::formats
