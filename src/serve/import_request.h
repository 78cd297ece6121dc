// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Reads POST /models/import, with which the page adds a model of the server's disk.
#pragma once

#include <string>
#include <vector>

#include "serve/http_types.h"
#include "serve/model_facts.h"
#include "serve/openai/api_error.h"

namespace hone::serve {

struct ImportWish {
  ModelEntry entry;
  std::vector<std::string> warnings;
};

// 403: imports are not allowed, or the client is on another machine. 400: a field is wrong, or path
// is neither a folder nor named as a model: other files are not opened, so that errors cannot tell
// what is in them.
openai::ApiResult<ImportWish> CheckImport(const Request& request, bool allowed);

// "127.0.0.1:53218" and "[::1]:53218" are clients on this machine.
bool IsLocalClient(const std::string& remote);

}  // namespace hone::serve
