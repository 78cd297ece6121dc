// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// For tests: a backend that plays a script, a sink that keeps what it gets, and a reader of
// streams.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/openai/endpoints.h"
#include "serve/openai/read_request.h"

namespace hone::serve::openai {

// JSON with ' for ", easier to read in C++.
inline std::string Quoted(std::string text) {
  std::replace(text.begin(), text.end(), '\'', '"');
  return text;
}

inline Json ParseText(std::string_view text) {
  auto parsed = ParseJson(text);
  EXPECT_TRUE(parsed.ok()) << parsed.message() << "\n" << text;
  return parsed.ok() ? *std::move(parsed) : Json();
}

// The value at a path such as "choices[0].message.content"; null if there is none.
inline Json At(const Json& json, std::string_view path) {
  const Json* at = &json;
  while (!path.empty()) {
    if (path[0] == '[') {
      const std::size_t close = path.find(']');
      const auto index = static_cast<std::size_t>(std::stoul(std::string(path.substr(1, close))));
      if (!at->IsArray() || index >= at->AsArray().size()) return Json();
      at = &at->AsArray()[index];
      path.remove_prefix(close + 1);
    } else {
      if (path[0] == '.') path.remove_prefix(1);
      const std::size_t end = std::min(path.find_first_of(".["), path.size());
      at = at->Find(path.substr(0, end));
      if (at == nullptr) return Json();
      path.remove_prefix(end);
    }
  }
  return *at;
}
inline std::string TextAt(const Json& json, std::string_view path) {
  const Json found = At(json, path);
  return found.IsString() ? found.AsString() : found.Dump();
}

using CallFunction = ApiResult<GenerateCall> (*)(const Json&, const ReadOptions&);

// A body that must be read, and one that must not.
inline GenerateCall MustRead(CallFunction read, const std::string& body,
                             const ReadOptions& options = {}) {
  auto call = read(ParseText(Quoted(body)), options);
  EXPECT_TRUE(call.ok()) << body << ": " << (call.ok() ? "" : call.error().message);
  return call.ok() ? *std::move(call) : GenerateCall();
}
inline ApiError MustFail(CallFunction read, const std::string& body,
                         const ReadOptions& options = {}) {
  auto call = read(ParseText(Quoted(body)), options);
  EXPECT_FALSE(call.ok()) << body;
  if (call.ok()) return ApiError();
  EXPECT_EQ(call.error().http_status, 400) << body;
  EXPECT_EQ(call.error().type, "invalid_request_error") << body;
  EXPECT_TRUE(call.error().message.starts_with(call.error().param)) << call.error().message;
  return call.error();
}

// The base request of chats with more members: Chat("'n':2").
inline std::string Chat(const std::string& more = "") {
  return "{'model':'m','messages':[{'role':'user','content':'Say hi'}],'temperature':0" +
         (more.empty() ? "" : "," + more) + "}";
}

class RecordingSink final : public ResponseSink {
 public:
  void Begin(const ResponseHead& given) override {
    EXPECT_FALSE(head.has_value());
    head = given;
  }
  void Write(std::string_view bytes) override {
    EXPECT_TRUE(head.has_value());
    EXPECT_FALSE(finished);
    EXPECT_FALSE(gone) << "written after the client was gone: " << bytes;
    EXPECT_FALSE(bytes.empty());
    body += bytes;
  }
  void Finish() override {
    EXPECT_FALSE(finished);
    finished = true;
  }
  bool cancelled() const override { return gone; }

  int status() const { return head ? head->http_status : 0; }
  std::string Header(std::string_view name) const {
    for (const auto& [key, value] : head->headers) {
      if (key == name) return value;
    }
    return "";
  }
  Json json() const { return ParseText(body); }

  std::optional<ResponseHead> head;
  std::string body;
  bool finished = false;
  bool gone = false;
};

// A stream taken apart.
struct SseEvent {
  std::string name;  // of "event:"
  std::string data;
};
inline std::vector<SseEvent> ParseSse(const std::string& body) {
  std::vector<SseEvent> events;
  std::size_t at = 0;
  while (at < body.size()) {
    const std::size_t end = body.find("\n\n", at);
    EXPECT_NE(end, std::string::npos) << "an event without its empty line";
    if (end == std::string::npos) break;
    SseEvent event;
    bool has_data = false;
    for (std::size_t line = at; line < end;) {
      const std::size_t stop = std::min(body.find('\n', line), end);
      const std::string text = body.substr(line, stop - line);
      if (text.starts_with("data: ")) {
        EXPECT_FALSE(has_data);
        has_data = true;
        event.data = text.substr(6);
      } else if (text.starts_with("event: ")) {
        event.name = text.substr(7);
      } else {
        EXPECT_TRUE(text.starts_with(": ")) << text;
      }
      line = stop + 1;
    }
    if (has_data) events.push_back(std::move(event));
    at = end + 2;
  }
  return events;
}
// The chunks of a stream that ends with [DONE].
inline std::vector<Json> ParseChunks(const std::string& body) {
  std::vector<Json> chunks;
  const std::vector<SseEvent> events = ParseSse(body);
  EXPECT_FALSE(events.empty());
  for (std::size_t i = 0; i < events.size(); ++i) {
    const bool last = i + 1 == events.size();
    EXPECT_EQ(events[i].data == "[DONE]", last) << events[i].data;
    if (events[i].data != "[DONE]") chunks.push_back(ParseText(events[i].data));
  }
  return chunks;
}

// Plays its script: at once in Start, or event by event when the test says so.
class ScriptedBackend final : public Backend {
 public:
  std::vector<ModelInfo> Models() override { return models; }

  ApiResult<std::shared_ptr<RunningRequest>> Start(GenerateRequest given,
                                                   std::shared_ptr<EventSink> sink) override {
    ++starts;
    request = std::move(given);
    if (start_error) return *start_error;
    auto running = std::make_shared<Running>();
    running->script = script;
    running->usage = usage;
    running->error = error;
    running->sink = std::move(sink);
    last = running;
    if (play_at_once) running->PlayAll();
    return std::shared_ptr<RunningRequest>(running);
  }
  ApiResult<std::vector<TokenPiece>> Tokenize(const TokenizeRequest& given) override {
    tokenize = given;
    return pieces;
  }
  ApiResult<std::string> Detokenize(const DetokenizeRequest& given) override {
    detokenize = given;
    return text;
  }
  ApiResult<std::string> Render(const RenderRequest& given) override {
    render = given;
    if (start_error) return *start_error;
    return text;
  }

  class Running final : public RunningRequest {
   public:
    void Cancel() override { cancelled = true; }
    // The next event; at the end OnDone or OnError. False if it is over.
    bool Play() {
      if (over) return false;
      if (cancelled || (next < script.size() && !sink->OnEvent(script[next++]))) {
        cancelled = true;
        over = true;
        sink->OnError(Unavailable("cancelled", "cancelled", 1));
      } else if (next == script.size()) {
        over = true;
        error ? sink->OnError(*error) : sink->OnDone(usage);
      }
      return !over;
    }
    void PlayAll() {
      while (Play()) {
      }
    }

    std::vector<Event> script;
    Usage usage;
    std::optional<ApiError> error;
    std::shared_ptr<EventSink> sink;
    std::size_t next = 0;
    bool cancelled = false, over = false;
  };

  std::vector<ModelInfo> models = {
      {.id = "m", .created = 5, .fingerprint = "fp", .context_tokens = 64}};
  std::vector<Event> script;
  Usage usage = {
      .prompt_tokens = 7, .completion_tokens = 3, .reasoning_tokens = 1, .cached_tokens = 4};
  std::optional<ApiError> start_error, error;
  bool play_at_once = true;

  int starts = 0;
  GenerateRequest request;
  TokenizeRequest tokenize;
  DetokenizeRequest detokenize;
  RenderRequest render;
  std::vector<TokenPiece> pieces;
  std::string text;
  std::shared_ptr<Running> last;
};

// Ids that tests can name: chatcmpl-1, call_2, ...
inline ApiOptions TestOptions() {
  ApiOptions options;
  auto count = std::make_shared<int>(0);
  options.ids = [count](std::string_view prefix) { return StrCat(prefix, ++*count); };
  options.now = [] { return std::int64_t{1700000000}; };
  return options;
}

inline std::shared_ptr<RecordingSink> Post(Backend& backend, std::string_view path,
                                           const std::string& body,
                                           const ApiOptions& options = TestOptions()) {
  auto sink = std::make_shared<RecordingSink>();
  Handle({"POST", path, Quoted(body)}, backend, options, sink);
  return sink;
}

inline Event Say(std::string text, std::int64_t choice = 0) {
  return {choice, ContentDelta{std::move(text)}};
}
inline Event ThinkAloud(std::string text) { return {0, ThinkingDelta{std::move(text)}}; }
inline Event CallBegin(std::string name) { return {0, ToolCallBegin{std::move(name)}}; }
inline Event CallPart(std::string text) { return {0, ToolCallArguments{std::move(text)}}; }
inline Event CallEnd() { return {0, ToolCallEnd{}}; }
inline Event End(EndReason reason = EndReason::kStop, std::int64_t choice = 0) {
  return {choice, ChoiceEnd{reason}};
}

}  // namespace hone::serve::openai
