// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Held to what the gguf Python package decodes: tools/make_gguf_block_vectors.py.
#include "codec/gguf_blocks.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/file.h"
#include "base/json.h"
#include "codec/weight.h"

namespace hone::codec {
namespace {

std::vector<std::byte> FromHex(const std::string& text) {
  std::vector<std::byte> out(text.size() / 2);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<std::byte>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  return out;
}

class GgufBlocks : public ::testing::TestWithParam<Coding> {};

TEST_P(GgufBlocks, DecodeToTheBitsOfTheGgufPackage) {
  const CodingFacts& facts = Facts(GetParam());
  auto file = MappedFile::Open(HONE_TESTDATA "/gguf_blocks/vectors.json");
  ASSERT_TRUE(file.ok()) << file.message();
  const ByteSpan bytes = file->bytes();
  auto json = ParseJson({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  ASSERT_TRUE(json.ok()) << json.message();
  const Json* entry = json->Find(facts.name);
  ASSERT_NE(entry, nullptr) << facts.name;
  const auto codes = FromHex(entry->Find("bytes")->AsString());
  const auto want_bytes = FromHex(entry->Find("values")->AsString());
  std::vector<float> want(want_bytes.size() / 4);
  std::memcpy(want.data(), want_bytes.data(), want_bytes.size());

  // Two rows: the second must begin at its own blocks.
  const WeightView view{{GetParam(), 0}, 2, static_cast<std::int64_t>(want.size() / 2), codes, {}};
  ASSERT_TRUE(CheckView(view).ok());
  std::vector<float> got(want.size());
  DecodeRows(view, 0, 2, got.data());
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_EQ(got[i], want[i]) << facts.name << " " << i;
}

INSTANTIATE_TEST_SUITE_P(All, GgufBlocks,
                         ::testing::Values(Coding::kGgufQ5_0, Coding::kGgufQ5_1, Coding::kGgufQ2_K,
                                           Coding::kGgufQ3_K, Coding::kGgufQ4_K, Coding::kGgufQ5_K,
                                           Coding::kGgufQ6_K),
                         [](const auto& one) { return std::string(Facts(one.param).name); });

}  // namespace
}  // namespace hone::codec
