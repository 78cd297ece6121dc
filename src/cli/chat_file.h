// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Conversations as JSON messages: [{"role": ..., "content": ...}, ...].
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace hone::cli {

// The messages in a JSON text: an array, or an object with such an array as "messages". A message
// is an object with a role (system, user or assistant; system only in front) and a content, both
// texts; that of an assistant may have the text reasoning_content. kDataLoss says which message is
// damaged and how.
Result<Json::Array> ParseMessages(std::string_view text);

// The messages as such a text, one member a line.
std::string MessagesText(const Json::Array& messages);

// Writes them to a file, whole or not at all. An existing file is replaced only if it is such a
// text. model is the model's file, which is never replaced.
Status SaveMessages(const Json::Array& messages, const std::string& path, const std::string& model);
Result<Json::Array> LoadMessages(const std::string& path);

// A name as a person types it: ~/ in front is the user's folder, and quotes around it are left out.
std::string TypedPath(std::string_view word);

}  // namespace hone::cli
