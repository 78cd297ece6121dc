// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/repair_scales.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/float16.h"
#include "bundle/check_scales.h"

namespace hone::bundle {
namespace {

namespace tflite = formats::tflite;

constexpr std::uint16_t kSmallestNormal = 0x0400;  // 2^-14
constexpr int kMaxCode = 7;

std::uint16_t HalfAt(ByteSpan scales, std::uint64_t index) {
  std::uint16_t half = 0;
  std::memcpy(&half, scales.data() + 2 * index, sizeof(half));
  return half;
}

bool IsNormal(std::uint16_t half) { return half >= 0x0400 && half < 0x7c00; }
// Zero (of either sign) or a positive subnormal.
bool IsRepairable(std::uint16_t half) { return half < 0x0400 || half == 0x8000; }

// The smallest positive normal scale; positive halves are ordered like their bits.
std::uint16_t SmallestNormal(ByteSpan scales) {
  std::uint16_t smallest = 0x7c00;
  for (std::uint64_t i = 0; i < scales.size() / 2; ++i) {
    const std::uint16_t half = HalfAt(scales, i);
    if (IsNormal(half)) smallest = std::min(smallest, half);
  }
  return smallest == 0x7c00 ? kSmallestNormal : smallest;
}

int CodeAt(const std::byte* codes, std::uint64_t index) {
  const auto byte = static_cast<unsigned>(codes[index / 2]);
  const unsigned nibble = index % 2 == 0 ? byte & 15U : byte >> 4;
  return nibble >= 8 ? static_cast<int>(nibble) - 16 : static_cast<int>(nibble);
}

// The int4 codes of one block under a new scale; empty if they stay.
std::vector<std::byte> Recode(ByteSpan codes, std::uint64_t first, std::uint64_t block, float from,
                              float to) {
  std::vector<std::byte> out(block / 2);
  std::memcpy(out.data(), codes.data() + first / 2, out.size());
  bool same = true;
  for (std::uint64_t i = 0; i < block; ++i) {
    const int old = CodeAt(codes.data(), first + i);
    const float value = static_cast<float>(old) * from;
    const int code = std::clamp(static_cast<int>(std::nearbyint(value / to)), -kMaxCode, kMaxCode);
    if (code == old) continue;
    same = false;
    const auto nibble = static_cast<unsigned>(code) & 15U;
    const auto byte = static_cast<unsigned>(out[i / 2]);
    out[i / 2] = static_cast<std::byte>(i % 2 == 0 ? (byte & 0xf0U) | nibble
                                                   : (byte & 0x0fU) | (nibble << 4));
  }
  if (same) out.clear();
  return out;
}

// The offset of part in whole, which it is a piece of.
std::uint64_t Offset(ByteSpan whole, const std::byte* part) {
  return static_cast<std::uint64_t>(part - whole.data());
}

}  // namespace

Status PlanScales(const tflite::Model& model, ByteSpan file, const std::string& section,
                  std::vector<Patch>& patches, RepairReport& report) {
  for (const ScalesOf& of : FindScales(model)) {
    if (of.half.empty()) continue;
    const tflite::Tensor& tensor = model.subgraphs[of.graph].tensors[of.tensor];
    const ByteSpan codes = model.buffers[tensor.buffer].data;
    RepairedTensor repaired;
    repaired.where = StrCat(section, " ", of.where);
    const std::uint16_t replacement = SmallestNormal(of.half);
    repaired.scale = Fp16ToFloat(replacement);
    const auto block = static_cast<std::uint64_t>(of.block);
    for (std::uint64_t i = 0; i < of.half.size() / 2; ++i) {
      const std::uint16_t half = HalfAt(of.half, i);
      if (!IsRepairable(half)) continue;
      if (tensor.type != tflite::TensorType::kInt4 || block % 2 != 0) {
        return Status(Code::kUnsupported,
                      StrCat(repaired.where, ": ", tflite::TensorTypeName(tensor.type),
                             " in blocks of ", block, "; only int4 in even blocks is repaired"));
      }
      const float from = Fp16ToFloat(half);
      from == 0 ? ++repaired.zero : ++repaired.subnormal;
      Patch patch{Offset(file, of.half.data() + 2 * i), std::vector<std::byte>(2)};
      std::memcpy(patch.bytes.data(), &replacement, sizeof(replacement));
      patches.push_back(std::move(patch));
      std::vector<std::byte> recoded = Recode(codes, i * block, block, from, repaired.scale);
      if (recoded.empty()) continue;
      ++repaired.recoded_blocks;
      patches.push_back({Offset(file, codes.data() + i * block / 2), std::move(recoded)});
    }
    if (repaired.zero + repaired.subnormal == 0) continue;
    report.scales_changed += repaired.zero + repaired.subnormal;
    report.tensors.push_back(std::move(repaired));
  }
  return {};
}

}  // namespace hone::bundle
