// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/server.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "serve/api_sink.h"
#include "serve/import_request.h"
#include "serve/props.h"
#include "serve/static_files.h"
#include "web/web_assets.h"

namespace hone::serve {
namespace {

using openai::ApiError;
using openai::ApiResult;
using std::chrono::milliseconds;

constexpr int kRetryDrainSeconds = 10;
constexpr int kRetryLoadingSeconds = 3;

struct ApiRoute {
  const char* method;
  const char* pattern;
};
constexpr std::array kApiRoutes = {
    ApiRoute{"GET", "/v1/models"},
    ApiRoute{"GET", "/v1/models/{id*}"},
    ApiRoute{"POST", "/v1/chat/completions"},
    ApiRoute{"POST", "/v1/completions"},
    ApiRoute{"POST", "/v1/responses"},
    ApiRoute{"POST", "/tokenize"},
    ApiRoute{"POST", "/detokenize"},
    ApiRoute{"POST", "/apply-template"},
};
constexpr std::array kOwnPaths = {"/health", "/metrics", "/props", "/models/import"};

// What /metrics calls a path: those of clients could be any.
std::string_view RouteLabel(std::string_view path) {
  for (const ApiRoute& route : kApiRoutes) {
    if (path == route.pattern) return route.pattern;
  }
  for (const char* own : kOwnPaths) {
    if (path == own) return own;
  }
  if (path.starts_with("/v1/models/")) return "/v1/models/{id}";
  return web::FindWebAsset(path) == nullptr ? "other" : "page";
}

ApiError Draining() {
  return openai::Unavailable(
      "draining", "the server is about to stop and takes no further requests", kRetryDrainSeconds);
}

// One request of num_running, while it lives.
class RunningCount {
 public:
  explicit RunningCount(std::shared_ptr<std::atomic<std::int64_t>> num_running)
      : num_running_(std::move(num_running)) {
    ++*num_running_;
  }
  ~RunningCount() { --*num_running_; }
  RunningCount(const RunningCount&) = delete;
  RunningCount& operator=(const RunningCount&) = delete;

 private:
  const std::shared_ptr<std::atomic<std::int64_t>> num_running_;
};

Response JsonResponse(const Json& json) { return {.body = json.Dump() + "\n"}; }

}  // namespace

Server::Server(ServerOptions options, ModelRegistry& registry)
    : options_(std::move(options)),
      registry_(registry),
      metrics_(std::make_shared<ServerMetrics>(options_.version)),
      num_running_(std::make_shared<std::atomic<std::int64_t>>(0)),
      backend_(registry, metrics_),
      http_(WithCounting(options_.http)) {
  AddRoutes();
}

Server::~Server() { Stop(milliseconds(0)); }

Status Server::Start() { return http_.Start(); }

void Server::SetReady() {
  Phase loading = Phase::kLoading;
  phase_.compare_exchange_strong(loading, Phase::kOk);
}

void Server::BeginDrain() {
  phase_ = Phase::kDraining;
  registry_.EndTextWaits();
}

void Server::Stop(milliseconds drain_time) {
  BeginDrain();
  http_.Stop(drain_time);
}

HttpOptions Server::WithCounting(HttpOptions options) {
  options.access_log = [metrics = metrics_,
                        log = std::move(options.access_log)](const HttpAccess& access) {
    metrics->CountRequest(access, RouteLabel(access.path));
    if (log) log(access);
  };
  return options;
}

void Server::AddRoutes() {
  for (const ApiRoute& route : kApiRoutes) AddApiRoute(route.method, route.pattern);
  http_.Handle("GET", "/health",
               [this](const Request&, const Writer& writer) { writer->Send(Health()); },
               {.open = true, .quick = true});
  http_.Handle("GET", "/metrics", [this](const Request&, const Writer& writer) {
    writer->Send({.content_type = std::string(Metrics::kContentType),
                  .body = metrics_->Render(http_.load(), registry_.Reports())});
  });
  http_.Handle("GET", "/props",
               [this](const Request&, const Writer& writer) { writer->Send(Props()); });
  http_.Handle("POST", "/models/import", [this](const Request& request, const Writer& writer) {
    AnswerImport(request, writer);
  });
  if (options_.page) AddPage();
}

void Server::AddApiRoute(const char* method, const char* pattern) {
  http_.Handle(method, pattern, [this](const Request& request, const Writer& writer) {
    AnswerApi(request, writer);
  });
}

void Server::AddPage() {
  std::vector<StaticFile> files;
  const auto add = [&](std::string_view path, const web::WebAsset& asset) {
    files.push_back(
        {.path = path,
         .content_type = asset.content_type,
         .bytes = asset.bytes,
         .gzip = asset.gzip,
         .content_security_policy = web::kContentSecurityPolicy,
         .cache_control = asset.immutable ? "public, max-age=31536000, immutable" : "no-cache"});
  };
  for (const web::WebAsset& asset : web::WebAssets()) add(asset.path, asset);
  if (const web::WebAsset* page = web::FindWebAsset("/")) {
    add("/", *page);
    has_page_ = true;
  }
  ServeStaticFiles(http_, files);
}

void Server::AnswerApi(const Request& request, const Writer& writer) {
  std::string_view method = request.method;
  if (method == "HEAD") method = "GET";
  // Counts before the look at phase_: who begins to drain and then sees no request will get none.
  auto sink = std::make_shared<ApiSink>(writer, options_.keep_alive, num_running_);
  if (phase_ == Phase::kDraining && method != "GET") {
    openai::WriteError(Draining(), *sink);
    return;
  }
  auto running =
      openai::Handle({method, request.path, request.body}, backend_, options_.api, std::move(sink));
  if (running == nullptr) return;
  // The exchange drops this when the answer is complete, and with it the request.
  writer->OnCancel([running = std::move(running)](CancelReason) { running->Cancel(); });
}

void Server::AnswerImport(const Request& request, const Writer& writer) {
  auto counted = std::make_shared<const RunningCount>(num_running_);  // first, as in AnswerApi
  if (phase_ == Phase::kDraining) {
    writer->Send(ApiErrorResponse(Draining()));
    return;
  }
  auto wish = CheckImport(request, options_.allow_import);
  if (!wish.ok()) {
    writer->Send(ApiErrorResponse(wish.error()));
    return;
  }
  std::vector<std::string> warnings = std::move(wish->warnings);
  registry_.Import(std::move(wish->entry),
                   [writer, counted = std::move(counted),
                    warnings = std::move(warnings)](const ApiResult<std::string>& name) {
                     if (!name.ok()) {
                       writer->Send(ApiErrorResponse(name.error()));
                       return;
                     }
                     Json json;
                     json.Set("id", *name);
                     json.Set("object", "model");
                     if (!warnings.empty()) {
                       json.Set("warnings", Json(Json::Array(warnings.begin(), warnings.end())));
                     }
                     writer->Send(JsonResponse(json));
                   });
}

Response Server::Health() const {
  const Phase phase = phase_;
  if (phase == Phase::kOk) return JsonResponse(Json(Json::Object{{"status", "ok"}}));
  const bool draining = phase == Phase::kDraining;
  const ApiError error =
      draining ? Draining()
               : openai::Unavailable("loading", "the model is being loaded", kRetryLoadingSeconds);
  Response response = ApiErrorResponse(error);
  Json json = openai::ErrorJson(error);
  json.Set("status", draining ? "draining" : "loading");
  response.body = json.Dump() + "\n";
  return response;
}

Response Server::Props() const {
  const Phase phase = phase_;
  ServerFacts facts;
  facts.version = options_.version;
  facts.status = phase == Phase::kOk ? "ok" : (phase == Phase::kDraining ? "draining" : "loading");
  facts.page = has_page_;
  facts.allow_import = options_.allow_import;
  facts.lenient = options_.api.read.lenient;
  facts.needs_key = !options_.http.api_key.empty();
  facts.http = options_.http.limits;
  facts.read = options_.api.read;
  facts.more = options_.props;
  return JsonResponse(PropsJson(facts, registry_.Reports()));
}

}  // namespace hone::serve
