// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/server_metrics.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "base/machine_info.h"

namespace hone::serve {
namespace {

using openai::ApiError;
using openai::Event;
using openai::EventSink;

std::vector<double> SpeedBuckets() {
  return {0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1000};
}

// Text, thinking or a call: what the model wrote.
bool IsToken(const Event& event) {
  return std::holds_alternative<openai::ContentDelta>(event.what) ||
         std::holds_alternative<openai::ThinkingDelta>(event.what) ||
         std::holds_alternative<openai::ToolCallBegin>(event.what);
}

class MeteringSink final : public EventSink {
 public:
  MeteringSink(std::string model, std::shared_ptr<EventSink> sink,
               std::shared_ptr<ServerMetrics> metrics)
      : sink_(std::move(sink)), metrics_(std::move(metrics)) {
    outcome_.model = std::move(model);
  }

  bool OnEvent(const Event& event) override {
    if (outcome_.first_token_seconds < 0 && IsToken(event)) {
      outcome_.first_token_seconds = Seconds();
    }
    return sink_->OnEvent(event);
  }
  void OnDone(const openai::Usage& usage) override {
    outcome_.usage = usage;
    Count();
    sink_->OnDone(usage);
  }
  void OnError(const ApiError& error) override {
    Fail(error);
    sink_->OnError(error);
  }
  // It never began.
  void Fail(const ApiError& error) {
    outcome_.error_code = error.code.empty() ? error.type : error.code;
    Count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  double Seconds() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }
  void Count() {
    outcome_.seconds = Seconds();
    metrics_->CountAnswer(outcome_);
  }

  std::shared_ptr<EventSink> sink_;
  std::shared_ptr<ServerMetrics> metrics_;
  const Clock::time_point began_ = Clock::now();
  ServerMetrics::Outcome outcome_;
};

}  // namespace

ServerMetrics::ServerMetrics(const std::string& version) {
  metrics_
      .AddGauge("hone_build_info", "Always 1; the label says the version.",
                MetricLabels{{"version", version}})
      .Set(1);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  metrics_.AddGauge("hone_start_time_seconds", "When the server started, seconds since 1970.")
      .Set(std::chrono::duration<double>(now).count());
}

void ServerMetrics::CountRequest(const HttpAccess& access, std::string_view route) {
  metrics_
      .AddCounter("hone_http_requests_total",
                  "HTTP requests by path and status; status 0: it ended before its answer began.",
                  {{"path", std::string(route)}, {"status", std::to_string(access.status)}})
      .Add();
}

void ServerMetrics::CountAnswer(const Outcome& outcome) {
  const MetricLabels model = {{"model", outcome.model}};
  const openai::Usage& usage = outcome.usage;
  const auto count = [&](std::string_view name, std::string_view help, std::int64_t tokens) {
    metrics_.AddCounter(name, help, model).Add(static_cast<double>(tokens));
  };
  if (!outcome.error_code.empty()) {
    metrics_
        .AddCounter("hone_answers_failed_total", "Requests to a model that ended with an error.",
                    {{"model", outcome.model}, {"code", outcome.error_code}})
        .Add();
    return;
  }
  count("hone_answers_total", "Requests to a model that were answered.", 1);
  count("hone_prompt_tokens_total", "Tokens of prompts, cached ones included.",
        usage.prompt_tokens);
  count("hone_cached_tokens_total", "Tokens of prompts that were not computed again.",
        usage.cached_tokens);
  count("hone_generated_tokens_total", "Tokens of answers, thinking included.",
        usage.completion_tokens);
  count("hone_reasoning_tokens_total", "Tokens of thinking.", usage.reasoning_tokens);
  metrics_
      .AddHistogram("hone_answer_seconds", "From a request to the end of its answer.",
                    SecondsBuckets(), model)
      .Observe(outcome.seconds);
  if (outcome.first_token_seconds < 0) return;
  metrics_
      .AddHistogram("hone_time_to_first_token_seconds",
                    "From a request to the first text, with waiting and the prompt.",
                    SecondsBuckets(), model)
      .Observe(outcome.first_token_seconds);
  const double seconds = outcome.seconds - outcome.first_token_seconds;
  if (usage.completion_tokens < 2 || seconds <= 0) return;
  metrics_
      .AddHistogram("hone_tokens_per_second",
                    "Speed of an answer after its first token, all its choices together.",
                    SpeedBuckets(), model)
      .Observe(static_cast<double>(usage.completion_tokens - 1) / seconds);
}

void ServerMetrics::SetModels(const std::vector<ModelReport>& models) {
  struct ModelGauge {
    const char* name;
    const char* help;
    double (*read)(const ModelReport& model);
  };
  static constexpr ModelGauge kGauges[] = {
      {"hone_model_loaded", "1 if the model is loaded.",
       [](const ModelReport& m) { return m.condition == ModelCondition::kLoaded ? 1.0 : 0.0; }},
      {"hone_model_loads", "How often the model was loaded.",
       [](const ModelReport& m) { return static_cast<double>(m.loads); }},
      {"hone_requests", "Requests to a model that run or wait.",
       [](const ModelReport& m) { return static_cast<double>(m.requests); }},
      {"hone_requests_waiting", "Of them, those that wait for the model or in its queue.",
       [](const ModelReport& m) { return static_cast<double>(m.waiting); }},
      {"hone_choices_running", "Answers that are being computed; a request may have several.",
       [](const ModelReport& m) { return static_cast<double>(m.active); }},
  };
  const std::lock_guard lock(models_mutex_);
  // Those of models that were forgotten go.
  for (const std::string& name : std::exchange(model_names_, {})) {
    const bool is_there = std::any_of(models.begin(), models.end(),
                                      [&](const ModelReport& m) { return m.entry.name == name; });
    if (is_there) continue;
    for (const ModelGauge& gauge : kGauges) metrics_.Remove(gauge.name, {{"model", name}});
  }
  for (const ModelReport& model : models) {
    model_names_.push_back(model.entry.name);
    for (const ModelGauge& gauge : kGauges) {
      metrics_.AddGauge(gauge.name, gauge.help, MetricLabels{{"model", model.entry.name}})
          .Set(gauge.read(model));
    }
    CountWork(model);
  }
}

void ServerMetrics::CountWork(const ModelReport& model) {
  if (model.loads == 0) return;
  const auto count = [&](std::string_view name, std::string_view help, std::int64_t value) {
    metrics_.AddCounter(name, help, {{"model", model.entry.name}})
        .RaiseTo(static_cast<double>(value));
  };
  count("hone_model_runs_total", "How often the model ran for answers.", model.work.runs);
  count("hone_drafted_tokens_total", "Guessed tokens that the model verified.",
        model.work.drafted_tokens);
  count("hone_accepted_tokens_total", "Of them, those that came true.", model.work.accepted_tokens);
}

std::string ServerMetrics::Render(const HttpServer::Load& load,
                                  const std::vector<ModelReport>& models) {
  const auto set = [&](std::string_view name, std::string_view help, double value,
                       MetricLabels labels = {}) {
    metrics_.AddGauge(name, help, std::move(labels)).Set(value);
  };
  set("hone_http_connections", "Connections that are open.", static_cast<double>(load.connections));
  set("hone_http_requests_running", "HTTP requests that are being answered.",
      static_cast<double>(load.requests));
  set("hone_http_connections_accepted", "Connections since the start.",
      static_cast<double>(load.accepted));
  set("hone_http_connections_refused", "Of them, those that were refused for want of room.",
      static_cast<double>(load.refused));
  SetModels(models);
  const auto resident = ReadResidentBytes();
  if (resident.ok() && resident->now) {
    set("hone_resident_bytes", "Memory of the process that is in RAM.",
        static_cast<double>(*resident->now));
  }
  const auto cpu = ProcessCpuSeconds();
  if (cpu.ok()) set("hone_cpu_seconds", "Processor time of the process.", *cpu);
  return metrics_.Render();
}

openai::ApiResult<std::shared_ptr<openai::RunningRequest>> MeteredBackend::Start(
    openai::GenerateRequest request, std::shared_ptr<EventSink> sink) {
  const std::string model = request.model;
  auto metering = std::make_shared<MeteringSink>(model, std::move(sink), metrics_);
  auto started = backend_.Start(std::move(request), metering);
  if (!started.ok()) metering->Fail(started.error());
  return started;
}

}  // namespace hone::serve
