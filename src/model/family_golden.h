// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Test support: the tiny checkpoints under tests/testdata/families with what transformers computes
// for them (made by tools/update_golden.py).
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/status.h"
#include "formats/npy.h"

namespace hone::model {

struct GoldenPrompt {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> argmax;      // the best id at every position
  std::vector<std::size_t> positions;    // whose logits are kept
  std::vector<std::vector<float>> rows;  // their logits, [positions.size()][vocab]
};

struct FamilyGolden {
  std::string name;
  std::string folder;  // config.json, model.safetensors, tokenizer.json: OpenCheckpoint reads it
  std::vector<GoldenPrompt> prompts;
};

// The names of all cases, sorted. families is HONE_TESTDATA "/families".
inline std::vector<std::string> FamilyCases(const std::string& families) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(families, error)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline Result<FamilyGolden> LoadFamilyGolden(const std::string& families, const std::string& name) {
  FamilyGolden out;
  out.name = name;
  out.folder = families + "/" + name;
  HONE_ASSIGN(const std::string text, ReadFile(out.folder + "/golden.json"));
  HONE_ASSIGN(const Json golden, ParseJson(text));
  HONE_ASSIGN(const std::string npy, ReadFile(out.folder + "/logits.npy"));
  HONE_ASSIGN(const formats::NpyArray logits, formats::ParseNpy(AsBytes(npy)));
  const auto vocab = static_cast<std::size_t>(logits.shape.back());
  auto row = logits.data.begin();
  for (const Json& json : golden.Find("prompts")->AsArray()) {
    GoldenPrompt prompt;
    for (const Json& id : json.Find("ids")->AsArray()) {
      prompt.ids.push_back(static_cast<std::int32_t>(id.AsInt()));
    }
    for (const Json& id : json.Find("argmax")->AsArray()) {
      prompt.argmax.push_back(static_cast<std::int32_t>(id.AsInt()));
    }
    for (const Json& position : json.Find("positions")->AsArray()) {
      if (static_cast<std::size_t>(logits.data.end() - row) < vocab) {
        return Status(Code::kDataLoss, out.folder + ": logits.npy has too few rows");
      }
      prompt.positions.push_back(static_cast<std::size_t>(position.AsInt()));
      prompt.rows.emplace_back(row, row + static_cast<std::ptrdiff_t>(vocab));
      row += static_cast<std::ptrdiff_t>(vocab);
    }
    out.prompts.push_back(std::move(prompt));
  }
  return out;
}

}  // namespace hone::model
