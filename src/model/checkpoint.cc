// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "model/checkpoint.h"

#include "base/file.h"
#include "model/source.h"

namespace hone::model {
namespace {

Result<Checkpoint> Open(const std::string& path) {
  if (IsDirectory(path)) return OpenHfFolder(path);
  if (!FileExists(path)) {
    return Status(Code::kNotFound, StrCat(path, ": no such file or folder"));
  }
  if (path.ends_with(".safetensors") || path.ends_with(".json")) {
    return Status(Code::kUnsupported,
                  StrCat(path, ": give the folder that holds config.json and the weights"));
  }
  if (path.ends_with(".bin") || path.ends_with(".pt") || path.ends_with(".pth")) {
    return Status(Code::kUnsupported,
                  StrCat(path,
                         ": pickle weights are never opened; convert them to safetensors "
                         "first and give the folder"));
  }
  if (path.ends_with(".litertlm") || path.ends_with(".tflite")) {
    return Status(Code::kUnsupported,
                  StrCat(path, ": this is a converted model, not a checkpoint"));
  }
  return OpenGguf(path);
}

// Every id that the tokenizer can produce needs a row in the embedding.
Status CheckVocabulary(const Checkpoint& checkpoint) {
  const std::int64_t num_ids = checkpoint.text.num_ids;
  if (num_ids > checkpoint.model.spec.vocab) {
    return Status(Code::kDataLoss,
                  StrCat("the tokenizer has ", num_ids, " ids but the embedding has ",
                         checkpoint.model.spec.vocab,
                         " rows (vocab_size); resize the embedding or take the tokenizer that "
                         "belongs to it"));
  }
  return Status();
}

}  // namespace

Result<Checkpoint> OpenCheckpoint(const std::string& path) {
  HONE_ASSIGN(Checkpoint checkpoint, Open(path));
  if (Status status = CheckVocabulary(checkpoint); !status.ok()) {
    return std::move(status).Context(path);
  }
  return checkpoint;
}

}  // namespace hone::model
