// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The two kinds of checkpoint. OpenCheckpoint picks one and adds what both need.
#pragma once

#include <string>

#include "base/status.h"
#include "model/checkpoint.h"

namespace hone::model {

// A Hugging Face folder: config.json, safetensors, tokenizer.
Result<Checkpoint> OpenHfFolder(const std::string& folder);
// A GGUF file.
Result<Checkpoint> OpenGguf(const std::string& path);

}  // namespace hone::model
