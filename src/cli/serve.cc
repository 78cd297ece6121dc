// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// hone serve: models behind an HTTP server with OpenAI's API and a page.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/env.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/model_options.h"
#include "cli/resolve_source.h"
#include "cli/serve_model.h"
#include "cli/serve_options.h"
#include "serve/access_log.h"
#include "serve/model_registry.h"
#include "serve/server.h"

namespace hone::cli {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// For the last bytes of answers to reach their clients.
constexpr milliseconds kFlushTime{2'000};
constexpr milliseconds kPollTime{100};

// One line on standard error.
void Say(const std::string& line) { std::fprintf(stderr, "hone: %s\n", OneLine(line).c_str()); }

milliseconds FromSeconds(double seconds) {
  return milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

// SIGINT, SIGTERM and SIGHUP (but not under nohup) are taken by the thread that asks for them. Made
// before other threads, which inherit the mask.
class StopSignals {
 public:
  StopSignals() {
    struct sigaction hangup{};
    ::sigaction(SIGHUP, nullptr, &hangup);
    CancelFlag();  // the handlers of the other signals
    struct sigaction ignore{};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGPIPE, &ignore, nullptr);  // a log that nobody reads must not end the server
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    if (hangup.sa_handler == SIG_IGN) {
      ::sigaction(SIGHUP, &ignore, nullptr);
    } else {
      sigaddset(&set_, SIGHUP);
    }
    ::pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  // True if one came within the time.
  bool Wait(milliseconds limit) const {
    const timespec time = {.tv_sec = limit.count() / 1000,
                           .tv_nsec = limit.count() % 1000 * 1'000'000};
    return ::sigtimedwait(&set_, nullptr, &time) > 0;
  }
  // From now on a signal ends the process.
  void LetThrough() const {
    struct sigaction end{};
    end.sa_handler = SIG_DFL;
    for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &end, nullptr);
    ::pthread_sigmask(SIG_UNBLOCK, &set_, nullptr);
  }

 private:
  sigset_t set_{};
};

// The name of a model of the hub is that of its repository.
std::string NameOf(const ResolvedSource& source) {
  if (source.repository.empty()) return serve::ModelNameOf(source.path);
  return source.repository.substr(source.repository.rfind('/') + 1);
}

Status AddModels(const ServeArgs& args, serve::ModelRegistry& registry) {
  for (const std::string& arg : args.models) {
    const NamedSource named = SplitModelArg(arg);
    HONE_ASSIGN(const ResolvedSource source, ResolveSource(named.source));
    serve::ModelEntry entry;
    entry.path = source.path;
    entry.name = named.name.empty() ? NameOf(source) : named.name;
    HONE_TRY(registry.Add(std::move(entry)));
  }
  if (args.models_folder.empty()) return Status();
  HONE_ASSIGN(std::vector<serve::ModelEntry> found, ScanModelsFolder(args.models_folder));
  if (found.empty() && args.models.empty() && !args.allow_import) {
    return Status(Code::kNotFound,
                  StrCat("--models-folder: ", args.models_folder,
                         ": no .litertlm or .gguf file and no checkpoint folder in it"));
  }
  std::error_code ignored;
  for (serve::ModelEntry& entry : found) {
    bool named = false;  // on the command line, too
    for (const serve::ModelReport& other : registry.Reports()) {
      named = named || std::filesystem::equivalent(other.entry.path, entry.path, ignored);
    }
    if (!named) HONE_TRY(registry.Add(std::move(entry)));
  }
  return Status();
}

Json PropsOf(const ServeArgs& args) {
  Json props;
  props.Set("parallel", Json(args.parallel));
  props.Set("queue", Json(args.queue));
  props.Set("on_full", args.on_full);
  props.Set("idle_unload_seconds", Json(args.idle_unload_seconds));
  return props;
}

void PrintModels(const std::vector<serve::ModelReport>& models) {
  for (const serve::ModelReport& model : models) {
    if (model.condition != serve::ModelCondition::kLoaded) {
      Say(StrCat("  ", model.entry.name, ": loaded when it is asked for"));
      continue;
    }
    const serve::ModelFacts& facts = model.facts;
    std::string line = StrCat("  ", model.entry.name, ": context of ", model.info.context_tokens,
                              " tokens, ", facts.parallel, " answers at once, ", facts.threads,
                              facts.threads == 1 ? " thread" : " threads");
    if (!facts.chat_template) line += ", no chat template: completions only";
    if (!facts.tool_family.empty()) line += StrCat(", tools as ", facts.tool_family);
    if (facts.thinking) line += ", thinks";
    Say(line);
  }
}

// The work of the command: made in order, ended in the other one.
class Serving {
 public:
  explicit Serving(const ServeArgs& args) : args_(args) {}

  Status Run() {
    HONE_TRY(Open());
    for (const std::string& warning : server_->Warnings()) PrintWarning(warning);
    Say(StrCat("listening at ", server_->url()));
    bool stop = false;
    HONE_TRY(LoadFirst(&stop));
    if (!stop) {
      server_->SetReady();
      PrintReady();
      while (!signals_.Wait(milliseconds(60'000))) {
      }
    }
    return Drain();
  }

 private:
  Status Open() {
    serve::RegistryOptions options;
    options.idle_unload = FromSeconds(args_.idle_unload_seconds);
    options.max_waiting = args_.queue + args_.parallel;
    options.log = [](const std::string& note) { Say(note); };
    HONE_ASSIGN(registry_, serve::ModelRegistry::Create(
                               [this](const serve::ModelEntry& entry) {
                                 return OpenServedModel(args_, entry);
                               },
                               std::move(options)));
    HONE_TRY(AddModels(args_, *registry_));
    serve::ServerOptions server;
    HONE_ASSIGN(server.http, MakeHttpOptions(args_, GetEnv("HONE_API_KEY")));
    if (!args_.access_log.empty()) {
      HONE_ASSIGN(log_, serve::AccessLog::Open(args_.access_log));
      server.http.access_log = [log = log_.get()](const serve::HttpAccess& access) {
        log->Add(access);
      };
    }
    server.api.read.lenient = args_.lenient;
    server.version = HONE_VERSION;
    server.page = !args_.no_page;
    server.allow_import = args_.allow_import;
    server.props = PropsOf(args_);
    server_ = std::make_unique<serve::Server>(std::move(server), *registry_);
    return server_->Start();
  }

  // The first model of the command line, or the only one; the others wait until they are asked for.
  Status LoadFirst(bool* stop) {
    const std::vector<serve::ModelReport> models = registry_->Reports();
    if (models.empty() || (args_.models.empty() && models.size() > 1)) return Status();
    struct Load {
      std::mutex mutex;
      std::optional<Status> status;
    };
    auto load = std::make_shared<Load>();
    registry_->Preload(models.front().entry.name, [load](Status status) {
      const std::lock_guard lock(load->mutex);
      load->status.emplace(std::move(status));
    });
    for (;;) {
      if (signals_.Wait(kPollTime)) {
        *stop = true;
        return Status();
      }
      const std::lock_guard lock(load->mutex);
      if (load->status) return *std::move(load->status);
    }
  }

  void PrintReady() {
    PrintModels(registry_->Reports());
    if (server_->has_page()) {
      Say(StrCat("page at ", server_->url(), "/"));
    } else if (!args_.no_page) {
      PrintNote("this build has no page (-DHONE_WEB=OFF)");
    }
    Say(StrCat("API at ", server_->url(), "/v1; Ctrl-C stops"));
  }

  // What runs may end, for a while; a second signal ends it.
  Status Drain() {
    server_->BeginDrain();
    const std::int64_t running = server_->num_running();
    if (running > 0) {
      Say(StrCat("stopping; ", running, running == 1 ? " request is" : " requests are",
                 " being answered (a second signal cancels)"));
    }
    const Clock::time_point end = Clock::now() + FromSeconds(args_.drain_seconds);
    bool cut = false;
    // Once it is 0, what is counted later is only refused.
    std::int64_t left = server_->num_running();
    while (!cut && left > 0 && Clock::now() < end) {
      cut = signals_.Wait(kPollTime);
      left = server_->num_running();
    }
    while (signals_.Wait(milliseconds(0))) {  // of an impatient first hand
    }
    signals_.LetThrough();
    server_->Stop(left == 0 ? kFlushTime : milliseconds(0));
    server_.reset();
    registry_.reset();
    log_.reset();
    if (left == 0) return Status();
    return Status(
        Code::kCancelled,
        StrCat("stopped before ", left, left == 1 ? " answer was" : " answers were", " complete"));
  }

  const ServeArgs& args_;
  const StopSignals signals_;
  std::unique_ptr<serve::AccessLog> log_;
  std::unique_ptr<serve::ModelRegistry> registry_;
  std::unique_ptr<serve::Server> server_;
};

Status Serve(const ServeArgs& args) {
  HONE_TRY(CheckServeArgs(args));
  return Serving(args).Run();
}

void AddServerOptions(CLI::App& sub, ServeArgs& args) {
  sub.add_option("--host", args.host, "Address or name to listen at; 0.0.0.0 is the whole network")
      ->capture_default_str();
  sub.add_option("--port", args.port, "0 takes a free one")
      ->check(WholeNumber)
      ->capture_default_str();
  sub.add_option("--api-key", args.api_key,
                 "The key that clients must send; others on this machine can see it here. Better: "
                 "--api-key-file, or HONE_API_KEY");
  sub.add_option("--api-key-file", args.api_key_file, "A file with the key");
  sub.add_flag("--no-key", args.no_key,
               "No key, even if others on the network can reach the server");
  sub.add_option("--allow-origin", args.allow_origins,
                 "An origin whose pages may use the server, such as https://example.org; * is all")
      ->allow_extra_args(false);
  sub.add_option("--allow-host", args.allow_hosts, "Another name of this server")
      ->allow_extra_args(false);
  sub.add_flag("--no-page", args.no_page, "No chat page");
  sub.add_flag("--allow-import", args.allow_import,
               "The page may add models of this machine's disk, from this machine only");
  sub.add_flag("--lenient", args.lenient,
               "Ignore unknown fields of requests, and say so in the answer, instead of refusing");
  sub.add_option("--access-log", args.access_log,
                 "A file that gets one line of JSON for each request; - is standard error");
  sub.add_option("--drain-time", args.drain_seconds,
                 "Seconds that requests get to end when the server is stopped")
      ->capture_default_str();
}

void AddModelOptions(CLI::App& sub, ServeArgs& args) {
  sub.add_option("--models-folder", args.models_folder,
                 "Also the models that lie in this folder, loaded when they are asked for");
  sub.add_option("--idle-unload", args.idle_unload_seconds,
                 "Seconds without a request after which a model is unloaded; 0: never")
      ->capture_default_str();
  sub.add_option("--parallel", args.parallel, "Answers at once, of each model")
      ->check(WholeNumber)
      ->capture_default_str();
  sub.add_option("--queue", args.queue, "Requests that wait for their turn; more get a 429")
      ->check(WholeNumber)
      ->capture_default_str();
  sub.add_option("--context", args.context, "Most tokens of a conversation (default: the model's)")
      ->check(WholeNumber);
  sub.add_option("--on-full", args.on_full,
                 "A prompt over the context: an error, or trim the oldest turns and say so")
      ->check(CLI::IsMember(std::vector<std::string>{"error", "trim"}))
      ->capture_default_str();
  sub.add_option("--prefix-cache", args.prefix_cache,
                 "Memory for beginnings of prompts that are not computed again; 0: none")
      ->capture_default_str();
  sub.add_option("--speculate", args.speculate,
                 "Guess tokens from the text while one answer runs alone; it stays the same. auto: "
                 "while it pays")
      ->check(CLI::IsMember(std::vector<std::string>{"auto", "on", "off"}))
      ->capture_default_str();
  sub.add_option("--threads", args.threads, kThreadsHelp)
      ->transform(ThreadsWord)
      ->default_str("auto");
  sub.add_option("--kv", args.kv,
                 "Type of the key/value cache (default: f32 for float weights, f16 else)")
      ->check(CLI::IsMember(kKvWords));
  sub.add_option("--compute", args.compute,
                 "Activations (default: q8 for quantized bundles, f32 else)")
      ->check(CLI::IsMember(kComputeWords));
}

// What a request gets that does not say it itself.
void AddAnswerOptions(CLI::App& sub, ServeArgs& args) {
  constexpr const char* kGroup = "For requests that do not say it themselves";
  const auto add = [&](const char* name, auto& value, const char* help) {
    return sub.add_option(name, value, help)->group(kGroup);
  };
  add("--think", args.think, "Thinking: on, off or what the template does by itself")
      ->check(CLI::IsMember(kThinkWords))
      ->capture_default_str();
  add("--max-tokens", args.max_tokens, "Most tokens of an answer (default: no limit)")
      ->check(WholeNumber);
  add("--temperature", args.temperature, "0: always the best token");
  add("--top-k", args.top_k, "Choose among the k best tokens; 0: off")->check(WholeNumber);
  add("--top-p", args.top_p, "Choose among the best tokens that sum to p; 1: off");
  add("--min-p", args.min_p, "Drop tokens below p times the best; 0: off");
  add("--repetition-penalty", args.repetition_penalty, "1: off");
  add("--presence-penalty", args.presence_penalty, "0: off");
  add("--frequency-penalty", args.frequency_penalty, "0: off");
}

}  // namespace

void RegisterServe(CLI::App& app, Command* selected) {
  auto args = std::make_shared<ServeArgs>();
  CLI::App* sub = app.add_subcommand("serve", "Serve models: OpenAI's API and a chat page");
  sub->footer(
      "The first model is loaded at once, others when they are asked for. docs/serve.md has "
      "more.\n\n"
      "Examples:\n"
      "  hone serve m.litertlm\n"
      "  hone serve small=a.gguf large=b.litertlm --idle-unload 600\n"
      "  HONE_API_KEY=... hone serve m.litertlm --host 0.0.0.0 --port 8000");
  sub->add_option("model", args->models, StrCat(kModelHelp, "; NAME=MODEL names it"));
  AddServerOptions(*sub, *args);
  AddModelOptions(*sub, *args);
  AddAnswerOptions(*sub, *args);
  sub->callback([args, selected] { *selected = [args] { return Serve(*args); }; });
}

}  // namespace hone::cli
