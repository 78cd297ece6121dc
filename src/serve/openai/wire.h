// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Pieces that all responses are made of.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "serve/openai/events.h"
#include "serve/openai/request.h"

namespace hone::serve::openai {

// What every part of a response repeats.
struct ReplyHead {
  std::string id;            // "chatcmpl-..."
  std::int64_t created = 0;  // seconds since 1970
  std::string model;
  std::string fingerprint;  // ""; null. SetFingerprint says it
};

// Makes ids: the prefix and 24 letters and digits, another one each time. From any thread.
std::string MakeId(std::string_view prefix);
using IdMaker = std::function<std::string(std::string_view prefix)>;

// "data: {...}\n\n", with "event: NAME\n" in front if there is a name.
std::string SseData(const Json& json, std::string_view event_name = "");
// ": text\n\n": a comment, which clients skip.
std::string SseComment(std::string_view text);
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

// {"prompt_tokens", "completion_tokens", "total_tokens", ..._details}.
Json UsageJson(const Usage& usage);

// As JSON has no infinity: minus infinity and NaN become -9999, and nothing is over 0.
double WireLogprob(double logprob);
// [{"token", "logprob", "bytes", "top_logprobs": [...]}]: the best max_top candidates, best first.
Json::Array TokenLogprobsJson(std::span<const TokenScore> tokens, std::int64_t max_top);

// Members for what was ignored and warned of; a list that is empty is left out.
class Notices {
 public:
  explicit Notices(const ReplyOptions& reply)
      : ignored_(reply.ignored), warnings_(reply.warnings) {}
  void Add(const Warning& warning) { warnings_.push_back(warning.text); }
  bool empty() const { return ignored_.empty() && warnings_.empty(); }
  // Appends "ignored_fields" and "warnings".
  void CopyTo(Json& object) const;
  // The same, and forgets them: each notice is in one chunk of a stream.
  void MoveTo(Json& object);

 private:
  std::vector<std::string> ignored_, warnings_;
};

// Turns events into the bytes of one response.
class ReplyWriter {
 public:
  explicit ReplyWriter(ReplyHead head) : head_(std::move(head)) {}
  virtual ~ReplyWriter() = default;
  // Before the first Add: a model that was loaded for this answer has none when the request comes.
  void SetFingerprint(std::string fingerprint) { head_.fingerprint = std::move(fingerprint); }
  // Bytes to send now; a whole response has none before Finish.
  virtual std::string Add(const Event& event) = 0;
  virtual std::string Finish(const Usage& usage) = 0;
  // Ends a stream that has begun with an error. Of a whole response: nothing, as the error is the
  // response.
  virtual std::string Fail(const ApiError& error) = 0;

 protected:
  ReplyHead head_;
};

// What is needed of call is copied.
std::unique_ptr<ReplyWriter> MakeChatWriter(const GenerateCall& call, ReplyHead head, IdMaker ids);
std::unique_ptr<ReplyWriter> MakeCompletionWriter(const GenerateCall& call, ReplyHead head);
std::unique_ptr<ReplyWriter> MakeResponsesWriter(const GenerateCall& call, ReplyHead head,
                                                 IdMaker ids);

}  // namespace hone::serve::openai
