// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A chat with --save-state that ends with an error: what was answered before is in the file.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "run_command.h"

namespace hone::testing {
namespace {

namespace fs = std::filesystem;

class ChatState : public ::testing::Test {
 protected:
  // A checkpoint whose template refuses a conversation with the word "boom".
  void SetUp() override {
    const fs::path source = std::string(HONE_SHARED_DATA) + "/golden/families/llama-gqa8/hf";
    const fs::path model = folder_ + "/model";
    fs::create_directory(model);
    for (const auto& entry : fs::directory_iterator(source)) {
      fs::create_symlink(fs::absolute(entry.path()), model / entry.path().filename());
    }
    const fs::path chat = model / "chat_template.jinja";
    ASSERT_TRUE(fs::remove(chat));
    std::ofstream(chat) << "{% for m in messages %}{% if m.content == 'boom' %}"
                           "{{ raise_exception('refused') }}{% endif %}"
                           "{{ m.role + ': ' + m.content + '\n' }}{% endfor %}assistant: ";
  }
  void TearDown() override { RemoveFolder(folder_); }

  CommandResult Chat(const std::string& input, std::vector<std::string> more) const {
    std::vector<std::string> argv = {
        HONE_PROGRAM, "run", folder_ + "/model", "--max-tokens", "3", "--temperature", "0"};
    argv.insert(argv.end(), more.begin(), more.end());
    return RunCommand(argv, input);
  }

  std::string folder_ = MakeTempFolder("hone-chat-state");
  std::string state_ = folder_ + "/talk.state";
};

TEST_F(ChatState, AnErrorOfAnAnswerSavesWhatWasAnsweredBefore) {
  const CommandResult broken = Chat("Hello.\nboom\n", {"--save-state", state_});
  EXPECT_NE(broken.exit_code, 0);
  EXPECT_NE(broken.err.find("refused"), std::string::npos) << broken.err;
  const CommandResult on = Chat("And then?\n", {"--load-state", state_});
  EXPECT_EQ(on.exit_code, 0) << on.err;
  EXPECT_NE(on.err.find("(2 messages) goes on"), std::string::npos) << on.err;
}

TEST_F(ChatState, AnErrorOfTheFirstAnswerSavesNothingAndSaysSo) {
  const CommandResult broken = Chat("boom\n", {"--save-state", state_});
  EXPECT_NE(broken.exit_code, 0);
  EXPECT_NE(broken.err.find("nothing was said"), std::string::npos) << broken.err;
  EXPECT_FALSE(fs::exists(state_));
}

}  // namespace
}  // namespace hone::testing
