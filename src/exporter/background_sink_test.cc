// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "exporter/background_sink.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace hone::exporter {
namespace {

std::vector<std::byte> Part(std::size_t size, int value) {
  return std::vector<std::byte>(size, static_cast<std::byte>(value));
}

TEST(BackgroundSink, HandsOverEverythingInOrder) {
  for (const bool background : {false, true}) {
    std::vector<std::byte> got;
    const Sink sink = [&](ByteSpan bytes) {
      got.insert(got.end(), bytes.begin(), bytes.end());
      return Status();
    };
    std::vector<std::byte> expected;
    BackgroundSink out(sink, background);
    for (int i = 0; i < 300; ++i) {
      const auto part = Part(static_cast<std::size_t>(i * 37 % 1000), i % 251);
      expected.insert(expected.end(), part.begin(), part.end());
      ASSERT_TRUE(out.Append(part).ok());
    }
    ASSERT_TRUE(out.Finish().ok());
    EXPECT_EQ(got, expected);
  }
}

TEST(BackgroundSink, GivesTheSinksErrorAndThenHandsOverNothing) {
  for (const bool background : {false, true}) {
    std::atomic<int> calls = 0;
    const Sink sink = [&](ByteSpan) {
      return ++calls == 3 ? Status(Code::kIo, "disk full") : Status();
    };
    BackgroundSink out(sink, background);
    Status status;
    for (int i = 0; i < 100 && status.ok(); ++i) status = out.Append(Part(8 << 20, 1));
    if (status.ok()) status = out.Finish();
    EXPECT_EQ(status.code(), Code::kIo);
    EXPECT_EQ(calls, 3);
  }
}

TEST(BackgroundSink, ForgetsWhatWaitsWhenItIsDestroyed) {
  std::atomic<int> calls = 0;
  const Sink sink = [&](ByteSpan) {
    ++calls;
    return Status();
  };
  {
    BackgroundSink out(sink, true);
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(out.Append(Part(16, 1)).ok());
  }
  EXPECT_LE(calls, 5);
}

}  // namespace
}  // namespace hone::exporter
