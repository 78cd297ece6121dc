// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Conversations and histories of hone run: what is taken comes back as it was.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "cli/chat_file.h"
#include "cli/line_history.h"
#include "cli/utf8_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto messages = hone::cli::ParseMessages(text);
  if (messages.ok()) {
    const auto again = hone::cli::ParseMessages(hone::cli::MessagesText(*messages));
    HONE_CHECK(again.ok() && hone::Json(*again).Dump() == hone::Json(*messages).Dump());
  }
  const std::vector<std::string> history = hone::cli::ParseHistory(text);
  std::string lines;
  for (const std::string& message : history) lines += hone::cli::HistoryLine(message);
  // Doubled backslashes may take the oldest over the bounds.
  const std::vector<std::string> again = hone::cli::ParseHistory(lines);
  HONE_CHECK(again.size() <= history.size());
  for (std::size_t i = 0; i < again.size(); ++i) {
    HONE_CHECK(again[again.size() - 1 - i] == history[history.size() - 1 - i]);
  }
  HONE_CHECK(hone::cli::ToWide(hone::cli::FromWide(hone::cli::ToWide(text))) ==
             hone::cli::ToWide(text));
  return 0;
}
