// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/model_backend.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "serve/model_events.h"

namespace hone::serve {
namespace {

using openai::ApiError;
using openai::ApiResult;
using openai::ApiStatus;
using openai::GenerateRequest;

// Ends a request that runs, as long as its model is there.
class HostedRequest final : public openai::RunningRequest {
 public:
  HostedRequest(std::weak_ptr<chat::ModelHost> host, chat::JobId id)
      : host_(std::move(host)), id_(id) {}
  void Cancel() override {
    if (const auto host = host_.lock()) host->Cancel(id_);
  }

 private:
  std::weak_ptr<chat::ModelHost> host_;
  chat::JobId id_;
};

chat::AnswerFormat ToFormat(openai::OutputFormat format) {
  using openai::FormatKind;
  chat::AnswerFormat out;
  switch (format.kind) {
    case FormatKind::kText:
      out.kind = chat::FormatKind::kText;
      break;
    case FormatKind::kJsonObject:
      out.kind = chat::FormatKind::kJsonObject;
      break;
    case FormatKind::kJsonSchema:
      out.kind = chat::FormatKind::kJsonSchema;
      break;
    case FormatKind::kRegex:
      out.kind = chat::FormatKind::kRegex;
      break;
    case FormatKind::kGrammar:
      out.kind = chat::FormatKind::kLark;
      break;
  }
  out.schema = std::move(format.schema);
  out.text = std::move(format.text);
  return out;
}

chat::ToolChoice ToToolChoice(openai::ToolMode mode) {
  switch (mode) {
    case openai::ToolMode::kNone:
      return chat::ToolChoice::kNone;
    case openai::ToolMode::kAuto:
      return chat::ToolChoice::kAuto;
    case openai::ToolMode::kRequired:
      return chat::ToolChoice::kRequired;
    case openai::ToolMode::kNamed:
      return chat::ToolChoice::kNamed;
  }
  return chat::ToolChoice::kNone;
}

chat::ThinkingRequest ToThinking(const openai::Thinking& thinking) {
  chat::ThinkingRequest out;
  out.budget_tokens = thinking.budget_tokens;
  if (thinking.mode == openai::ThinkMode::kOff) out.mode = chat::ThinkingMode::kOff;
  if (thinking.mode == openai::ThinkMode::kOn) out.mode = chat::ThinkingMode::kOn;
  return out;
}

chat::ChatRequest ToChatRequest(openai::ChatInput chat) {
  chat::ChatRequest out;
  out.messages = std::move(chat.messages);
  out.tools_json = std::move(chat.tools_json);
  out.tool_choice = ToToolChoice(chat.tool_mode);
  out.tool_name = std::move(chat.tool_name);
  out.parallel_tool_calls = chat.parallel_tool_calls;
  out.format = ToFormat(std::move(chat.format));
  out.thinking = ToThinking(chat.thinking);
  out.template_kwargs = std::move(chat.template_kwargs);
  out.add_generation_prompt = chat.add_generation_prompt;
  out.prediction = std::move(chat.prediction);
  return out;
}

// Where a prompt of a completion stands in the request.
std::string PromptPath(std::size_t index, std::size_t count) {
  return count == 1 ? std::string("prompt") : StrCat("prompt[", index, "]");
}

std::string StemOf(const std::string& path) {
  std::filesystem::path file(path);
  if (!file.has_filename()) file = file.parent_path();  // "folder/"
  return file.stem().string();
}

ApiStatus CheckTemplate(const chat::ChatModel& model) {
  if (model.has_template()) return ApiStatus();
  const std::string& error = model.text().template_error;
  return openai::UnsupportedField(
      "messages", error.empty()
                      ? std::string("this model has no chat template; use /v1/completions")
                      : StrCat("this model's chat template does not compile (", error,
                               "); use /v1/completions"));
}

ApiResult<const bridge::Tokenizer*> FindTokenizer(const chat::ChatModel& model,
                                                  const std::string& field) {
  const runtime::TextSetup& text = model.text();
  if (text.tokenizer) return &*text.tokenizer;
  return openai::UnsupportedField(
      field, StrCat("this model has no tokenizer that Hone can read",
                    text.tokenizer_error.empty() ? "" : ": ", text.tokenizer_error));
}

// Of an echo, they are all in memory until the answer is complete, and the thread that drives the
// model makes their text.
constexpr std::int64_t kMaxEchoCandidates = 2'000'000;

ApiStatus CheckEcho(const GenerateRequest& request, std::span<const chat::Prompt> prompts) {
  if (!request.echo || !request.logprobs) return ApiStatus();
  std::int64_t tokens = 0;
  for (const chat::Prompt& prompt : prompts) tokens += static_cast<std::int64_t>(prompt.ids.size());
  const std::int64_t candidates = tokens * request.n * (request.top_logprobs + 1);
  if (candidates <= kMaxEchoCandidates) return ApiStatus();
  return openai::InvalidField(
      "logprobs",
      StrCat("the echo would have ", candidates,
             " log-probabilities (tokens of all prompts x n x (logprobs + 1)), at most ",
             kMaxEchoCandidates, " can be asked for; send fewer prompts at once"));
}

ApiError OutsideVocabulary(std::string field, std::int64_t id, std::int64_t vocab) {
  return openai::InvalidField(
      std::move(field), StrCat("token id ", id, " is outside the model's vocabulary of ", vocab));
}

}  // namespace

Result<std::unique_ptr<ModelBackend>> ModelBackend::Open(const std::string& path,
                                                         ModelBackendOptions options) {
  if (options.id.empty()) options.id = StemOf(path);
  HONE_ASSIGN(std::unique_ptr<runtime::Engine> engine, runtime::Engine::Open(path, options.engine));
  return std::make_unique<ModelBackend>(std::move(engine), std::move(options));
}

ModelBackend::ModelBackend(std::unique_ptr<runtime::Engine> engine, ModelBackendOptions options)
    : options_(std::move(options)),
      created_(static_cast<std::int64_t>(std::time(nullptr))),
      host_(std::make_shared<chat::ModelHost>(std::move(engine), options_.host)) {
  if (options_.id.empty()) options_.id = "model";
}

// The thread of the host ends here, whoever still holds the host for a moment.
ModelBackend::~ModelBackend() { host_->Stop(); }

std::vector<openai::ModelInfo> ModelBackend::Models() {
  return {{.id = options_.id,
           .created = created_,
           .fingerprint = options_.fingerprint,
           .context_tokens = host_->model().context(),
           .loaded = true}};
}

ApiError ModelBackend::RefusalError(const chat::Submission& refused) const {
  if (refused.refusal == chat::Refusal::kQueueFull) {
    // When the jobs that wait may have had their turn.
    const chat::HostStats stats = host_->stats();
    const auto ended = static_cast<double>(stats.done + stats.cancelled + stats.failed);
    const double each = ended > 0 ? stats.job_seconds / ended : 1;
    const double wait = each * static_cast<double>(refused.waiting) /
                        static_cast<double>(host_->options().max_parallel);
    return openai::QueueFull(refused.waiting,
                             static_cast<int>(std::clamp(std::ceil(wait), 1.0, 60.0)));
  }
  if (refused.refusal == chat::Refusal::kDraining) {
    return openai::Unavailable("draining", "the server is stopping and takes no new requests", 5);
  }
  return ToApiError(refused.error);
}

ApiStatus ModelBackend::CheckRoom() const {
  const chat::Submission now = host_->Check();
  if (now.ok()) return ApiStatus();
  return RefusalError(now);
}

ApiStatus ModelBackend::CheckRequest(const GenerateRequest& request) const {
  const chat::ChatModel& model = host_->model();
  if (request.chat) HONE_TRY(CheckTemplate(model));
  for (const auto& [id, bias] : request.sampling.logit_bias) {
    if (id >= model.vocab()) {
      return OutsideVocabulary(StrCat("logit_bias.", id), id, model.vocab());
    }
  }
  for (std::size_t p = 0; p < request.prompts.size(); ++p) {
    const auto* ids = std::get_if<std::vector<std::int32_t>>(&request.prompts[p]);
    if (ids == nullptr) continue;
    for (std::size_t i = 0; i < ids->size(); ++i) {
      if ((*ids)[i] >= model.vocab()) {
        return OutsideVocabulary(StrCat(PromptPath(p, request.prompts.size()), "[", i, "]"),
                                 (*ids)[i], model.vocab());
      }
    }
  }
  return ApiStatus();
}

chat::PromptLimits ModelBackend::Limits(const GenerateRequest& request) const {
  constexpr std::int64_t kAnswerTokens = 1024;
  const std::int64_t context = host_->model().context();
  chat::PromptLimits limits;
  limits.on_full = options_.on_full;
  limits.allow_control_tokens = options_.allow_control_tokens;
  // max_tokens is a bound, not a wish: clients send the whole context and more.
  limits.reserve = std::clamp<std::int64_t>(request.max_tokens.value_or(kAnswerTokens), 1,
                                            std::max<std::int64_t>(context / 4, 1));
  return limits;
}

runtime::SamplerOptions ModelBackend::MakeSampler(const openai::SamplingFields& asked) const {
  const runtime::TextSetup& text = host_->model().text();
  const openai::SamplingFields& server = options_.sampling;
  const auto pick = [](std::optional<double> request, std::optional<double> other, float model) {
    if (!request) request = other;
    return request ? static_cast<float>(*request) : model;
  };
  runtime::SamplerOptions out;
  out.temperature = pick(asked.temperature, server.temperature, text.temperature);
  out.top_p = pick(asked.top_p, server.top_p, text.top_p);
  out.min_p = pick(asked.min_p, server.min_p, text.min_p);
  out.top_k = static_cast<std::int32_t>(
      asked.top_k.value_or(server.top_k.value_or(static_cast<std::int64_t>(text.top_k))));
  out.presence_penalty = pick(asked.presence_penalty, server.presence_penalty, 0);
  out.frequency_penalty = pick(asked.frequency_penalty, server.frequency_penalty, 0);
  out.repetition_penalty =
      pick(asked.repetition_penalty, server.repetition_penalty, text.repetition_penalty);
  const std::optional<std::int64_t> seed = asked.seed ? asked.seed : server.seed;
  if (seed) out.seed = static_cast<std::uint64_t>(*seed);
  return out;
}

ApiResult<std::vector<chat::Prompt>> ModelBackend::MakePrompts(
    const GenerateRequest& request) const {
  const chat::ChatModel& model = host_->model();
  const chat::PromptLimits limits = Limits(request);
  std::vector<chat::Prompt> prompts;
  if (request.chat) {
    auto prompt = chat::MakePrompt(model, ToChatRequest(*request.chat), limits);
    if (!prompt.ok()) return ToApiError(prompt.error(), request.chat->thinking.field);
    prompts.push_back(*std::move(prompt));
    return prompts;
  }
  for (std::size_t i = 0; i < request.prompts.size(); ++i) {
    const openai::Prompt& given = request.prompts[i];
    const auto* text = std::get_if<std::string>(&given);
    auto prompt = text != nullptr ? chat::MakeTextPrompt(model, *text, limits)
                                  : chat::MakeIdsPrompt(model, std::get<1>(given), limits);
    if (!prompt.ok()) return ToApiError(prompt.error(), PromptPath(i, request.prompts.size()));
    prompts.push_back(*std::move(prompt));
  }
  return prompts;
}

ApiResult<std::shared_ptr<openai::RunningRequest>> ModelBackend::Start(
    GenerateRequest request, std::shared_ptr<openai::EventSink> sink) {
  HONE_TRY(CheckRoom());  // before the work of making prompts
  HONE_TRY(CheckRequest(request));
  HONE_ASSIGN(std::vector<chat::Prompt> prompts, MakePrompts(request));
  HONE_TRY(CheckEcho(request, prompts));
  EventSettings settings;
  settings.n = request.n;
  settings.on_end = options_.on_end;
  if (request.echo) settings.echoes = MakeEchoes(host_->model(), prompts);
  settings.warnings = PromptWarnings(prompts);

  chat::Job job;
  job.n = request.n;
  job.echo = request.echo;
  job.answer.sampler = MakeSampler(request.sampling);
  job.random_seed = !request.sampling.seed && !options_.sampling.seed;
  job.answer.logit_bias = std::move(request.sampling.logit_bias);
  job.answer.max_tokens = request.max_tokens;
  job.answer.stop = std::move(request.stop);
  job.answer.logprobs = request.logprobs;
  job.answer.top_logprobs = request.top_logprobs;
  job.prompts = std::move(prompts);
  job.sink = std::make_shared<EventAdapter>(std::move(sink), std::move(settings));
  const chat::Submission submission = host_->Submit(std::move(job));
  if (!submission.ok()) return RefusalError(submission);
  return std::shared_ptr<openai::RunningRequest>(
      std::make_shared<HostedRequest>(host_, submission.id));
}

ApiResult<std::vector<openai::TokenPiece>> ModelBackend::Tokenize(
    const openai::TokenizeRequest& request) {
  HONE_ASSIGN(const bridge::Tokenizer* const tokenizer, FindTokenizer(host_->model(), "content"));
  auto ids = tokenizer->Encode(request.text, {.add_special_tokens = request.add_special,
                                              .parse_special_tokens = request.parse_special});
  if (!ids.ok()) return openai::FromStatus(std::move(ids).status(), "content");
  std::vector<openai::TokenPiece> pieces;
  pieces.reserve(ids->size());
  for (const std::int32_t id : *ids) {
    openai::TokenPiece piece{.id = id};
    if (request.with_pieces) {
      auto bytes = tokenizer->TokenBytes(id);
      if (!bytes.ok()) return openai::FromStatus(std::move(bytes).status(), "with_pieces");
      piece.bytes = *std::move(bytes);
    }
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

ApiResult<std::string> ModelBackend::Detokenize(const openai::DetokenizeRequest& request) {
  HONE_ASSIGN(const bridge::Tokenizer* const tokenizer, FindTokenizer(host_->model(), "tokens"));
  const std::int64_t vocab = host_->model().vocab();
  for (std::size_t i = 0; i < request.tokens.size(); ++i) {
    if (request.tokens[i] >= vocab) {
      return OutsideVocabulary(StrCat("tokens[", i, "]"), request.tokens[i], vocab);
    }
  }
  auto text = tokenizer->Decode(request.tokens, false);
  if (!text.ok()) return openai::FromStatus(std::move(text).status(), "tokens");
  return *std::move(text);
}

ApiResult<std::string> ModelBackend::Render(const openai::RenderRequest& request) {
  HONE_TRY(CheckTemplate(host_->model()));
  chat::PromptLimits limits;
  limits.allow_control_tokens = options_.allow_control_tokens;
  auto text = chat::RenderPrompt(host_->model(), ToChatRequest(request.chat), limits);
  if (!text.ok()) return ToApiError(text.error(), request.chat.thinking.field);
  return *std::move(text);
}

}  // namespace hone::serve
