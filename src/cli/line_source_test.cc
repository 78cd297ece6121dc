// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/line_source.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

namespace hone::cli {
namespace {

class Pipe : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::pipe2(ends_.data(), O_CLOEXEC), 0); }
  void TearDown() override {
    ::close(ends_[0]);
    Close();
  }
  void Write(std::string_view text) {
    EXPECT_EQ(::write(ends_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void Close() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }

  std::array<int, 2> ends_{-1, -1};
  std::atomic<bool> cancel_{false};
};

TEST_F(Pipe, GivesOneLineAfterTheOther) {
  PlainLines lines(ends_[0], /*is_terminal=*/false, /*prompts=*/false, &cancel_);
  Write("a\n\nb\r\nc");
  Close();
  for (const char* expected : {"a", "", "b\r", "c"}) {
    const LineRead read = lines.Read("> ", "");
    EXPECT_EQ(read.event, LineEvent::kLine);
    EXPECT_EQ(read.text, expected);
  }
  EXPECT_EQ(lines.Read("> ", "").event, LineEvent::kEnd);
  EXPECT_EQ(lines.Read("> ", "").event, LineEvent::kEnd);
}

TEST_F(Pipe, TakesWhatWaitsInATerminalAsOne) {
  PlainLines lines(ends_[0], /*is_terminal=*/true, /*prompts=*/false, &cancel_);
  Write("a\nb\n\nc\n");
  EXPECT_EQ(lines.Read("> ", "").text, "a\nb\n\nc");
  Write("d\n");
  EXPECT_EQ(lines.Read("> ", "").text, "d");
}

TEST_F(Pipe, EndsAWaitWithTheFlag) {
  PlainLines lines(ends_[0], /*is_terminal=*/true, /*prompts=*/false, &cancel_);
  Write("half");
  cancel_ = true;
  EXPECT_EQ(lines.Read("> ", "").event, LineEvent::kInterrupted);
  cancel_ = false;
  Close();
  EXPECT_EQ(lines.Read("> ", "").text, "half");
}

TEST_F(Pipe, LooksAtTheFlagAlsoIfALineIsThere) {
  PlainLines lines(ends_[0], /*is_terminal=*/false, /*prompts=*/false, &cancel_);
  Write("a\nb\n");
  EXPECT_EQ(lines.Read("> ", "").text, "a");
  cancel_ = true;
  EXPECT_EQ(lines.Read("> ", "").event, LineEvent::kInterrupted);
}

TEST_F(Pipe, WaitsNoLongerThanAsked) {
  InputBytes input(ends_[0], nullptr);
  EXPECT_EQ(input.Wait(5), InputBytes::State::kNothingYet);
  Write("x");
  EXPECT_EQ(input.Wait(5), InputBytes::State::kData);
  EXPECT_EQ(input.pending(), "x");
}

}  // namespace
}  // namespace hone::cli
