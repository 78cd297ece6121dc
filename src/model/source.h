// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The two kinds of checkpoint. OpenCheckpoint picks one and adds what both need.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "formats/gguf/gguf.h"
#include "model/checkpoint.h"

namespace hone::model {

// A Hugging Face folder: config.json, safetensors, tokenizer.
Result<Checkpoint> OpenHfFolder(const std::string& folder);
// A GGUF file.
Result<Checkpoint> OpenGguf(const std::string& path);
// The same of a file that is already parsed; the result keeps it. For fuzzing too.
Result<Checkpoint> ReadGguf(std::shared_ptr<const formats::GgufFile> file);

}  // namespace hone::model
