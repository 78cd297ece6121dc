// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "model/decoder_spec.h"

#include <gtest/gtest.h>

#include <set>

namespace hone::model {
namespace {

constexpr int kNumRoles = static_cast<int>(Role::kDownBias) + 1;

DecoderSpec SmallSpec() {
  DecoderSpec spec;
  spec.hidden = 24;
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 8;
  spec.ffn = 40;
  spec.vocab = 100;
  return spec;
}

TEST(Role, EveryRoleHasItsOwnNameAndWeight) {
  DecoderModel model;
  model.layers.resize(2);
  std::set<std::string> names;
  std::set<const Weight*> weights;
  for (int i = 0; i < kNumRoles; ++i) {
    const auto role = static_cast<Role>(i);
    names.insert(RoleName(role));
    weights.insert(&GetWeight(model, role, 1));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kNumRoles));
  EXPECT_EQ(weights.size(), static_cast<std::size_t>(kNumRoles));
  EXPECT_EQ(&GetWeight(model, Role::kDown, 1), &model.layers[1].down);
  EXPECT_EQ(&GetWeight(model, Role::kHead, 1), &model.head);
}

TEST(Role, OnlyLinearsEmbeddingAndHeadAreQuantizable) {
  int count = 0;
  for (int i = 0; i < kNumRoles; ++i) count += IsQuantizable(static_cast<Role>(i)) ? 1 : 0;
  EXPECT_EQ(count, 9);
  EXPECT_FALSE(IsQuantizable(Role::kInputNorm));
  EXPECT_FALSE(IsQuantizable(Role::kQBias));
}

TEST(Role, ShapesFollowTheDimensions) {
  const DecoderSpec spec = SmallSpec();
  const auto expect = [&](Role role, std::int64_t rows, std::int64_t cols) {
    const Shape shape = RoleShape(spec, role);
    EXPECT_EQ(shape.rows, rows) << RoleName(role);
    EXPECT_EQ(shape.cols, cols) << RoleName(role);
  };
  expect(Role::kEmbedding, 100, 24);
  expect(Role::kQ, 32, 24);
  expect(Role::kK, 16, 24);
  expect(Role::kO, 24, 32);
  expect(Role::kGate, 40, 24);
  expect(Role::kDown, 24, 40);
  expect(Role::kFinalNorm, 1, 24);
  expect(Role::kQBias, 1, 32);
  expect(Role::kVBias, 1, 16);
  expect(Role::kDownBias, 1, 24);
}

// A weight of 2 heads of 4 rows, one column, whose value is the row in which it is stored.
TEST(ReadRows, PutsInterleavedRowsInOrder) {
  const std::vector<float> stored = {0, 1, 2, 3, 4, 5, 6, 7};
  Weight weight;
  weight.view = {{codec::Coding::kF32, 0}, 8, 1, std::as_bytes(std::span(stored)), {}};
  EXPECT_EQ(ReadAll(weight), stored);
  weight.interleaved_head_dim = 4;
  const std::vector<float> ordered = {0, 2, 1, 3, 4, 6, 5, 7};
  EXPECT_EQ(ReadAll(weight), ordered);
  std::vector<float> part(3);
  ReadRows(weight, 5, 3, part.data());
  EXPECT_EQ(part, (std::vector<float>{6, 5, 7}));
}

}  // namespace
}  // namespace hone::model
