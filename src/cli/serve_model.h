// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Opens a model for the server.
#pragma once

#include "cli/serve_options.h"
#include "serve/model_facts.h"

namespace hone::cli {

// With the options of args, and what the entry says otherwise.
Result<serve::LoadedModel> OpenServedModel(const ServeArgs& args, const serve::ModelEntry& entry);

}  // namespace hone::cli
