// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/peek_check.h"

#include <algorithm>
#include <utility>

#include "bridge/sha256.h"
#include "bundle/buffer_sizes.h"
#include "bundle/check_subject.h"
#include "bundle/precision_audit.h"

namespace hone::bundle {
namespace {

constexpr std::size_t kBuffersPerSignature = 3;

Json Limits(const Subject& subject) {
  const DecoderFacts& facts = subject.facts;
  Json out(Json::Object{});
  out.Set("context", facts.context);
  Json::Array prefill;
  for (const SignatureFacts& rung : facts.prefill) prefill.emplace_back(rung.length);
  out.Set("prefill", Json(std::move(prefill)));
  if (subject.llm) out.Set("max_num_tokens", subject.llm->max_num_tokens);
  out.Set("vocabulary", facts.vocab);
  if (facts.hidden > 0) out.Set("hidden", facts.hidden);
  const MemoryNeed need = EstimateMemory(subject);
  out.Set("memory", Json(Json::Object{{"weights", need.weights},
                                      {"cache", need.cache},
                                      {"activations", need.activations},
                                      {"cpu", need.cpu()},
                                      {"gpu_device", need.gpu_device},
                                      {"gpu_host", need.gpu_host}}));
  return out;
}

Json Stops(const Subject& subject) {
  Json::Array out;
  for (const auto& token : subject.llm->stop_tokens) {
    ResolvedToken resolved = subject.Resolve(token);
    Json::Array ids;
    for (const std::int32_t id : resolved.ids) ids.emplace_back(id);
    out.push_back(
        Json(Json::Object{{"ids", Json(std::move(ids))}, {"text", std::move(resolved.text)}}));
  }
  return Json(std::move(out));
}

Json Buffers(const Subject& subject) {
  Json::Array out;
  for (const BufferSize& buffer : LargestBuffers(subject, kBuffersPerSignature)) {
    out.push_back(Json(Json::Object{{"signature", buffer.signature},
                                    {"name", buffer.name},
                                    {"bytes", buffer.bytes},
                                    {"as_fp16", buffer.as_fp16}}));
  }
  return Json(std::move(out));
}

// The ids of the findings that break something, in the order of the report.
Json::Array Reasons(const CheckReport& report, std::uint8_t what) {
  Json::Array out;
  std::string last;
  for (const Finding& finding : report.findings) {
    if ((finding.info->breaks & what) == 0 || last == finding.info->id) continue;
    last = finding.info->id;
    out.emplace_back(last);
  }
  return out;
}

Json Runtimes(const Subject& subject, const CheckReport& report) {
  Json::Array load = Reasons(report, kBreaksLiteRtLm);
  Json::Array chat = Reasons(report, kBreaksLiteRtLm | kBreaksLiteRtLmChat);
  Json::Array hone = Reasons(report, kBreaksHone);
  Json google(Json::Object{{"runtime", "LiteRT-LM 0.18"},
                           {"runs", load.empty()},
                           {"chat", chat.empty()},
                           {"because", Json(std::move(chat))}});
  if (subject.llm && subject.llm->min_runtime_version) {
    google.Set("min_runtime_version", *subject.llm->min_runtime_version);
  }
  const bool has_template = subject.chat_template.has_value();
  Json ours(Json::Object{{"runtime", "Hone"},
                         {"runs", hone.empty()},
                         {"chat", hone.empty() && has_template},
                         {"fast", subject.lifted.has_value()},
                         {"because", Json(std::move(hone))}});
  return Json(Json::Array{std::move(google), std::move(ours)});
}

}  // namespace

Status AddCheckedFacts(const std::string& path, int num_threads, Json& facts) {
  CheckOptions options;
  options.num_threads = num_threads;
  std::unique_ptr<MappedFile> map;
  HONE_ASSIGN(const std::unique_ptr<Subject> subject, ReadSubject(path, options, &map));
  HONE_ASSIGN(const CheckReport report, CheckSubject(*subject));
  if (subject->lifted) facts.Set("roles", RolesJson(AuditRoles(*subject->lifted)));
  if (subject->facts.decode) facts.Set("limits", Limits(*subject));
  if (!subject->text.chat_template.empty()) {
    const std::string& source = subject->text.chat_template;
    facts.Set("template", Json(Json::Object{{"bytes", source.size()},
                                            {"sha256", bridge::Sha256Hex(AsBytes(source))}}));
  }
  if (subject->llm) facts.Set("stops", Stops(*subject));
  facts.Set("largest_buffers", Buffers(*subject));
  facts.Set("runtimes", Runtimes(*subject, report));
  return {};
}

}  // namespace hone::bundle
