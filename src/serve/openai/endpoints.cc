// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/openai/endpoints.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <optional>
#include <utility>

#include "base/text.h"
#include "serve/openai/read_request.h"
#include "serve/openai/utf8.h"

namespace hone::serve::openai {
namespace {

// Events of one request to bytes of its response. The head waits for the first bytes, so that an
// error before them has its own HTTP status.
class GenerationSink final : public EventSink {
 public:
  GenerationSink(std::unique_ptr<ReplyWriter> writer, std::shared_ptr<ResponseSink> sink,
                 Backend::FingerprintReader fingerprint, bool stream, std::int64_t num_choices)
      : writer_(std::move(writer)),
        sink_(std::move(sink)),
        fingerprint_(std::move(fingerprint)),
        stream_(stream),
        open_choices_(num_choices) {}

  bool OnEvent(const Event& event) override {
    if (sink_->cancelled()) return false;
    if (fingerprint_) writer_->SetFingerprint(std::exchange(fingerprint_, nullptr)());
    if (std::holds_alternative<ChoiceEnd>(event.what)) --open_choices_;
    Send(writer_->Add(event));
    return !sink_->cancelled();
  }
  void OnDone(const Usage& usage) override {
    if (open_choices_ != 0) {
      OnError(Internal(StrCat(open_choices_, " choices have no end")));
      return;
    }
    // A whole answer becomes JSON here, which may be large. Nothing of it has been sent before, so
    // that a lack of memory can be an error like others.
    try {
      if (!sink_->cancelled()) Send(writer_->Finish(usage));
      sink_->Finish();
    } catch (const std::bad_alloc&) {
      OnError(FromStatus(
          Status(Code::kOutOfMemory, "there is not enough memory for the text of the answer")));
    }
  }
  void OnError(const ApiError& error) override {
    if (!begun_ && !sink_->cancelled()) {
      WriteError(error, *sink_);
      return;
    }
    if (!sink_->cancelled()) Send(writer_->Fail(error));
    sink_->Finish();
  }

 private:
  void Send(const std::string& bytes) {
    if (bytes.empty()) return;
    if (!begun_) {
      begun_ = stream_;  // a whole answer comes at once, and is not sent before Finish
      ResponseHead head;
      head.stream = stream_;
      head.headers = {{"Content-Type", stream_ ? "text/event-stream" : "application/json"}};
      if (stream_) head.headers.emplace_back("Cache-Control", "no-cache");
      sink_->Begin(head);
    }
    sink_->Write(bytes);
  }

  std::unique_ptr<ReplyWriter> writer_;
  std::shared_ptr<ResponseSink> sink_;
  Backend::FingerprintReader fingerprint_;  // until the first event
  bool stream_;
  bool begun_ = false;  // part of a stream was sent
  std::int64_t open_choices_;
};

std::int64_t Now(const ApiOptions& options) {
  if (options.now) return options.now();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

// The model of a request: by its name, or the only one if none is given.
ApiResult<ModelInfo> ResolveModel(const std::string& name, Backend& backend) {
  const std::vector<ModelInfo> models = backend.Models();
  std::vector<std::string> known;
  for (const ModelInfo& model : models) {
    if (model.id == name) return model;
    known.push_back(model.id);
  }
  if (!name.empty()) return ModelNotFound(name, known);
  if (models.size() == 1) return models[0];
  return MissingField("model", known.empty() ? "a model, but the server has none"
                                             : StrCat("one of ", Join(known, ", ")));
}

using CallReader = ApiResult<GenerateCall> (*)(const Json& body, const ReadOptions& options);

struct Context {
  const ApiRequest& request;
  Backend& backend;
  const ApiOptions& options;
  std::shared_ptr<ResponseSink> sink;
};
using Running = std::shared_ptr<RunningRequest>;

ApiResult<Running> Generate(const Context& context, Endpoint endpoint, CallReader read) {
  HONE_ASSIGN(const Json body, ParseBody(context.request.body, context.options.read));
  HONE_ASSIGN(GenerateCall call, read(body, context.options.read));
  HONE_ASSIGN(const ModelInfo model, ResolveModel(call.generate.model, context.backend));
  call.generate.model = model.id;
  ReplyHead head;
  head.created = Now(context.options);
  head.model = model.id;
  std::unique_ptr<ReplyWriter> writer;
  if (endpoint == Endpoint::kChat) {
    head.id = context.options.ids("chatcmpl-");
    writer = MakeChatWriter(call, std::move(head), context.options.ids);
  } else if (endpoint == Endpoint::kCompletions) {
    head.id = context.options.ids("cmpl-");
    writer = MakeCompletionWriter(call, std::move(head));
  } else {
    head.id = context.options.ids("resp_");
    writer = MakeResponsesWriter(call, std::move(head), context.options.ids);
  }
  auto sink = std::make_shared<GenerationSink>(std::move(writer), context.sink,
                                               context.backend.ReadFingerprint(model.id),
                                               call.reply.stream, call.generate.NumChoices());
  return context.backend.Start(std::move(call.generate), std::move(sink));
}

ApiResult<Running> Chat(const Context& context) {
  return Generate(context, Endpoint::kChat, ReadChatCall);
}
ApiResult<Running> Completions(const Context& context) {
  return Generate(context, Endpoint::kCompletions, ReadCompletionCall);
}
ApiResult<Running> Responses(const Context& context) {
  return Generate(context, Endpoint::kResponses, ReadResponsesCall);
}

Json ModelJson(const ModelInfo& model) {
  return Json(Json::Object{
      {"id", model.id},
      {"object", "model"},
      {"created", Json(model.created)},
      {"owned_by", "hone"},
      {"context_length", model.context_tokens > 0 ? Json(model.context_tokens) : Json()},
      {"loaded", Json(model.loaded)}});
}

ApiResult<Running> ListModels(const Context& context) {
  Json::Array data;
  for (const ModelInfo& model : context.backend.Models()) data.push_back(ModelJson(model));
  WriteJson(Json(Json::Object{{"object", "list"}, {"data", Json(std::move(data))}}), *context.sink);
  return Running();
}

// "%2F" to "/"; what is no such escape stays.
std::string DecodePercent(std::string_view text) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 &&
        digit(text[i + 2]) >= 0) {
      out.push_back(static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2])));
      i += 2;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

constexpr std::string_view kModelPrefix = "/v1/models/";

std::string_view PathOnly(std::string_view path) { return path.substr(0, path.find('?')); }

ApiResult<Running> GetModel(const Context& context) {
  const std::string id =
      EscapeInvalid(DecodePercent(PathOnly(context.request.path).substr(kModelPrefix.size())));
  HONE_ASSIGN(const ModelInfo model, ResolveModel(id, context.backend));
  WriteJson(ModelJson(model), *context.sink);
  return Running();
}

void AddIgnored(const std::vector<std::string>& ignored, const std::vector<std::string>& warnings,
                Json& out) {
  ReplyOptions reply;
  reply.ignored = ignored;
  reply.warnings = warnings;
  Notices(reply).CopyTo(out);
}

Json PieceJson(const TokenPiece& token, bool with_piece) {
  if (!with_piece) return Json(static_cast<std::int64_t>(token.id));
  Json piece(token.bytes);
  if (!IsUtf8(token.bytes)) {
    Json::Array bytes;
    for (const char c : token.bytes) {
      bytes.push_back(Json(static_cast<int>(static_cast<unsigned char>(c))));
    }
    piece = Json(std::move(bytes));
  }
  return Json(
      Json::Object{{"id", Json(static_cast<std::int64_t>(token.id))}, {"piece", std::move(piece)}});
}

ApiResult<Running> Tokenize(const Context& context) {
  HONE_ASSIGN(const Json body, ParseBody(context.request.body, context.options.read));
  HONE_ASSIGN(TokenizeRequest request, ReadTokenize(body, context.options.read));
  HONE_ASSIGN(const ModelInfo model, ResolveModel(request.model, context.backend));
  request.model = model.id;
  HONE_ASSIGN(const std::vector<TokenPiece> tokens, context.backend.Tokenize(request));
  Json::Array list;
  for (const TokenPiece& token : tokens) list.push_back(PieceJson(token, request.with_pieces));
  Json out(Json::Object{{"count", Json(static_cast<std::int64_t>(tokens.size()))},
                        {"tokens", Json(std::move(list))}});
  AddIgnored(request.ignored, {}, out);
  WriteJson(out, *context.sink);
  return Running();
}

ApiResult<Running> Detokenize(const Context& context) {
  HONE_ASSIGN(const Json body, ParseBody(context.request.body, context.options.read));
  HONE_ASSIGN(DetokenizeRequest request, ReadDetokenize(body, context.options.read));
  HONE_ASSIGN(const ModelInfo model, ResolveModel(request.model, context.backend));
  request.model = model.id;
  HONE_ASSIGN(const std::string text, context.backend.Detokenize(request));
  Json out(Json::Object{{"content", text}});
  AddIgnored(request.ignored, {}, out);
  WriteJson(out, *context.sink);
  return Running();
}

ApiResult<Running> ApplyTemplate(const Context& context) {
  HONE_ASSIGN(const Json body, ParseBody(context.request.body, context.options.read));
  HONE_ASSIGN(RenderRequest request, ReadApplyTemplate(body, context.options.read));
  HONE_ASSIGN(const ModelInfo model, ResolveModel(request.model, context.backend));
  request.model = model.id;
  HONE_ASSIGN(const std::string prompt, context.backend.Render(request));
  Json out(Json::Object{{"prompt", prompt}});
  AddIgnored(request.ignored, request.warnings, out);
  WriteJson(out, *context.sink);
  return Running();
}

struct Route {
  std::string_view path;
  std::string_view method;
  ApiResult<Running> (*handle)(const Context& context);
};
constexpr Route kRoutes[] = {
    {"/v1/models", "GET", ListModels},
    {"/v1/chat/completions", "POST", Chat},
    {"/v1/completions", "POST", Completions},
    {"/v1/responses", "POST", Responses},
    {"/tokenize", "POST", Tokenize},
    {"/detokenize", "POST", Detokenize},
    {"/apply-template", "POST", ApplyTemplate},
};
constexpr Route kModelRoute = {kModelPrefix, "GET", GetModel};

const Route* FindRoute(std::string_view path) {
  for (const Route& route : kRoutes) {
    if (path == route.path) return &route;
  }
  const bool names_model = path.starts_with(kModelPrefix) && path.size() > kModelPrefix.size();
  return names_model ? &kModelRoute : nullptr;
}

}  // namespace

bool IsApiPath(std::string_view path) { return FindRoute(PathOnly(path)) != nullptr; }

std::shared_ptr<RunningRequest> Handle(const ApiRequest& request, Backend& backend,
                                       const ApiOptions& options,
                                       std::shared_ptr<ResponseSink> sink) {
  const std::string_view path = PathOnly(request.path);
  const Route* route = FindRoute(path);
  if (route == nullptr) {
    WriteError(PathNotFound(EscapeInvalid(path)), *sink);
    return nullptr;
  }
  if (request.method != route->method) {
    WriteError(MethodNotAllowed(EscapeInvalid(request.method), route->method), *sink);
    return nullptr;
  }
  auto result = route->handle({request, backend, options, sink});
  if (result.ok()) return *std::move(result);
  WriteError(result.error(), *sink);
  return nullptr;
}

void WriteError(const ApiError& error, ResponseSink& sink) {
  ResponseHead head;
  head.http_status = error.http_status;
  head.headers = {{"Content-Type", "application/json"}};
  if (error.retry_after_seconds > 0) {
    head.headers.emplace_back("Retry-After", std::to_string(error.retry_after_seconds));
  }
  if (!error.allow.empty()) head.headers.emplace_back("Allow", error.allow);
  sink.Begin(head);
  sink.Write(ErrorJson(error).Dump());
  sink.Finish();
}

void WriteJson(const Json& json, ResponseSink& sink) {
  ResponseHead head;
  head.headers = {{"Content-Type", "application/json"}};
  sink.Begin(head);
  sink.Write(json.Dump());
  sink.Finish();
}

}  // namespace hone::serve::openai
