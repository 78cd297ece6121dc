// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/chat_command.h"

#include <gtest/gtest.h>

namespace hone::cli {
namespace {

TEST(ParseChatLine, TakesMessagesAsTheyAre) {
  const ChatLine line = ParseChatLine("  1/2 is a half \n");
  EXPECT_EQ(line.verb, ChatVerb::kMessage);
  EXPECT_EQ(line.text, "  1/2 is a half \n");
  EXPECT_EQ(ParseChatLine("").verb, ChatVerb::kMessage);
}

TEST(ParseChatLine, TakesTwoSlashesForOne) {
  const ChatLine line = ParseChatLine("//etc/hosts: what is it?");
  EXPECT_EQ(line.verb, ChatVerb::kMessage);
  EXPECT_EQ(line.text, "/etc/hosts: what is it?");
  EXPECT_EQ(ParseChatLine("//").text, "/");
}

TEST(ParseChatLine, ReadsCommandsAndWhatStandsBehindThem) {
  const ChatLine think = ParseChatLine(" /think  off ");
  EXPECT_EQ(think.verb, ChatVerb::kThink);
  EXPECT_EQ(think.text, "off");
  EXPECT_EQ(ParseChatLine("/RETRY").verb, ChatVerb::kRetry);
  EXPECT_EQ(ParseChatLine("/system Be brief.\nBe kind.").text, "Be brief.\nBe kind.");
  EXPECT_EQ(ParseChatLine("/quit").verb, ChatVerb::kExit);
  EXPECT_EQ(ParseChatLine("/exit").verb, ChatVerb::kExit);
}

TEST(ParseChatLine, SuggestsTheNearestCommandForAnUnknownOne) {
  EXPECT_EQ(ParseChatLine("/exti").verb, ChatVerb::kUnknown);
  EXPECT_EQ(ParseChatLine("/exti").suggestion, "/exit");
  EXPECT_EQ(ParseChatLine("/exti").word, "/exti");
  EXPECT_EQ(ParseChatLine("/retyr now").suggestion, "/retry");
  EXPECT_EQ(ParseChatLine("/tok").suggestion, "/tokens");
  EXPECT_EQ(ParseChatLine("/usr/bin/env is what?").suggestion, "");
  EXPECT_EQ(ParseChatLine("/usr/bin/env is what?").verb, ChatVerb::kUnknown);
  EXPECT_EQ(ParseChatLine("/" + std::string(100000, 'x')).suggestion, "");
}

TEST(ChatHelp, NamesEveryCommandOnce) {
  const std::string help = ChatHelp();
  for (const char* name :
       {"/think on", "/think show", "/system", "/retry", "/edit", "/undo", "/save", "/load",
        "/tokens", "/stats", "/set", "/clear", "/help", "/exit", "Ctrl-C", "//..."}) {
    EXPECT_NE(help.find(name), std::string::npos) << name;
    EXPECT_EQ(help.find(name), help.rfind(name)) << name;
  }
}

}  // namespace
}  // namespace hone::cli
