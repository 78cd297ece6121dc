// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What conversations need to know about a loaded model.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "bridge/grammar.h"
#include "chat/text_trie.h"
#include "chat/tool_family.h"
#include "runtime/engine.h"

namespace hone::chat {

// Made once for a model. Every method is const and may be called from any thread.
class ChatModel {
 public:
  // The engine must outlive it. tool_family: the name that a bundle stores; "" or unknown: what
  // the template's source shows.
  explicit ChatModel(const runtime::Engine& engine, std::string_view tool_family = "");
  ChatModel(const ChatModel&) = delete;
  ChatModel& operator=(const ChatModel&) = delete;

  const runtime::TextSetup& text() const { return text_; }
  std::int64_t vocab() const { return vocab_; }         // logits of a step
  std::int64_t context() const { return context_; }     // most tokens of a sequence
  const ToolFamily* family() const { return family_; }  // null: calls cannot be read

  bool has_template() const { return text_.chat_template.has_value(); }
  bool uses_tools() const { return uses_tools_; }  // the template shows tools to the model
  // The model has a thinking channel with marks around it.
  bool has_thinking() const { return !text_.think_start.empty() && !text_.think_end.empty(); }
  // The template writes another prompt for enable_thinking false than for true.
  bool template_switches_thinking() const { return template_switches_thinking_; }
  // The single tokens of the marks; absent if a mark is several tokens.
  std::optional<std::int32_t> think_start_id() const { return think_start_id_; }
  std::optional<std::int32_t> think_end_id() const { return think_end_id_; }
  // A control token without which the channel cannot be opened, or think_start_id.
  std::optional<std::int32_t> think_key_id() const { return think_key_id_; }
  // The tokens that close the channel.
  const std::vector<std::int32_t>& think_end_ids() const { return think_end_ids_; }

  // The id of a marker that the tokenizer has as a special token; nothing for ordinary text.
  std::optional<std::int32_t> SpecialId(std::string_view marker) const;
  // Special tokens whose text the reader of an answer must see: the marks of the thinking, and with
  // tools those of the calls.
  const std::set<std::int32_t>& shown_ids(bool with_tools) const {
    return with_tools ? tool_shown_ids_ : think_shown_ids_;
  }
  // The texts of tokens that only a template may make: special tokens and stop tokens. A model
  // writes some of them itself in an answer: the marks of its thinking and of calls.
  enum ControlKind : unsigned { kControl = 1, kAnswerMark = 2 };
  const TextTrie& control_texts() const { return control_texts_; }
  bool IsStop(std::int32_t id) const { return stop_ids_.contains(id); }

  // Made on the first call, which takes some tenths of a second; then the same one.
  Result<bridge::Vocabulary> vocabulary() const;

 private:
  void FindMarkers();
  bool IsAnswerMark(std::string_view text) const;
  void ProbeTemplate();

  const runtime::Engine& engine_;
  const runtime::TextSetup& text_;
  std::int64_t vocab_;
  std::int64_t context_;
  const ToolFamily* family_ = nullptr;
  bool uses_tools_ = false;
  bool template_switches_thinking_ = false;
  std::optional<std::int32_t> think_start_id_, think_end_id_, think_key_id_;
  std::vector<std::int32_t> think_end_ids_;
  std::set<std::int32_t> think_shown_ids_, tool_shown_ids_;
  TextTrie control_texts_;
  std::set<std::int32_t> stop_ids_;
  mutable std::mutex mutex_;  // guards vocabulary_
  mutable std::optional<bridge::Vocabulary> vocabulary_;
};

}  // namespace hone::chat
