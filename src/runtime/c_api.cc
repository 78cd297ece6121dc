// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The C interface: checks arguments, copies options in and results out, keeps the last message.
#include <hone/hone.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "runtime/chat.h"
#include "runtime/decode_loop.h"
#include "runtime/engine.h"

struct hone_engine {
  std::unique_ptr<hone::runtime::Engine> engine;
  std::string message;
};

struct hone_sequence {
  hone_engine* owner = nullptr;
  std::unique_ptr<hone::runtime::Sequence> sequence;
  std::atomic<bool> cancel{false};
};

namespace hone::runtime {
namespace {

hone_status ToC(Code code) {
  switch (code) {
    case Code::kOk:
      return HONE_OK;
    case Code::kInvalidArgument:
      return HONE_INVALID_ARGUMENT;
    case Code::kNotFound:
      return HONE_NOT_FOUND;
    case Code::kDataLoss:
      return HONE_DATA_LOSS;
    case Code::kUnsupported:
      return HONE_UNSUPPORTED;
    case Code::kOutOfMemory:
      return HONE_OUT_OF_MEMORY;
    case Code::kDeadline:
      return HONE_DEADLINE;
    case Code::kCancelled:
      return HONE_CANCELLED;
    case Code::kIo:
      return HONE_IO;
    case Code::kInternal:
      break;
  }
  return HONE_INTERNAL;
}

// Runs work() -> Status for an engine handle: records the message, lets no exception out.
template <typename Work>
hone_status Guard(hone_engine* handle, const Work& work) {
  if (handle == nullptr) return HONE_INVALID_ARGUMENT;
  try {
    handle->message.clear();
    const Status status = work();
    handle->message = status.message();
    return ToC(status.code());
  } catch (const std::bad_alloc&) {
    // Short enough for the string's own buffer on every library in use, so it cannot throw again.
    handle->message = "out of memory";
    return HONE_OUT_OF_MEMORY;
  } catch (...) {
    handle->message = "internal error";
    return HONE_INTERNAL;
  }
}

template <typename Work>
hone_status GuardOpen(hone_engine* handle, const Work& work) {
  return Guard(handle, [&]() -> Status {
    if (handle->engine == nullptr) {
      return Status(Code::kInvalidArgument, "no model is open: call hone_engine_open first");
    }
    return work(*handle->engine);
  });
}

// The caller's struct over the defaults: fields that it does not have keep them.
template <typename T>
Status CopyOptions(const T* given, T* options) {
  if (given == nullptr) return Status();
  if (given->struct_size < sizeof(given->struct_size) || given->struct_size > 65536) {
    return Status(Code::kInvalidArgument, StrCat("struct_size is ", given->struct_size,
                                                 "; set the struct up with its _INIT macro"));
  }
  std::memcpy(options, given, std::min(given->struct_size, sizeof(T)));
  return Status();
}

template <typename T>
Status CopyOut(const T* items, std::size_t num_items, T* out, std::size_t capacity,
               std::size_t* count) {
  if (count == nullptr || (out == nullptr && capacity > 0)) {
    return Status(Code::kInvalidArgument, "the output or its count is NULL");
  }
  *count = num_items;
  const std::size_t copied = std::min(num_items, capacity);
  if (copied > 0) std::memcpy(out, items, copied * sizeof(T));
  return Status();
}

Result<const bridge::Tokenizer*> TokenizerOf(const Engine& engine) {
  if (engine.text().tokenizer) return &*engine.text().tokenizer;
  return Status(Code::kUnsupported, StrCat("no tokenizer: ", engine.text().tokenizer_error));
}

Status Open(hone_engine& handle, const char* path, const hone_engine_options* given) {
  if (path == nullptr) return Status(Code::kInvalidArgument, "path is NULL");
  if (handle.engine != nullptr) {
    return Status(Code::kInvalidArgument, "this engine has a model already; make another engine");
  }
  hone_engine_options options = HONE_ENGINE_OPTIONS_INIT;
  HONE_TRY(CopyOptions(given, &options));
  if (options.num_threads < 0 || options.num_threads > 1024 || options.compute < 0 ||
      options.compute > HONE_COMPUTE_Q8 || options.kv < 0 || options.kv > HONE_KV_INT8) {
    return Status(Code::kInvalidArgument, "an engine option is out of its range");
  }
  EngineOptions engine_options;
  engine_options.num_threads = options.num_threads;
  engine_options.compute = static_cast<ComputeChoice>(options.compute);
  engine_options.kv = static_cast<KvChoice>(options.kv);
  HONE_ASSIGN(handle.engine, Engine::Open(path, engine_options));
  return Status();
}

Status Render(const Engine& engine, const char* messages_json, const hone_render_options* given,
              std::string* text) {
  if (messages_json == nullptr) return Status(Code::kInvalidArgument, "messages_json is NULL");
  hone_render_options options = HONE_RENDER_OPTIONS_INIT;
  HONE_TRY(CopyOptions(given, &options));
  auto messages = ParseJson(messages_json);
  if (!messages.ok()) return std::move(messages).status().Context("messages_json");
  RenderOptions render;
  if (options.think == HONE_THINK_ON) render.think = Think::kOn;
  if (options.think == HONE_THINK_OFF) render.think = Think::kOff;
  render.add_generation_prompt = options.add_generation_prompt != 0;
  render.local_now = options.local_now;
  if (options.tools_json != nullptr) {
    auto tools = ParseJson(options.tools_json);
    if (!tools.ok()) return std::move(tools).status().Context("tools_json");
    render.tools = *std::move(tools);
  }
  HONE_ASSIGN(*text, RenderChat(engine.text(), *messages, render));
  return Status();
}

GenerateOptions MakeOptions(const hone_generate_options& from) {
  GenerateOptions options;
  options.max_tokens = std::max<std::int64_t>(from.max_tokens, 0);
  options.sampler.temperature = from.temperature;
  options.sampler.top_k = from.top_k;
  options.sampler.top_p = from.top_p;
  options.sampler.min_p = from.min_p;
  options.sampler.repetition_penalty = from.repetition_penalty;
  options.sampler.presence_penalty = from.presence_penalty;
  options.sampler.frequency_penalty = from.frequency_penalty;
  options.sampler.seed = from.seed;
  return options;
}

Status RunGenerate(Engine& engine, hone_sequence& sequence, std::span<const std::int32_t> prompt,
                   const hone_generate_options* given, hone_generation* result) {
  hone_generate_options from = HONE_GENERATE_OPTIONS_INIT;
  HONE_TRY(CopyOptions(given, &from));
  if (from.num_stop_strings > 0 && from.stop_strings == nullptr) {
    return Status(Code::kInvalidArgument, "stop_strings is NULL");
  }
  GenerateOptions options = MakeOptions(from);
  for (std::size_t i = 0; i < from.num_stop_strings; ++i) {
    if (from.stop_strings[i] != nullptr) options.stop_strings.emplace_back(from.stop_strings[i]);
  }
  options.cancel = &sequence.cancel;
  std::string certain;  // text since the last callback
  const auto call = [&](std::int32_t id) {
    if (from.callback == nullptr) return;
    if (from.callback(from.user, id, certain.data(), certain.size()) != 0) sequence.cancel = true;
    certain.clear();
  };
  options.on_text = [&](std::string_view text) { certain += text; };
  options.on_token = call;
  HONE_ASSIGN(const Generation answer, Generate(engine, *sequence.sequence, prompt, options));
  if (!certain.empty()) call(-1);
  if (result == nullptr) return Status();
  const hone_generation all = {result->struct_size,
                               static_cast<std::int32_t>(answer.finish),
                               static_cast<std::int64_t>(answer.ids.size()),
                               answer.timings.prefill_tokens,
                               answer.timings.decode_tokens,
                               answer.timings.prefill_seconds,
                               answer.timings.decode_seconds,
                               answer.timings.first_token_seconds};
  std::memcpy(result, &all, std::min(result->struct_size, sizeof(all)));
  return Status();
}

}  // namespace
}  // namespace hone::runtime

using hone::Code;
using hone::Status;
using hone::runtime::Engine;

extern "C" {

const char* hone_version(void) { return HONE_VERSION; }

hone_engine* hone_engine_new(void) { return new (std::nothrow) hone_engine; }

void hone_engine_free(hone_engine* engine) { delete engine; }

const char* hone_last_message(const hone_engine* engine) {
  return engine == nullptr ? "the engine is NULL" : engine->message.c_str();
}

hone_status hone_engine_open(hone_engine* engine, const char* path,
                             const hone_engine_options* options) {
  return hone::runtime::Guard(engine, [&] { return hone::runtime::Open(*engine, path, options); });
}

int64_t hone_context_size(const hone_engine* engine) {
  const bool open = engine != nullptr && engine->engine != nullptr;
  return open ? engine->engine->spec().max_positions : 0;
}

int64_t hone_vocabulary_size(const hone_engine* engine) {
  const bool open = engine != nullptr && engine->engine != nullptr;
  return open ? engine->engine->spec().vocab : 0;
}

hone_status hone_sequence_new(hone_engine* engine, hone_sequence** sequence) {
  return hone::runtime::GuardOpen(engine, [&](Engine& open) -> Status {
    if (sequence == nullptr) return Status(Code::kInvalidArgument, "sequence is NULL");
    *sequence = nullptr;
    auto handle = std::make_unique<hone_sequence>();
    handle->owner = engine;
    HONE_ASSIGN(handle->sequence, open.NewSequence());
    *sequence = handle.release();
    return Status();
  });
}

void hone_sequence_free(hone_sequence* sequence) { delete sequence; }

int64_t hone_sequence_size(const hone_sequence* sequence) {
  return sequence == nullptr ? 0 : sequence->sequence->size();
}

void hone_sequence_truncate(hone_sequence* sequence, int64_t position) {
  if (sequence != nullptr) sequence->sequence->Truncate(position);
}

void hone_cancel(hone_sequence* sequence) {
  if (sequence != nullptr) sequence->cancel = true;
}

hone_status hone_tokenize(hone_engine* engine, const char* text, size_t text_bytes, uint32_t flags,
                          int32_t* ids, size_t capacity, size_t* count) {
  return hone::runtime::GuardOpen(engine, [&](Engine& open) -> Status {
    if (text == nullptr && text_bytes > 0) return Status(Code::kInvalidArgument, "text is NULL");
    const std::string_view view(text, text_bytes);
    std::vector<std::int32_t> all;
    if ((flags & HONE_TOKENIZE_PROMPT) != 0) {
      HONE_ASSIGN(all, hone::runtime::EncodePrompt(open.text(), view));
    } else {
      HONE_ASSIGN(const auto* tokenizer, hone::runtime::TokenizerOf(open));
      HONE_ASSIGN(all, tokenizer->Encode(view, {(flags & HONE_TOKENIZE_BOS) != 0, true}));
    }
    return hone::runtime::CopyOut(all.data(), all.size(), ids, capacity, count);
  });
}

hone_status hone_detokenize(hone_engine* engine, const int32_t* ids, size_t num_ids,
                            int skip_special, char* text, size_t capacity, size_t* count) {
  return hone::runtime::GuardOpen(engine, [&](Engine& open) -> Status {
    if (ids == nullptr && num_ids > 0) return Status(Code::kInvalidArgument, "ids is NULL");
    HONE_ASSIGN(const auto* tokenizer, hone::runtime::TokenizerOf(open));
    HONE_ASSIGN(const std::string all, tokenizer->Decode({ids, num_ids}, skip_special != 0));
    return hone::runtime::CopyOut(all.data(), all.size(), text, capacity, count);
  });
}

hone_status hone_render_chat(hone_engine* engine, const char* messages_json,
                             const hone_render_options* options, char* text, size_t capacity,
                             size_t* count) {
  return hone::runtime::GuardOpen(engine, [&](Engine& open) -> Status {
    std::string all;
    HONE_TRY(hone::runtime::Render(open, messages_json, options, &all));
    return hone::runtime::CopyOut(all.data(), all.size(), text, capacity, count);
  });
}

hone_status hone_generate(hone_engine* engine, hone_sequence* sequence, const int32_t* prompt,
                          size_t num_prompt, const hone_generate_options* options,
                          hone_generation* result) {
  return hone::runtime::GuardOpen(engine, [&](Engine& open) -> Status {
    if (sequence == nullptr || sequence->owner != engine) {
      return Status(Code::kInvalidArgument, "the sequence is NULL or belongs to another engine");
    }
    if (prompt == nullptr && num_prompt > 0) {
      return Status(Code::kInvalidArgument, "prompt is NULL");
    }
    sequence->cancel = false;
    return hone::runtime::RunGenerate(open, *sequence, {prompt, num_prompt}, options, result);
  });
}

}  // extern "C"
