// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The tensors of a folder: one file, or shards with an index.
#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>

#include "base/json.h"
#include "formats/foreign_file.h"
#include "formats/safetensors/safetensors.h"

namespace hone::formats {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// Says what kind of weights the folder has instead.
Status NothingToRead(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> pickles;
  std::vector<std::string> others;
  bool is_adapter = false;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const std::string extension = it->path().extension().string();
    if (name.starts_with("adapter_model.") || name == "adapter_config.json") is_adapter = true;
    if (extension == ".bin" || extension == ".pt" || extension == ".pth" || extension == ".ckpt") {
      pickles.push_back(name);
    } else if (extension == ".safetensors" || extension == ".gguf" || extension == ".h5" ||
               extension == ".msgpack") {
      others.push_back(name);
    }
  }
  std::sort(pickles.begin(), pickles.end());
  std::sort(others.begin(), others.end());
  std::string message = StrCat(folder, ": neither ", kSingle, " nor ", kIndex, " is here");
  if (is_adapter) {
    message += "; this looks like a LoRA adapter: merge it into its base model first";
  } else if (!others.empty()) {
    const std::string& first = others.front();
    message += StrCat("; found ", Quote(first));
    if (first.ends_with(".gguf")) {
      message += ": give that file itself";
    } else if (!first.ends_with(".safetensors")) {
      message += ": convert it to safetensors first";
    } else if (first.find("-of-") != std::string::npos) {
      message += StrCat(", a shard: download ", kIndex, ", too");
    } else {
      message += StrCat(": if it holds the weights under Hugging Face's names, call it ", kSingle);
    }
  } else if (!pickles.empty()) {
    message += StrCat("; only pickle weights were found (", Quote(pickles.front()),
                      "): convert them to safetensors first");
  }
  return Status(Code::kNotFound, std::move(message));
}

// A shard's path, normalized, if it stays inside the folder.
Result<std::string> CheckShardName(const std::string& name) {
  const fs::path path = fs::path(name).lexically_normal();
  const bool odd =
      name.empty() || name.find('\\') != std::string::npos || name.find('\0') != std::string::npos;
  if (odd || path.is_absolute() || path == "." || path.filename().empty() ||
      *path.begin() == "..") {
    return Status(Code::kDataLoss, StrCat("weight_map: the shard path ", Quote(name),
                                          " leads outside the folder or names no file"));
  }
  return path.string();
}

using WeightMap = std::map<std::string, std::string, std::less<>>;  // tensor -> shard

Result<WeightMap> ReadIndex(const std::string& path) {
  HONE_ASSIGN(const MappedFile file, MappedFile::Open(path));
  if (const std::string what = DescribeForeignFile(file.bytes()); !what.empty()) {
    return Status(Code::kDataLoss, StrCat(path, ": ", what));
  }
  auto json = ParseJson(AsText(file.bytes()));
  if (!json.ok()) return std::move(json).status().Context(path);
  const Json* map = json->Find("weight_map");
  if (map == nullptr || !map->IsObject()) {
    return Status(Code::kDataLoss,
                  StrCat(path, ": \"weight_map\" is ", map == nullptr ? "missing" : map->TypeName(),
                         ", expected an object of tensor names to shard files"));
  }
  WeightMap out;
  for (const auto& [tensor, shard] : map->AsObject()) {
    if (!shard.IsString()) {
      return Status(Code::kDataLoss, StrCat(path, ": weight_map: tensor ", Quote(tensor), " is ",
                                            shard.TypeName(), ", expected a shard file"));
    }
    auto name = CheckShardName(shard.AsString());
    if (!name.ok()) return std::move(name).status().Context(path);
    out.emplace(tensor, *std::move(name));
  }
  if (out.empty()) return Status(Code::kDataLoss, StrCat(path, ": weight_map is empty"));
  return out;
}

Status AddFile(const std::string& path, SafetensorsCheckpoint& checkpoint) {
  HONE_ASSIGN(MappedFile mapped, MappedFile::Open(path));
  const auto file = std::make_shared<const MappedFile>(std::move(mapped));
  auto tensors = ParseSafetensors(file->bytes());
  if (!tensors.ok()) return std::move(tensors).status().Context(path);
  for (SafetensorsTensor& tensor : *tensors) {
    tensor.file = checkpoint.files.size();
    checkpoint.tensors.push_back(std::move(tensor));
  }
  checkpoint.files.push_back(file);
  return Status();
}

// Keeps one tensor per name (the one where the index says, if two shards have it) and warns about
// tensors that are elsewhere than the index says. shards[i] is the name of file i.
Status Reconcile(const std::string& index_path, const WeightMap& index,
                 const std::vector<std::string>& shards, SafetensorsCheckpoint& checkpoint) {
  std::vector<SafetensorsTensor> kept;
  for (SafetensorsTensor& tensor : checkpoint.tensors) {
    const auto said = index.find(tensor.name);
    const std::string& here = shards[tensor.file];
    if (!kept.empty() && kept.back().name == tensor.name) {
      SafetensorsTensor& other = kept.back();
      const std::string& there = shards[other.file];
      if (said == index.end() || (said->second != here && said->second != there)) {
        return Status(Code::kDataLoss,
                      StrCat("tensor ", Quote(tensor.name), " is in two shards, ", Quote(there),
                             " and ", Quote(here), ", and ", index_path, " does not say which"));
      }
      if (said->second == here) other = std::move(tensor);
      checkpoint.warnings.push_back(StrCat("tensor ", Quote(kept.back().name),
                                           " is in more than one shard; the one in ",
                                           Quote(said->second), " is used, as the index says"));
      continue;
    }
    kept.push_back(std::move(tensor));
  }
  for (const SafetensorsTensor& tensor : kept) {
    const auto said = index.find(tensor.name);
    const std::string& here = shards[tensor.file];
    if (said == index.end()) {
      checkpoint.warnings.push_back(
          StrCat("tensor ", Quote(tensor.name), " of ", Quote(here), " is not in the index"));
    } else if (said->second != here) {
      checkpoint.warnings.push_back(StrCat("tensor ", Quote(tensor.name), " is in ", Quote(here),
                                           ", the index says ", Quote(said->second)));
    }
  }
  checkpoint.tensors = std::move(kept);
  for (const auto& [name, shard] : index) {
    if (checkpoint.Find(name) == nullptr) {
      return Status(Code::kDataLoss, StrCat(index_path, ": tensor ", Quote(name), " should be in ",
                                            Quote(shard), ", but no shard has it"));
    }
  }
  return Status();
}

Status OpenShards(const std::string& folder, SafetensorsCheckpoint& checkpoint) {
  const std::string index_path = JoinPath(folder, kIndex);
  HONE_ASSIGN(const WeightMap index, ReadIndex(index_path));
  std::vector<std::string> shards;
  for (const auto& [tensor, shard] : index) shards.push_back(shard);
  std::sort(shards.begin(), shards.end());
  shards.erase(std::unique(shards.begin(), shards.end()), shards.end());
  for (const std::string& shard : shards) {
    const std::string path = JoinPath(folder, shard);
    if (!FileExists(path)) {
      return Status(Code::kNotFound, StrCat(path, ": ", kIndex,
                                            " names this shard, but it is not here; download it"));
    }
    HONE_TRY(AddFile(path, checkpoint));
  }
  std::stable_sort(checkpoint.tensors.begin(), checkpoint.tensors.end(),
                   [](const auto& a, const auto& b) { return a.name < b.name; });
  return Reconcile(index_path, index, shards, checkpoint);
}

}  // namespace

const SafetensorsTensor* SafetensorsCheckpoint::Find(std::string_view name) const {
  const auto it = std::lower_bound(tensors.begin(), tensors.end(), name,
                                   [](const auto& t, std::string_view n) { return t.name < n; });
  return it == tensors.end() || it->name != name ? nullptr : &*it;
}

Result<SafetensorsCheckpoint> OpenSafetensors(const std::string& folder) {
  SafetensorsCheckpoint checkpoint;
  const std::string single = JoinPath(folder, kSingle);
  const bool has_index = FileExists(JoinPath(folder, kIndex));
  if (FileExists(single)) {
    HONE_TRY(AddFile(single, checkpoint));
    if (has_index) {
      checkpoint.warnings.push_back(
          StrCat(folder, ": ", kSingle, " and ", kIndex, " are both here; the index is ignored"));
    }
    std::sort(checkpoint.tensors.begin(), checkpoint.tensors.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
  } else if (has_index) {
    HONE_TRY(OpenShards(folder, checkpoint));
  } else {
    return NothingToRead(folder);
  }
  if (checkpoint.tensors.empty()) {
    return Status(Code::kDataLoss, StrCat(single, ": the safetensors header lists no tensor"));
  }
  return checkpoint;
}

}  // namespace hone::formats
