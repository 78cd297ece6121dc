// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <optional>
#include <thread>

#include "hub/retry.h"
#include "hub/transfer.h"

namespace hone::hub {
namespace {

constexpr int kMaxTriesUnreachable = 3;  // nobody there: more patience seldom helps
constexpr int kApiSeconds = 120;
constexpr double kTellSeconds = 5;  // a longer pause looks as if nothing went on

bool Cancelled(const TransferOptions& options) {
  return options.cancel != nullptr && options.cancel->load();
}

Status Sleep(Clock::time_point until, const TransferOptions& options) {
  while (Clock::now() < until) {
    if (Cancelled(options)) return Status(Code::kCancelled, "cancelled");
    const auto left = until - Clock::now();
    std::this_thread::sleep_for(std::min<Clock::duration>(left, std::chrono::milliseconds(50)));
  }
  return {};
}

// One request, without another try.
Result<HttpResult> Once(HttpLoop* loop, const HttpRequest& request, const HttpSink& sink,
                        const TransferOptions& options) {
  std::optional<HttpResult> result;
  HONE_ASSIGN(const std::uint64_t id,
              loop->Start(request, sink, [&](HttpResult r) { result = std::move(r); }));
  while (!result) {
    Status status = Cancelled(options) ? Status(Code::kCancelled, "cancelled") : loop->Run(100);
    if (!status.ok()) {
      loop->Cancel(id);
      return status;
    }
  }
  return std::move(*result);
}

// Tries until there is an answer that stays the same.
Result<HttpResponse> Patiently(HttpLoop* loop, const Settings& settings, const RepoRef& ref,
                               const std::string& file, const HttpRequest& request,
                               const std::function<void()>& clear, const HttpSink& sink,
                               const TransferOptions& options) {
  Retry retry;
  while (true) {
    clear();
    HONE_ASSIGN(HttpResult result, Once(loop, request, sink, options));
    const bool again =
        result.from_network || (result.status.ok() && MayWorkLater(result.response.status));
    if (!again && !result.status.ok()) return std::move(result.status);
    if (!again) return std::move(result.response);
    HONE_ASSIGN(const Clock::time_point when, retry.Next(settings, ref, file, result, options));
    HONE_TRY(Sleep(when, options));
  }
}

}  // namespace

Result<Clock::time_point> Retry::Next(const Settings& settings, const RepoRef& ref,
                                      const std::string& file, const HttpResult& result,
                                      const TransferOptions& options) {
  ++tries;
  const bool network = !result.status.ok();
  const std::string what = file.empty() ? ref.name : StrCat(ref.name, "/", file);
  const int most =
      result.unreachable ? std::min(kMaxTriesUnreachable, options.max_tries) : options.max_tries;
  if (tries >= most) {
    if (!network && result.response.status >= 400) {
      return ExplainAnswer(settings, ref, file, result.response);
    }
    const std::string reason = network ? std::string(result.status.message())
                                       : StrCat(result.response.host, " ends the connection early");
    return Status(Code::kIo,
                  StrCat(what, ": ", reason, " (tried ", tries, tries == 1 ? " time" : " times",
                         "); check the network, HF_ENDPOINT and the proxy variables, then run the "
                         "command again: it goes on where it stopped"));
  }
  const double asked = network ? 0 : RetryAfterSeconds(result.response);
  if (asked > options.max_wait_seconds) {
    return Status(Code::kIo, StrCat(what, ": ", result.response.host, " answers with HTTP status ",
                                    result.response.status, " and wants ", static_cast<long>(asked),
                                    " seconds of rest; run the command again after that"));
  }
  const double doubled =
      options.retry_milliseconds / 1000.0 * static_cast<double>(1 << std::min(tries - 1, 10));
  const std::chrono::duration<double> wait(
      std::max(asked, std::min(doubled, options.max_wait_seconds)));
  if (wait.count() >= kTellSeconds && options.note) {
    options.note(StrCat(what, ": ", result.response.host,
                        network ? std::string(" does not answer")
                                : StrCat(" answers with HTTP status ", result.response.status),
                        "; the next try is in ", std::lround(wait.count()), " seconds"));
  }
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(wait);
}

Result<std::string> FetchText(HttpLoop* loop, const Settings& settings, const RepoRef& ref,
                              const std::string& url, std::size_t max_bytes,
                              const TransferOptions& options) {
  std::string text;
  const HttpSink sink = [&](const HttpResponse& response, ByteSpan bytes) -> Status {
    if (bytes.size() > max_bytes - text.size()) {
      return Status(Code::kDataLoss,
                    StrCat(ref.name, ": ", response.host, " answers with more than ", max_bytes,
                           " bytes, which is no list of files"));
    }
    text += AsText(bytes);
    return {};
  };
  HttpRequest request;
  request.url = url;
  request.token = settings.token;
  request.total_seconds = kApiSeconds;
  HONE_ASSIGN(const HttpResponse response,
              Patiently(loop, settings, ref, "", request, [&] { text.clear(); }, sink, options));
  if (response.status != 200) return ExplainAnswer(settings, ref, "", response);
  return text;
}

Result<HttpResponse> FetchHeaders(HttpLoop* loop, const Settings& settings, const RepoRef& ref,
                                  const std::string& file, const std::string& url,
                                  const TransferOptions& options) {
  HttpRequest request;
  request.url = url;
  request.token = settings.token;
  request.head = true;
  request.total_seconds = kApiSeconds;
  const HttpSink sink = [](const HttpResponse&, ByteSpan) { return Status(); };
  HONE_ASSIGN(HttpResponse response,
              Patiently(loop, settings, ref, file, request, [] {}, sink, options));
  if (response.status >= 400) return ExplainAnswer(settings, ref, file, response);
  return response;
}

}  // namespace hone::hub
