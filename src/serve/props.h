// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The content of /props: what the server and its models are.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "serve/http_types.h"
#include "serve/model_registry.h"
#include "serve/openai/field_reader.h"

namespace hone::serve {

struct ServerFacts {
  std::string version, status;
  bool page = false, allow_import = false, lenient = false, needs_key = false;
  HttpLimits http;
  openai::ReadOptions read;
  Json more;  // null, or an object whose members are added
};

// docs/api.md lists the members.
Json PropsJson(const ServerFacts& server, const std::vector<ModelReport>& models);

}  // namespace hone::serve
