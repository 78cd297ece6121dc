// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The model side as the API sees it. Endpoints call it; whoever has engines implements it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serve/openai/api_error.h"
#include "serve/openai/events.h"
#include "serve/openai/request.h"

namespace hone::serve::openai {

struct ModelInfo {
  std::string id = {};
  std::int64_t created = 0;         // seconds since 1970
  std::string fingerprint = {};     // of the weights and the version; may be empty
  std::int64_t context_tokens = 0;  // 0: not known before it is loaded
  bool loaded = true;
};

// A request that runs. Letting go of it does not end it.
class RunningRequest {
 public:
  virtual ~RunningRequest() = default;
  // From any thread, any time, any number of times: waiting, prefilling or decoding ends within one
  // step; other requests go on.
  virtual void Cancel() = 0;
};

// One token and its bytes.
struct TokenPiece {
  std::int32_t id = 0;
  std::string bytes = {};  // only if the request wants pieces
};

// All methods may be called from several threads at once. The model names in requests are ids of
// Models().
class Backend {
 public:
  virtual ~Backend() = default;
  // Those that can be asked for, also while they are not loaded.
  virtual std::vector<ModelInfo> Models() = 0;
  // Tells the fingerprint of a model as it is when it is asked: from the first event of an answer
  // on, it is that of the model that answers. From any thread, also when the backend is gone.
  using FingerprintReader = std::function<std::string()>;
  virtual FingerprintReader ReadFingerprint(const std::string& id) {
    for (ModelInfo& model : Models()) {
      if (model.id == id) return [known = std::move(model.fingerprint)] { return known; };
    }
    return [] { return std::string(); };
  }

  // Starts to answer, and returns before the answer is complete or after. Everything that can be
  // known before is an error here, or OnError before any event: the context is too small
  // (ContextOverflow), the schema or grammar is wrong, a field asks for what the model lacks
  // (UnsupportedField: tools without a template for them, thinking without a channel, template
  // variables), token ids outside the vocabulary, the queue is full (QueueFull), the server is
  // loading or draining (Unavailable). If Start gives an error, sink is never called. Else sink
  // gets events, from any thread but one at a time, and OnDone or OnError last, also after Cancel.
  // Each choice ends with ChoiceEnd before OnDone.
  virtual ApiResult<std::shared_ptr<RunningRequest>> Start(GenerateRequest request,
                                                           std::shared_ptr<EventSink> sink) = 0;

  virtual ApiResult<std::vector<TokenPiece>> Tokenize(const TokenizeRequest& request) = 0;
  // Special tokens become their names.
  virtual ApiResult<std::string> Detokenize(const DetokenizeRequest& request) = 0;
  // The prompt text of a chat.
  virtual ApiResult<std::string> Render(const RenderRequest& request) = 0;
};

}  // namespace hone::serve::openai
