// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/props.h"

#include <filesystem>

namespace hone::serve {
namespace {

Json OrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }
Json Strings(const std::vector<std::string>& texts) {
  return Json(Json::Array(texts.begin(), texts.end()));
}

// The name alone: folders of the operator are nobody's business.
std::string FileName(const std::string& path) {
  std::filesystem::path file(path);
  if (!file.has_filename()) file = file.parent_path();
  return file.filename().string();
}

// What is known of a model that was loaded at least once.
void AddFacts(const ModelFacts& facts, Json& json) {
  json.Set("engine", OrNull(facts.engine));
  json.Set("compute", OrNull(facts.compute));
  json.Set("kv", OrNull(facts.kv));
  json.Set("kernels", Strings(facts.kernels));
  json.Set("threads", Json(facts.threads));
  json.Set("parallel", Json(facts.parallel));
  json.Set("queue", Json(facts.max_waiting));
  json.Set("chat_template", Json(facts.chat_template));
  json.Set("thinking", Json(facts.thinking));
  json.Set("tools", OrNull(facts.tool_family));
  json.Set("load_seconds", Json(facts.load_seconds));
  json.Set("sampling", facts.sampling);
  json.Set("warnings", Strings(facts.warnings));
}

Json ModelJson(const ModelReport& model) {
  Json json;
  json.Set("id", model.entry.name);
  json.Set("file", FileName(model.entry.path));
  json.Set("file_bytes", Json(model.file_bytes));
  json.Set("state", ModelConditionName(model.condition));
  json.Set("failure", OrNull(model.failure));
  const std::int64_t context = model.info.context_tokens;
  json.Set("context_length", context > 0 ? Json(context) : Json());
  json.Set("requests", Json(model.requests));
  json.Set("waiting", Json(model.waiting));
  if (model.loads > 0) AddFacts(model.facts, json);
  return json;
}

Json LimitsJson(const ServerFacts& server) {
  const auto size = [](std::size_t n) { return Json(static_cast<std::uint64_t>(n)); };
  Json json;
  json.Set("body_bytes", size(server.http.body_bytes));
  json.Set("connections", size(server.http.connections));
  json.Set("n", Json(server.read.max_n));
  json.Set("choices", Json(server.read.max_choices));
  json.Set("stop", Json(server.read.max_stop));
  json.Set("tools", Json(server.read.max_tools));
  return json;
}

}  // namespace

Json PropsJson(const ServerFacts& server, const std::vector<ModelReport>& models) {
  Json json;
  json.Set("version", server.version);
  json.Set("status", server.status);
  json.Set("page", Json(server.page));
  json.Set("import", Json(server.allow_import));
  json.Set("lenient", Json(server.lenient));
  json.Set("api_key", Json(server.needs_key));
  if (server.more.IsObject()) {
    for (const auto& [key, value] : server.more.AsObject()) json.Set(key, value);
  }
  json.Set("limits", LimitsJson(server));
  Json::Array list;
  for (const ModelReport& model : models) list.push_back(ModelJson(model));
  json.Set("models", Json(std::move(list)));
  return json;
}

}  // namespace hone::serve
