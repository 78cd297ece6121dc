// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Where the hub is, who asks, and where downloads live: from the environment, by the rules that
// Python's huggingface_hub follows, so that both share one cache.
#pragma once

#include <string>

#include "base/status.h"

namespace hone::hub {

struct Settings {
  std::string endpoint = "https://huggingface.co";  // no '/' at the end
  std::string token;                                // "" for none
  std::string token_source;                         // for messages: HF_TOKEN, a file, --token
  std::string cache;                                // the folder with models--ORG--NAME
  bool offline = false;
  int stall_seconds = 30;  // a transfer without a byte for this long is cut and tried again
  std::string ca_file;     // certificates that are trusted, "" for the system's
};

Result<Settings> ReadSettings();

// A token as it may stand in a header, without white space around it; refuses what cannot be one.
Result<std::string> CheckToken(std::string_view text, std::string_view source);

}  // namespace hone::hub
