// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A tokenizer.json, the chat template and the special tokens from GGUF metadata.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "formats/foreign_file.h"
#include "formats/gguf/gguf.h"
#include "formats/gguf/gguf_text_internal.h"
#include "formats/hf_config/hf_config.h"

namespace hone::formats {
namespace {

constexpr const char* kSpaceMark = "\u2581";
// Real pieces are far shorter; the splits of a piece are quadratic in its length.
constexpr std::size_t kMaxPieceBytes = 1024;

enum TokenType : std::int64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// The vocabulary as the file has it.
struct Vocab {
  std::vector<std::string_view> pieces;
  std::vector<std::int64_t> types;
  std::vector<double> scores;  // SentencePiece only
};

// The special tokens: ids, and whether text begins with the first of them.
struct Specials {
  std::optional<std::int64_t> bos, eos, pad, unk;
  bool add_bos = false;
};

Status Damaged(std::string message) { return Status(Code::kDataLoss, std::move(message)); }
Status Unsupported(std::string message) { return Status(Code::kUnsupported, std::move(message)); }

Result<bool> GetBoolOr(const GgufFile& file, std::string_view key, bool fallback) {
  const GgufValue* value = file.Find(key);
  if (value == nullptr) return fallback;
  if (const auto* found = std::get_if<bool>(value)) return *found;
  return Status(Code::kInvalidArgument,
                StrCat("metadata ", Quote(key), " is not a boolean, expected true or false"));
}

Result<Vocab> ReadVocab(const GgufFile& file, bool with_scores) {
  Vocab vocab;
  HONE_ASSIGN(const GgufArray* tokens, file.GetArray("tokenizer.ggml.tokens"));
  HONE_ASSIGN(const GgufArray* types, file.GetArray("tokenizer.ggml.token_type"));
  vocab.pieces = tokens->strings;
  vocab.types = types->ints;
  if (vocab.pieces.empty() || vocab.types.size() != vocab.pieces.size()) {
    return Damaged(StrCat("tokenizer.ggml.tokens has ", vocab.pieces.size(),
                          " texts and tokenizer.ggml.token_type ", vocab.types.size(),
                          " integers, expected the same number, at least one"));
  }
  for (std::size_t id = 0; id < vocab.pieces.size(); ++id) {
    if (!IsUtf8(vocab.pieces[id])) {
      return Damaged(StrCat("the token ", id, ", ", Quote(vocab.pieces[id]), ", is not UTF-8"));
    }
    if (vocab.types[id] < kNormal || vocab.types[id] > kByte) {
      return Damaged(StrCat("the token ", id, ", ", Quote(vocab.pieces[id]), ", has the type ",
                            vocab.types[id], ", expected 1 to 6"));
    }
  }
  if (!with_scores) return vocab;
  HONE_ASSIGN(const GgufArray* scores, file.GetArray("tokenizer.ggml.scores"));
  vocab.scores = scores->floats;
  if (vocab.scores.size() != vocab.pieces.size()) {
    return Damaged(StrCat("tokenizer.ggml.scores has ", vocab.scores.size(),
                          " numbers, expected one for each of the ", vocab.pieces.size(),
                          " tokens"));
  }
  if (!std::all_of(vocab.scores.begin(), vocab.scores.end(),
                   [](double score) { return std::isfinite(score); })) {
    return Damaged("tokenizer.ggml.scores holds a number that is not finite");
  }
  return vocab;
}

// The id of a special token; one outside the vocabulary is ignored and said (old converters wrote
// -1 for "none").
Result<std::optional<std::int64_t>> ReadSpecial(const GgufFile& file, std::string_view name,
                                                std::size_t num_tokens, TextFacts& text) {
  const std::string key = StrCat("tokenizer.ggml.", name, "_token_id");
  if (file.Find(key) == nullptr) return std::optional<std::int64_t>();
  HONE_ASSIGN(const std::int64_t id, file.GetInt(key));
  if (id < 0 || id >= static_cast<std::int64_t>(num_tokens)) {
    text.warnings.push_back(StrCat(file.path(), ": ", key, " is ", id, ", but the vocabulary has ",
                                   num_tokens, " tokens; it is ignored"));
    return std::optional<std::int64_t>();
  }
  return std::optional<std::int64_t>(id);
}

Result<Specials> ReadSpecials(const GgufFile& file, const Vocab& vocab, bool add_bos_default,
                              TextFacts& text) {
  Specials out;
  const std::size_t size = vocab.pieces.size();
  HONE_ASSIGN(out.bos, ReadSpecial(file, "bos", size, text));
  HONE_ASSIGN(out.eos, ReadSpecial(file, "eos", size, text));
  HONE_ASSIGN(out.pad, ReadSpecial(file, "padding", size, text));
  HONE_ASSIGN(out.unk, ReadSpecial(file, "unknown", size, text));
  HONE_ASSIGN(out.add_bos, GetBoolOr(file, "tokenizer.ggml.add_bos_token", add_bos_default));
  HONE_ASSIGN(const std::optional<std::int64_t> eot, ReadSpecial(file, "eot", size, text));
  HONE_ASSIGN(const std::optional<std::int64_t> eom, ReadSpecial(file, "eom", size, text));
  const auto piece = [&](const std::optional<std::int64_t>& id) {
    return id ? std::string(vocab.pieces[static_cast<std::size_t>(*id)]) : std::string();
  };
  text.bos_token = piece(out.bos);
  text.eos_token = piece(out.eos);
  text.pad_token = piece(out.pad);
  text.unk_token = piece(out.unk);
  text.add_bos_token = out.add_bos && out.bos.has_value();
  for (const auto& id : {out.eos, eot, eom}) {
    if (id && std::find(text.eos_ids.begin(), text.eos_ids.end(), *id) == text.eos_ids.end()) {
      text.eos_ids.push_back(*id);
    }
  }
  return out;
}

Json AddedTokens(const Vocab& vocab) {
  Json::Array out;
  for (std::size_t id = 0; id < vocab.pieces.size(); ++id) {
    const std::int64_t type = vocab.types[id];
    const bool special = type == kControl || type == kUnknown;
    if ((!special && type != kUserDefined) || vocab.pieces[id].empty()) continue;
    out.push_back(Json(Json::Object{{"id", Json(static_cast<std::int64_t>(id))},
                                    {"content", Json(vocab.pieces[id])},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false},
                                    {"special", special}}));
  }
  return Json(std::move(out));
}

Result<Json> VocabJson(const Vocab& vocab) {
  std::unordered_map<std::string_view, std::size_t> seen;
  seen.reserve(vocab.pieces.size());
  Json::Object out;
  out.reserve(vocab.pieces.size());
  for (std::size_t id = 0; id < vocab.pieces.size(); ++id) {
    const auto [other, is_new] = seen.emplace(vocab.pieces[id], id);
    if (!is_new) {
      return Damaged(StrCat("the tokens ", other->second, " and ", id, " have the same text ",
                            Quote(vocab.pieces[id])));
    }
    out.emplace_back(std::string(vocab.pieces[id]), Json(static_cast<std::int64_t>(id)));
  }
  return Json(std::move(out));
}

Json PostProcessor(const Vocab& vocab, const Specials& specials) {
  if (!specials.add_bos || !specials.bos) return Json();
  const Json bos(vocab.pieces[static_cast<std::size_t>(*specials.bos)]);
  const auto special = [&](int type_id) {
    return Json(
        Json::Object{{"SpecialToken", Json(Json::Object{{"id", bos}, {"type_id", type_id}})}});
  };
  const auto sequence = [](const char* id, int type_id) {
    return Json(Json::Object{{"Sequence", Json(Json::Object{{"id", id}, {"type_id", type_id}})}});
  };
  Json::Object tokens;
  tokens.emplace_back(bos.AsString(),
                      Json(Json::Object{{"id", bos},
                                        {"ids", Json(Json::Array{Json(*specials.bos)})},
                                        {"tokens", Json(Json::Array{bos})}}));
  return Json(Json::Object{
      {"type", "TemplateProcessing"},
      {"single", Json(Json::Array{special(0), sequence("A", 0)})},
      {"pair", Json(Json::Array{special(0), sequence("A", 0), special(1), sequence("B", 1)})},
      {"special_tokens", Json(std::move(tokens))}});
}

Json ReplaceSpaces(bool decode) {
  return Json(Json::Object{{"type", "Replace"},
                           {"pattern", Json(Json::Object{{"String", decode ? kSpaceMark : " "}})},
                           {"content", decode ? " " : kSpaceMark}});
}

Result<Json> CopyMerges(const GgufFile& file) {
  HONE_ASSIGN(const GgufArray* merges, file.GetArray("tokenizer.ggml.merges"));
  Json::Array out;
  out.reserve(merges->strings.size());
  for (const std::string_view merge : merges->strings) {
    if (!IsUtf8(merge)) {
      return Damaged(
          StrCat("the merge of rank ", out.size(), ", ", Quote(merge), ", is not UTF-8"));
    }
    out.push_back(Json(merge));
  }
  return Json(std::move(out));
}

// Every split of a piece into two pieces, best result first; as the converters of Hugging Face
// order them: by score of the result, then longer left part, then longer right part.
Result<Json> MergesFromScores(const Vocab& vocab) {
  std::unordered_map<std::string_view, std::size_t> ids;
  for (std::size_t id = 0; id < vocab.pieces.size(); ++id) {
    if (vocab.types[id] == kNormal) ids.emplace(vocab.pieces[id], id);
  }
  struct Merge {
    std::string_view left, right;
    double score;
    std::size_t left_chars, right_chars, left_id, right_id;
  };
  std::vector<Merge> merges;
  for (std::size_t id = 0; id < vocab.pieces.size(); ++id) {
    const std::string_view piece = vocab.pieces[id];
    if (vocab.types[id] != kNormal) continue;
    if (piece.size() > kMaxPieceBytes) {
      return Unsupported(StrCat("the token ", id, ", ", Quote(piece), ", has ", piece.size(),
                                " bytes, expected at most ", kMaxPieceBytes));
    }
    const auto is_start = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
    const auto chars =
        static_cast<std::size_t>(std::count_if(piece.begin(), piece.end(), is_start));
    std::size_t left_chars = 1;
    for (std::size_t i = 1; i < piece.size(); ++i) {
      if (!is_start(piece[i])) continue;
      const auto left = ids.find(piece.substr(0, i));
      const auto right = ids.find(piece.substr(i));
      if (left != ids.end() && right != ids.end()) {
        merges.push_back({left->first, right->first, vocab.scores[id], left_chars,
                          chars - left_chars, left->second, right->second});
      }
      ++left_chars;
    }
  }
  std::stable_sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
    if (a.score != b.score) return a.score > b.score;
    if (a.left_chars != b.left_chars) return a.left_chars > b.left_chars;
    if (a.right_chars != b.right_chars) return a.right_chars > b.right_chars;
    return a.left_id != b.left_id ? a.left_id < b.left_id : a.right_id < b.right_id;
  });
  Json::Array out;
  out.reserve(merges.size());
  for (const Merge& merge : merges) {
    out.push_back(Json(Json::Array{Json(merge.left), Json(merge.right)}));
  }
  return Json(std::move(out));
}

Json BpeModel(Json vocab, Json merges, Json unk_token, bool byte_fallback, bool ignore_merges) {
  return Json(Json::Object{{"type", "BPE"},
                           {"dropout", Json()},
                           {"unk_token", std::move(unk_token)},
                           {"continuing_subword_prefix", Json()},
                           {"end_of_word_suffix", Json()},
                           {"fuse_unk", byte_fallback},
                           {"byte_fallback", byte_fallback},
                           {"ignore_merges", ignore_merges},
                           {"vocab", std::move(vocab)},
                           {"merges", std::move(merges)}});
}

Json Assemble(const Vocab& vocab, const Specials& specials, Json normalizer, Json pre_tokenizer,
              Json decoder, Json model) {
  return Json(Json::Object{{"version", "1.0"},
                           {"truncation", Json()},
                           {"padding", Json()},
                           {"added_tokens", AddedTokens(vocab)},
                           {"normalizer", std::move(normalizer)},
                           {"pre_tokenizer", std::move(pre_tokenizer)},
                           {"post_processor", PostProcessor(vocab, specials)},
                           {"decoder", std::move(decoder)},
                           {"model", std::move(model)}});
}

Result<Json> ByteLevelTokenizer(const GgufFile& file, TextFacts& text) {
  std::string_view name;
  if (file.Find("tokenizer.ggml.pre") != nullptr) {
    HONE_ASSIGN(name, file.GetString("tokenizer.ggml.pre"));
  }
  auto pre = internal::FindPreTokenizer(name);
  if (!pre) {
    return Unsupported(StrCat("tokenizer.ggml.pre is ",
                              name.empty() ? std::string("missing") : Quote(name),
                              ": the pre-tokenizer is not known, and any other would change ids; "
                              "use the checkpoint with its tokenizer.json"));
  }
  HONE_ASSIGN(const Vocab vocab, ReadVocab(file, false));
  HONE_ASSIGN(const Specials specials, ReadSpecials(file, vocab, pre->add_bos, text));
  HONE_ASSIGN(Json pieces, VocabJson(vocab));
  HONE_ASSIGN(Json merges, CopyMerges(file));
  Json decoder(Json::Object{{"type", "ByteLevel"},
                            {"add_prefix_space", true},
                            {"trim_offsets", true},
                            {"use_regex", true}});
  return Assemble(
      vocab, specials, std::move(pre->normalizer), std::move(pre->pre_tokenizer),
      std::move(decoder),
      BpeModel(std::move(pieces), std::move(merges), Json(), false, pre->ignore_merges));
}

Result<Json> SentencePieceTokenizer(const GgufFile& file, TextFacts& text) {
  constexpr const char* kNormalizer = "tokenizer.ggml.precompiled_charsmap";
  if (file.Find(kNormalizer) != nullptr) {
    return Unsupported(StrCat("metadata ", Quote(kNormalizer),
                              " asks for a normalizer that Hone does not build; use the checkpoint "
                              "with its tokenizer.json"));
  }
  HONE_ASSIGN(const bool remove_spaces,
              GetBoolOr(file, "tokenizer.ggml.remove_extra_whitespaces", false));
  if (remove_spaces) {
    return Unsupported(
        "tokenizer.ggml.remove_extra_whitespaces is true, which Hone cannot do; use "
        "the checkpoint with its tokenizer.json");
  }
  HONE_ASSIGN(const bool prefix, GetBoolOr(file, "tokenizer.ggml.add_space_prefix", true));
  HONE_ASSIGN(const Vocab vocab, ReadVocab(file, true));
  HONE_ASSIGN(const Specials specials, ReadSpecials(file, vocab, true, text));
  HONE_ASSIGN(Json pieces, VocabJson(vocab));
  HONE_ASSIGN(Json merges, MergesFromScores(vocab));

  Json::Array normalizers;
  if (prefix) {
    normalizers.push_back(Json(Json::Object{{"type", "Prepend"}, {"prepend", kSpaceMark}}));
  }
  normalizers.push_back(ReplaceSpaces(false));
  Json::Array decoders = {ReplaceSpaces(true), Json(Json::Object{{"type", "ByteFallback"}}),
                          Json(Json::Object{{"type", "Fuse"}})};
  if (prefix) {
    decoders.push_back(
        Json(Json::Object{{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}));
  }
  // The unknown piece: by its id, else the one of that type.
  Json unk;
  if (specials.unk) {
    unk = Json(vocab.pieces[static_cast<std::size_t>(*specials.unk)]);
  } else if (const auto it = std::find(vocab.types.begin(), vocab.types.end(), kUnknown);
             it != vocab.types.end()) {
    unk = Json(vocab.pieces[static_cast<std::size_t>(it - vocab.types.begin())]);
    text.unk_token = unk.AsString();
  }
  return Assemble(
      vocab, specials,
      Json(Json::Object{{"type", "Sequence"}, {"normalizers", Json(std::move(normalizers))}}),
      Json(), Json(Json::Object{{"type", "Sequence"}, {"decoders", Json(std::move(decoders))}}),
      BpeModel(std::move(pieces), std::move(merges), std::move(unk), true, false));
}

Status ReadTemplates(const GgufFile& file, TextFacts& text) {
  const std::string key = "tokenizer.chat_template";
  for (const auto& [name, value] : file.metadata()) {
    const bool is_main = name == key;
    if (!is_main && !name.starts_with(key + ".")) continue;
    HONE_ASSIGN(const std::string_view body, file.GetString(name));
    if (!IsUtf8(body)) return Damaged(StrCat("metadata ", Quote(name), " is not UTF-8"));
    if (is_main) {
      text.chat_template = body;
      text.chat_template_name = key;
    } else {
      text.named_templates.emplace_back(name.substr(key.size() + 1), body);
    }
  }
  return Status();
}

Status ReadSampling(const GgufFile& file, SamplingFacts& out) {
  const std::pair<const char*, std::optional<double>*> numbers[] = {
      {"general.sampling.temp", &out.temperature},
      {"general.sampling.top_p", &out.top_p},
      {"general.sampling.min_p", &out.min_p},
      {"general.sampling.penalty_repeat", &out.repetition_penalty}};
  for (const auto& [key, target] : numbers) {
    if (file.Find(key) == nullptr) continue;
    HONE_ASSIGN(const double value, file.GetDouble(key));
    if (!std::isfinite(value)) return Damaged(StrCat("metadata ", Quote(key), " is not finite"));
    *target = value;
  }
  if (file.Find("general.sampling.top_k") != nullptr) {
    HONE_ASSIGN(out.top_k, file.GetInt("general.sampling.top_k"));
  }
  out.do_sample = out.temperature && *out.temperature > 0;
  return Status();
}

Result<TextFacts> ReadText(const GgufFile& file) {
  TextFacts text;
  HONE_ASSIGN(const std::string_view model, file.GetString("tokenizer.ggml.model"));
  Json tokenizer;
  if (model == "gpt2") {
    HONE_ASSIGN(tokenizer, ByteLevelTokenizer(file, text));
  } else if (model == "llama") {
    HONE_ASSIGN(tokenizer, SentencePieceTokenizer(file, text));
  } else {
    return Unsupported(StrCat("tokenizer.ggml.model is ", Quote(model),
                              ", expected \"gpt2\" (byte-level BPE) or \"llama\" (SentencePiece)"));
  }
  // Merges and ids that contradict the vocabulary show here, with their rank.
  auto size = CheckTokenizerJson(tokenizer);
  if (!size.ok()) return std::move(size).status().Context("tokenizer");
  text.num_ids = *size;
  text.tokenizer_json = tokenizer.Dump();
  HONE_TRY(ReadTemplates(file, text));
  HONE_TRY(ReadSampling(file, text.sampling));
  return text;
}

}  // namespace

Result<TextFacts> ReadGgufText(const GgufFile& file) {
  auto text = ReadText(file);
  if (text.ok() || text.message().starts_with(file.path())) return text;
  return std::move(text).status().Context(file.path());
}

}  // namespace hone::formats
