// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "formats/hf_config/hf_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <system_error>

#include "base/file.h"
#include "formats/foreign_file.h"

namespace hone::formats {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxId = std::numeric_limits<std::int32_t>::max();

Status WrongType(const std::string& path, std::string_view key, const Json& found,
                 std::string_view expected) {
  return Status(Code::kInvalidArgument,
                StrCat(path, ": \"", key, "\" is ", found.TypeName(), ", expected ", expected));
}

Result<std::string> ReadText(const std::string& path) {
  HONE_ASSIGN(std::string text, ReadFile(path));
  if (const std::string what = DescribeForeignFile(AsBytes(text)); !what.empty()) {
    return Status(Code::kDataLoss, StrCat(path, ": ", what));
  }
  if (!IsUtf8(text)) return Status(Code::kDataLoss, StrCat(path, ": the text is not UTF-8"));
  return text;
}

Result<Json> ParseObject(const std::string& path, std::string_view text) {
  auto json = ParseJson(text);
  if (!json.ok()) return std::move(json).status().Context(path);
  if (!json->IsObject()) {
    return Status(Code::kDataLoss,
                  StrCat(path, ": the file is ", json->TypeName(), ", expected an object"));
  }
  return json;
}

// Whether an optional file is there. A link whose target is gone, as a download that was cut off
// or a cleaned cache leaves it, is no missing file: without it the model would change in silence.
Result<bool> HasFile(const std::string& path) {
  if (FileExists(path)) return true;
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (!fs::exists(status)) return false;
  if (fs::is_symlink(status)) {
    return Status(Code::kNotFound,
                  StrCat(path, ": is a link to no file; download it again, or remove it"));
  }
  return Status(Code::kInvalidArgument,
                StrCat(path, ": is ", fs::is_directory(status) ? "a folder" : "no ordinary file",
                       ", expected a file"));
}

// An optional file: an empty object if it is not there.
Result<Json> ReadObjectOr(const std::string& path) {
  HONE_ASSIGN(const bool is_here, HasFile(path));
  if (!is_here) return Json(Json::Object{});
  HONE_ASSIGN(const std::string text, ReadText(path));
  return ParseObject(path, text);
}

// A special token: text, {"content": text}, or null.
Status ReadToken(const std::string& path, const Json& config, std::string_view key,
                 std::string& out) {
  const Json* value = config.FindNonNull(key);
  if (value == nullptr) return Status();
  const Json* content = value->IsObject() ? value->Find("content") : value;
  if (content == nullptr || !content->IsString()) {
    return WrongType(path, key, *value, "a string, or an object with \"content\"");
  }
  out = content->AsString();
  return Status();
}

// "106" is 106; anything else is not a number.
std::optional<std::int64_t> NumberIn(std::string_view text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

Status AddEos(const std::string& path, const Json& value, TextFacts& text) {
  if (value.IsNull()) return Status();
  if (value.IsArray()) {
    for (const Json& entry : value.AsArray()) {
      if (entry.IsArray()) return WrongType(path, "eos_token_id", entry, "integers in the list");
      HONE_TRY(AddEos(path, entry, text));
    }
    return Status();
  }
  if (value.IsString()) {
    // Without this, "1" would be the piece of the digit, and answers would end at every 1.
    if (const std::optional<std::int64_t> id = NumberIn(value.AsString())) {
      text.warnings.push_back(StrCat(path, ": eos_token_id is the text ", Quote(value.AsString()),
                                     "; it is taken as the id ", *id));
      return AddEos(path, Json(*id), text);
    }
    if (std::find(text.eos_strings.begin(), text.eos_strings.end(), value.AsString()) ==
        text.eos_strings.end()) {
      text.eos_strings.push_back(value.AsString());
    }
    return Status();
  }
  if (!value.IsInt()) return WrongType(path, "eos_token_id", value, "an integer, a list or text");
  const std::int64_t id = value.AsInt();
  if (id < 0 || id > kMaxId) {
    text.warnings.push_back(
        StrCat(path, ": eos_token_id ", id, " cannot be a token id and is ignored"));
  } else if (std::find(text.eos_ids.begin(), text.eos_ids.end(), id) == text.eos_ids.end()) {
    text.eos_ids.push_back(id);
  }
  return Status();
}

Status ReadNumber(const std::string& path, const Json& config, std::string_view key,
                  std::optional<double>& out) {
  const Json* value = config.FindNonNull(key);
  if (value == nullptr) return Status();
  if (!value->IsNumber() || !std::isfinite(value->AsDouble())) {
    return WrongType(path, key, *value, "a finite number");
  }
  out = value->AsDouble();
  return Status();
}

Status ReadSampling(const std::string& path, const Json& config, SamplingFacts& out) {
  if (const Json* value = config.FindNonNull("do_sample"); value != nullptr) {
    if (!value->IsBool()) return WrongType(path, "do_sample", *value, "true or false");
    out.do_sample = value->AsBool();
  }
  HONE_TRY(ReadNumber(path, config, "temperature", out.temperature));
  HONE_TRY(ReadNumber(path, config, "top_p", out.top_p));
  HONE_TRY(ReadNumber(path, config, "min_p", out.min_p));
  HONE_TRY(ReadNumber(path, config, "repetition_penalty", out.repetition_penalty));
  std::optional<double> top_k;
  HONE_TRY(ReadNumber(path, config, "top_k", top_k));
  if (top_k) {
    // Some files write 50.0.
    if (*top_k != std::floor(*top_k) || std::fabs(*top_k) > static_cast<double>(kMaxId)) {
      return WrongType(path, "top_k", *config.Find("top_k"), "an integer");
    }
    out.top_k = static_cast<std::int64_t>(*top_k);
  }
  return Status();
}

void AddNamed(std::string name, std::string body, TextFacts& text) {
  for (const auto& [known, unused] : text.named_templates) {
    if (known == name) return;
  }
  text.named_templates.emplace_back(std::move(name), std::move(body));
}

// The key "chat_template": text, or a list of {"name", "template"}.
Status ReadTemplateKey(const std::string& path, const Json& config, std::string& main,
                       TextFacts& text) {
  const Json* value = config.FindNonNull("chat_template");
  if (value == nullptr) return Status();
  if (value->IsString()) {
    main = value->AsString();
    return Status();
  }
  if (!value->IsArray()) {
    return WrongType(path, "chat_template", *value, "text, or a list of {name, template}");
  }
  for (const Json& entry : value->AsArray()) {
    const Json* name = entry.Find("name");
    const Json* body = entry.Find("template");
    if (name == nullptr || !name->IsString() || body == nullptr || !body->IsString()) {
      return WrongType(path, "chat_template", entry,
                       "in each entry of the list an object with the texts name and template");
    }
    if (name->AsString() == "default") {
      main = body->AsString();
    } else {
      AddNamed(name->AsString(), body->AsString(), text);
    }
  }
  return Status();
}

// A template may well begin with markup, but a web page without one tag of a template is a page.
Result<std::string> ReadTemplateFile(const std::string& path) {
  HONE_ASSIGN(std::string body, ReadFile(path));
  const std::string foreign = DescribeForeignFile(AsBytes(body));
  if (!foreign.empty() && body.find("{{") == std::string::npos &&
      body.find("{%") == std::string::npos) {
    return Status(Code::kDataLoss, StrCat(path, ": ", foreign));
  }
  if (!IsUtf8(body)) return Status(Code::kDataLoss, StrCat(path, ": the text is not UTF-8"));
  return body;
}

Status ReadAdditionalTemplates(const std::string& folder, TextFacts& text) {
  const std::string path = JoinPath(folder, "additional_chat_templates");
  if (!IsDirectory(path)) return Status();
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".jinja") names.push_back(it->path().stem().string());
  }
  if (error) return Status(Code::kIo, StrCat(path, ": cannot list: ", error.message()));
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    HONE_ASSIGN(std::string body, ReadTemplateFile(JoinPath(path, name + ".jinja")));
    AddNamed(name, std::move(body), text);
  }
  return Status();
}

std::string NoDefaultTemplate(const std::string& folder, const TextFacts& text) {
  std::string names;
  for (const auto& [name, unused] : text.named_templates) {
    names += StrCat(names.empty() ? "" : ", ", Quote(name));
  }
  return StrCat(folder, ": the chat templates are named ", names,
                ", and none of them \"default\"; save the one to use as chat_template.jinja");
}

// Files win over keys, as in Transformers: chat_template.jinja, then chat_template.json, then
// tokenizer_config.json.
Status ReadTemplates(const std::string& folder, const Json& tokenizer_config, TextFacts& text) {
  struct Candidate {
    const char* file;
    std::string body;
  };
  std::vector<Candidate> found;
  HONE_TRY(ReadAdditionalTemplates(folder, text));
  const std::string path = JoinPath(folder, "chat_template.jinja");
  HONE_ASSIGN(const bool has_file, HasFile(path));
  if (has_file) {
    HONE_ASSIGN(std::string file_body, ReadTemplateFile(path));
    found.push_back({"chat_template.jinja", std::move(file_body)});
  }
  const std::string json_path = JoinPath(folder, "chat_template.json");
  HONE_ASSIGN(const Json json, ReadObjectOr(json_path));
  std::string body;
  HONE_TRY(ReadTemplateKey(json_path, json, body, text));
  if (!body.empty()) found.push_back({"chat_template.json", body});
  body.clear();
  HONE_TRY(
      ReadTemplateKey(JoinPath(folder, "tokenizer_config.json"), tokenizer_config, body, text));
  if (!body.empty()) found.push_back({"tokenizer_config.json", body});
  if (found.empty()) {
    if (!text.named_templates.empty()) text.warnings.push_back(NoDefaultTemplate(folder, text));
    return Status();
  }
  text.chat_template = found.front().body;
  text.chat_template_name = JoinPath(folder, found.front().file);
  for (const Candidate& other : found) {
    if (other.body != text.chat_template) {
      text.warnings.push_back(StrCat(folder, ": the chat templates of ", found.front().file,
                                     " and ", other.file, " differ; ", found.front().file,
                                     " is used"));
    }
  }
  return Status();
}

// Why a folder without tokenizer.json cannot be used as it is.
Status NoTokenizer(const std::string& folder) {
  std::string message = StrCat(JoinPath(folder, "tokenizer.json"), ": not found");
  for (const char* other : {"tokenizer.model", "vocab.json", "vocab.txt", "tekken.json"}) {
    if (FileExists(JoinPath(folder, other))) {
      message += StrCat("; ", other,
                        " is here: save the fast tokenizer with Transformers "
                        "(AutoTokenizer.from_pretrained(...).save_pretrained(...)) to get it");
      break;
    }
  }
  return Status(Code::kNotFound, std::move(message));
}

}  // namespace

Result<HfFolder> ReadHfFolder(const std::string& folder) {
  HfFolder out;
  out.path = folder;
  const std::string config_path = JoinPath(folder, "config.json");
  HONE_ASSIGN(const bool has_config, HasFile(config_path));
  if (!has_config) {
    return Status(
        Code::kNotFound,
        StrCat(config_path, ": not found",
               FileExists(JoinPath(folder, "adapter_config.json"))
                   ? "; this looks like a LoRA adapter: merge it into its base model first"
                   : "; a checkpoint folder needs it"));
  }
  HONE_ASSIGN(const std::string config_text, ReadText(config_path));
  HONE_ASSIGN(out.config, ParseObject(config_path, config_text));

  const std::string tokenizer_path = JoinPath(folder, "tokenizer.json");
  HONE_ASSIGN(const bool has_tokenizer, HasFile(tokenizer_path));
  if (!has_tokenizer) return NoTokenizer(folder);
  HONE_ASSIGN(out.text.tokenizer_json, ReadText(tokenizer_path));
  HONE_ASSIGN(const Json tokenizer, ParseObject(tokenizer_path, out.text.tokenizer_json));
  auto num_ids = CheckTokenizerJson(tokenizer);
  if (!num_ids.ok()) return std::move(num_ids).status().Context(tokenizer_path);
  out.text.num_ids = *num_ids;

  const std::string tokenizer_config_path = JoinPath(folder, "tokenizer_config.json");
  HONE_ASSIGN(const Json tokenizer_config, ReadObjectOr(tokenizer_config_path));
  HONE_TRY(ReadToken(tokenizer_config_path, tokenizer_config, "bos_token", out.text.bos_token));
  HONE_TRY(ReadToken(tokenizer_config_path, tokenizer_config, "eos_token", out.text.eos_token));
  HONE_TRY(ReadToken(tokenizer_config_path, tokenizer_config, "pad_token", out.text.pad_token));
  HONE_TRY(ReadToken(tokenizer_config_path, tokenizer_config, "unk_token", out.text.unk_token));
  if (const Json* value = tokenizer_config.FindNonNull("add_bos_token"); value != nullptr) {
    if (!value->IsBool()) {
      return WrongType(tokenizer_config_path, "add_bos_token", *value, "true or false");
    }
    out.text.add_bos_token = value->AsBool();
  }
  HONE_TRY(ReadTemplates(folder, tokenizer_config, out.text));

  const std::string generation_path = JoinPath(folder, "generation_config.json");
  HONE_ASSIGN(const Json generation, ReadObjectOr(generation_path));
  if (const Json* eos = out.config.Find("eos_token_id"); eos != nullptr) {
    HONE_TRY(AddEos(config_path, *eos, out.text));
  }
  if (const Json* eos = generation.Find("eos_token_id"); eos != nullptr) {
    HONE_TRY(AddEos(generation_path, *eos, out.text));
  }
  HONE_TRY(ReadSampling(generation_path, generation, out.text.sampling));
  return out;
}

}  // namespace hone::formats
