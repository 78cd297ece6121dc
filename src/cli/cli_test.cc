// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/cli.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/progress.h"
#include "cli/subprocess.h"

namespace hone::cli {
namespace {

TEST(ProgressLine, ShowsPercentAndTimeLeft) {
  EXPECT_EQ(ProgressLine("Converting", 0, 100, 0.0, "", 80), "Converting 0%");
  EXPECT_EQ(ProgressLine("Converting", 25, 100, 10.0, "layer 3 gate", 80),
            "Converting 25% 30 s left (layer 3 gate)");
  EXPECT_EQ(ProgressLine("Converting", 1, 100, 10.0, "", 80), "Converting 1% 16 min 30 s left");
  EXPECT_EQ(ProgressLine("Converting", 1, 100, 1000.0, "", 80), "Converting 1% 27 h 30 min left");
  EXPECT_EQ(ProgressLine("Converting", 1, 10000, 10.0, "", 80), "Converting 0%");
}

TEST(ProgressLine, StaysInItsWidthAndInItsTotal) {
  EXPECT_EQ(ProgressLine("Converting", 25, 100, 10.0, "a long name", 20), "Converting 25% 30 s ");
  EXPECT_EQ(ProgressLine("Converting", 300, 100, 10.0, "", 80), "Converting 100% 0 s left");
  EXPECT_EQ(ProgressLine("Converting", 3, 0, 10.0, "x", 80), "Converting (x)");
}

TEST(FormatBytes, UsesPowersOf1000) {
  EXPECT_EQ(FormatBytes(0), "0 bytes");
  EXPECT_EQ(FormatBytes(999), "999 bytes");
  EXPECT_EQ(FormatBytes(1000), "1.00 kB");
  EXPECT_EQ(FormatBytes(98362432), "98.4 MB");
  EXPECT_EQ(FormatBytes(1650000000), "1.65 GB");
}

TEST(OneLine, ShowsControlCharactersAsText) {
  EXPECT_EQ(OneLine("caf\xc3\xa9: a\nb\x1b[2J\x7f"), "caf\xc3\xa9: a\\nb\\x1b[2J\\x7f");
  EXPECT_EQ(OneLine("\xc2\x9b"
                    "2J \xc2\xa0\xc2"),
            "\\x9b"
            "2J \xc2\xa0\xc2");
}

TEST(MayDim, IsNeverTrueWithoutATerminalOrWithNoColor) {
  ::unsetenv("NO_COLOR");
  EXPECT_TRUE(MayDim(true));
  EXPECT_FALSE(MayDim(false));
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(MayDim(true));
  ::unsetenv("NO_COLOR");
}

TEST(ResolveThreads, RefusesNegativeNumbersAndFindsAll) {
  EXPECT_EQ(*ResolveThreads(3), 3);
  EXPECT_GE(*ResolveThreads(0), 1);
  EXPECT_EQ(ResolveThreads(-1).code(), Code::kInvalidArgument);
}

TEST(ParseNumberList, ReadsNumbersBetweenCommas) {
  EXPECT_EQ(*ParseNumberList("--ids", "0, 35 ,87", 0, 100), (std::vector<std::int64_t>{0, 35, 87}));
}

TEST(ParseNumberList, NamesTheWordThatIsNoNumberInTheRange) {
  for (const char* text : {"", " ", "1,,2", "1,2,", ",1", "1 2", "1.5", "x", "-1", "101",
                           "99999999999999999999", "+1", "0x1"}) {
    auto numbers = ParseNumberList("--ids", text, 0, 100);
    EXPECT_EQ(numbers.code(), Code::kInvalidArgument) << text;
  }
  EXPECT_EQ(ParseNumberList("--ids", "1,x", 0, 100).message(),
            "--ids: found \"x\", expected whole numbers from 0 to 100, separated by commas");
}

TEST(ParseByteCount, ReadsNumbersWithAndWithoutUnits) {
  EXPECT_EQ(*ParseByteCount("--max-buffer", "134217728"), 134217728u);
  EXPECT_EQ(*ParseByteCount("--max-buffer", "128MiB"), 134217728u);
  EXPECT_EQ(*ParseByteCount("--max-buffer", "1.5GiB"), 3u << 29);
  EXPECT_EQ(*ParseByteCount("--max-buffer", "2 GB"), 2000000000u);
  EXPECT_EQ(*ParseByteCount("--max-buffer", "1KB"), 1000u);
}

TEST(ParseByteCount, RefusesWhatIsNoNumberOfBytes) {
  for (const char* text : {"", "MiB", "-1", "0", "0.1", "1x", "1 Mib", "nan", "inf", "1e9", "0x10",
                           "99999999999999999999GiB"}) {
    EXPECT_EQ(ParseByteCount("--max-buffer", text).code(), Code::kInvalidArgument) << text;
  }
}

TEST(CheckReplaces, KeepsOtherFilesAndTheSource) {
  const std::string path = testing::TempDir() + "hone_cli_test_replaces.npy";
  const auto write = [&](std::string_view text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  };
  write("");
  EXPECT_TRUE(CheckReplaces(path, "model", "MAGIC", ".npy file").ok());
  write("MAGIC and more");
  EXPECT_TRUE(CheckReplaces(path, "model", "MAGIC", ".npy file").ok());
  EXPECT_FALSE(CheckReplaces(path, path, "MAGIC", ".npy file").ok());
  write("MAG");
  EXPECT_EQ(CheckReplaces(path, "model", "MAGIC", ".npy file").code(), Code::kInvalidArgument);
  EXPECT_TRUE(CheckReplaces(path + ".absent", "model", "MAGIC", ".npy file").ok());
}

TEST(WholeNumber, RefusesWhatDoesNotFitIn64Bits) {
  EXPECT_EQ(WholeNumber("-9223372036854775808"), "");
  EXPECT_NE(WholeNumber("9223372036854775808"), "");
  EXPECT_NE(WholeNumber("1.5"), "");
  EXPECT_NE(WholeNumber(""), "");
}

TEST(CheckUtf8, NamesTheArgument) {
  EXPECT_TRUE(CheckUtf8("--prompt", "caf\xc3\xa9").ok());
  const Status bad = CheckUtf8("--prompt", "a\xff");
  EXPECT_EQ(bad.code(), Code::kInvalidArgument);
  EXPECT_EQ(bad.message(), "--prompt: the text is not UTF-8");
}

TEST(CheckOutputPath, RefusesWhatCannotBeAFile) {
  EXPECT_TRUE(CheckOutputPath("m.litertlm").ok());
  EXPECT_TRUE(CheckOutputPath("/tmp/m.litertlm").ok());
  EXPECT_EQ(CheckOutputPath("").code(), Code::kInvalidArgument);
  EXPECT_EQ(CheckOutputPath("/tmp").code(), Code::kInvalidArgument);
  EXPECT_EQ(CheckOutputPath("no_such_folder/").code(), Code::kInvalidArgument);
  EXPECT_EQ(CheckOutputPath("/dev/null").code(), Code::kInvalidArgument);
  EXPECT_EQ(CheckOutputPath("no_such_folder/m.litertlm").code(), Code::kNotFound);
}

TEST(RunProgram, PassesArgumentsWithoutAShell) {
  std::string out;
  const OutputSink sink = [&](ByteSpan bytes) -> Status {
    out += AsText(bytes);
    return {};
  };
  auto code = RunProgram({"printf", "%s|%s", "$(echo no) ; exit 3", "a b"}, sink);
  ASSERT_TRUE(code.ok()) << code.message();
  EXPECT_EQ(*code, 0);
  EXPECT_EQ(out, "$(echo no) ; exit 3|a b");
}

TEST(RunProgram, ReportsExitCodesAndMissingPrograms) {
  const OutputSink sink = [](ByteSpan) -> Status { return {}; };
  auto code = RunProgram({"false"}, sink);
  ASSERT_TRUE(code.ok());
  EXPECT_EQ(*code, 1);
  EXPECT_EQ(RunProgram({"hone-no-such-program"}).code(), Code::kNotFound);
}

TEST(RunProgram, EndsTheProgramWhenTheSinkFails) {
  const OutputSink sink = [](ByteSpan) -> Status { return Status(Code::kDataLoss, "enough"); };
  auto code = RunProgram({"yes"}, sink);
  EXPECT_EQ(code.code(), Code::kDataLoss);
}

}  // namespace
}  // namespace hone::cli
