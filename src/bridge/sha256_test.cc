// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bridge/sha256.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace hone::bridge {
namespace {

TEST(Sha256, MatchesTheVectorsOfTheStandard) {
  EXPECT_EQ(Sha256Hex(AsBytes("")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex(AsBytes("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex(AsBytes("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Sha256Hex(AsBytes(std::string(1000000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PartsGiveTheSameDigestAsTheWhole) {
  std::string text;
  for (int i = 0; i < 300; ++i) text.push_back(static_cast<char>(i));
  const std::string whole = Sha256Hex(AsBytes(text));
  for (const std::size_t step : {1U, 7U, 63U, 64U, 65U}) {
    Sha256 hash;
    for (std::size_t at = 0; at < text.size(); at += step) {
      hash.Update(AsBytes(std::string_view(text).substr(at, step)));
    }
    EXPECT_EQ(hash.FinishHex(), whole) << "step " << step;
  }
}

TEST(Sha256, StartsAnewAfterFinishAndMoves) {
  Sha256 hash;
  hash.Update(AsBytes("something"));
  static_cast<void>(hash.FinishHex());
  Sha256 moved = std::move(hash);
  moved.Update(AsBytes("abc"));
  EXPECT_EQ(moved.FinishHex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace hone::bridge
