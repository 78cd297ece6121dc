// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The editor is libedit's. Its characters come through GetKey, so that Ctrl-C, pasted text and a
// line to begin with reach it.
#include "cli/line_editor.h"

#include <histedit.h>
#include <langinfo.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <clocale>
#include <cstdio>
#include <deque>
#include <string>
#include <utility>

#include "base/env.h"
#include "cli/cli.h"
#include "cli/line_history.h"
#include "cli/utf8_text.h"

namespace hone::cli {
namespace {

// Bound to "begin a new line"; no key that is in use sends it.
constexpr wchar_t kNewLineKey = 0x1e;
constexpr std::string_view kPasteEnd = "\x1b[201~";
// What is pasted behind this is dropped.
constexpr std::size_t kMaxPasteBytes = 4 << 20;
// A terminal hands over what was pasted without pauses.
constexpr int kPasteMilliseconds = 10;

// libedit asks the locale how characters look. Only UTF-8 will do.
void UseUtf8() {
  std::setlocale(LC_CTYPE, "");
  if (std::string_view(::nl_langinfo(CODESET)) != "UTF-8") std::setlocale(LC_CTYPE, "C.UTF-8");
}

class LineEditor : public LineSource {
 public:
  explicit LineEditor(const std::atomic<bool>* cancel)
      : input_(STDIN_FILENO, cancel), file_(HistoryPath()), saves_(!HistoryPath().empty()) {
    UseUtf8();
    editor_ = ::el_init("hone", stdin, stdout, stderr);
    history_ = ::history_winit();
    if (editor_ == nullptr || history_ == nullptr) return;
    HistEventW event{};
    ::history_w(history_, &event, H_SETSIZE, static_cast<int>(kMaxHistory));
    ::history_w(history_, &event, H_SETUNIQUE, 1);
    ::el_wset(editor_, EL_CLIENTDATA, this);
    ::el_wset(editor_, EL_HIST, ::history_w, history_);
    ::el_wset(editor_, EL_GETCFN, &GetKey);
    ::el_wset(editor_, EL_PROMPT, &Prompt);
    ::el_wset(editor_, EL_EDITOR, L"emacs");
    BindKeys();
    ::el_source(editor_, nullptr);  // ~/.editrc, if there is one
    LoadHistory();
  }
  ~LineEditor() override {
    if (history_ != nullptr) ::history_wend(history_);
    if (editor_ != nullptr) ::el_end(editor_);
  }

  bool works() const { return editor_ != nullptr && history_ != nullptr; }
  bool can_edit() const override { return true; }
  bool is_terminal() const override { return true; }

  LineRead Read(const std::string& prompt, std::string_view initial) override {
    prompt_ = ToWide(prompt);
    for (const wchar_t c : ToWide(PlainText(initial)))
      keys_.push_back(c == L'\n' ? kNewLineKey : c);
    end_ = LineEvent::kEnd;
    typed_.clear();
    // libedit would do this behind the prompt: what is typed in between, such as Ctrl-D, would mean
    // something else.
    ::el_wset(editor_, EL_PREP_TERM, 1);
    PasteMode(true);
    int count = 0;
    const wchar_t* line = ::el_wgets(editor_, &count);
    PasteMode(false);
    keys_.clear();
    if (line == nullptr || count <= 0) {
      PrintText(end_ == LineEvent::kInterrupted ? "^C\n" : "\n");
      std::fflush(stdout);
      return {end_, std::move(typed_)};
    }
    std::string text = FromWide({line, static_cast<std::size_t>(count)});
    while (text.ends_with('\n')) text.pop_back();
    return {LineEvent::kLine, std::move(text)};
  }

  void Remember(const std::string& message) override {
    HistEventW event{};
    ::history_w(history_, &event, H_ENTER, ToWide(message).c_str());
    if (saves_) Warn(file_.Append(message));
  }

 private:
  void BindKeys() {
    const auto bind = [&](const wchar_t* key, const wchar_t* function) {
      ::el_wset(editor_, EL_BIND, key, function, static_cast<wchar_t*>(nullptr));
    };
    ::el_wset(editor_, EL_ADDFN, L"hone-new-line", L"Begin a new line", &NewLine);
    ::el_wset(editor_, EL_ADDFN, L"hone-paste", L"Insert what is pasted", &Paste);
    bind(L"\x1e", L"hone-new-line");
    bind(L"\x1b\n", L"hone-new-line");
    bind(L"\x1b\r", L"hone-new-line");
    bind(L"\x1b[200~", L"hone-paste");
    bind(L"\t", L"ed-insert");
    bind(L"\x12", L"em-inc-search-prev");
    bind(L"\x1b[1;5C", L"em-next-word");
    bind(L"\x1b[1;5D", L"ed-prev-word");
    bind(L"\x1b[3~", L"ed-delete-next-char");
    bind(L"\x1b[H", L"ed-move-to-beg");
    bind(L"\x1b[F", L"ed-move-to-end");
  }

  void LoadHistory() {
    if (!saves_) return;
    auto messages = file_.Load();
    if (!messages.ok()) return Warn(std::move(messages).status());
    HistEventW event{};
    for (const std::string& message : *messages) {
      ::history_w(history_, &event, H_ENTER, ToWide(message).c_str());
    }
  }

  // Once; nothing is written any more then.
  void Warn(Status status) {
    if (status.ok()) return;
    saves_ = false;
    PrintWarning(StrCat("the history is not kept: ", status.message()));
  }

  // Terminals that know it mark what is pasted; others ignore this.
  static void PasteMode(bool on) {
    PrintText(on ? "\x1b[?2004h" : "\x1b[?2004l");
    std::fflush(stdout);
  }

  static LineEditor& Self(EditLine* editor) {
    void* self = nullptr;
    ::el_wget(editor, EL_CLIENTDATA, &self);
    return *static_cast<LineEditor*>(self);
  }
  static wchar_t* Prompt(EditLine* editor) { return Self(editor).prompt_.data(); }
  static int GetKey(EditLine* editor, wchar_t* key) { return Self(editor).NextKey(key); }

  // What libedit expects: 1 and a key, 0 at the end of the input, -1 if it was interrupted.
  int NextKey(wchar_t* key) {
    if (!keys_.empty()) {
      *key = keys_.front();
      keys_.pop_front();
      return 1;
    }
    std::string& pending = input_.pending();
    while (Utf8Bytes(pending) == 0) {
      const InputBytes::State state = input_.Wait(kLookMilliseconds);
      if (state == InputBytes::State::kNothingYet) LookAround();
      if (state == InputBytes::State::kInterrupted) return Interrupted();
      if (state == InputBytes::State::kEnd) return 0;
    }
    *key = TakeUtf8(pending);
    if (*key == 0) *key = L' ';
    const bool enter = *key == L'\r' || *key == L'\n';
    if (enter && !after_escape_ && MoreFollows()) *key = kNewLineKey;
    after_escape_ = *key == L'\x1b';
    return 1;
  }

  // Enter is the last of what a person types.
  bool MoreFollows() {
    return !input_.pending().empty() || input_.Wait(kPasteMilliseconds) == InputBytes::State::kData;
  }

  int Interrupted() {
    const LineInfoW* line = ::el_wline(editor_);
    typed_ = FromWide({line->buffer, static_cast<std::size_t>(line->lastchar - line->buffer)});
    input_.pending().clear();
    end_ = LineEvent::kInterrupted;
    return -1;
  }

  // Draws the line anew if the window has another size, or if the program was stopped and goes on:
  // the shell has changed the terminal's modes then.
  void LookAround() {
    winsize now{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &now) != 0) return;
    const bool resized =
        size_.ws_col != 0 && (now.ws_col != size_.ws_col || now.ws_row != size_.ws_row);
    size_ = now;
    termios modes{};
    const bool stopped = ::tcgetattr(STDIN_FILENO, &modes) == 0 && (modes.c_lflag & ICANON) != 0;
    if (!resized && !stopped) return;
    if (resized) ::el_resize(editor_);
    if (stopped) {
      ::el_wset(editor_, EL_PREP_TERM, 0);
      ::el_wset(editor_, EL_PREP_TERM, 1);
      PasteMode(true);
    }
    ::el_wset(editor_, EL_REFRESH);
  }

  static unsigned char NewLine(EditLine* editor, wint_t) {
    return ::el_winsertstr(editor, L"\n") == 0 ? CC_REFRESH : CC_ERROR;
  }

  static unsigned char Paste(EditLine* editor, wint_t) {
    LineEditor& self = Self(editor);
    std::string& pending = self.input_.pending();
    std::string text;
    while (pending.find(kPasteEnd) == std::string::npos) {
      if (pending.size() > 2 * kPasteEnd.size()) {
        const std::size_t sure = pending.size() - kPasteEnd.size();
        if (text.size() < kMaxPasteBytes) text.append(pending, 0, sure);
        pending.erase(0, sure);
      }
      const InputBytes::State state = self.input_.Wait(-1);
      if (state == InputBytes::State::kInterrupted) return CC_REFRESH;  // the next key says so
      if (state != InputBytes::State::kData) break;
    }
    const std::size_t end = pending.find(kPasteEnd);
    text.append(pending, 0, end);
    pending.erase(0, end == std::string::npos ? pending.size() : end + kPasteEnd.size());
    ::el_winsertstr(editor, ToWide(PlainText(text)).c_str());
    return CC_REFRESH;
  }

  static constexpr int kLookMilliseconds = 200;

  InputBytes input_;
  LineHistory file_;
  bool saves_;
  EditLine* editor_ = nullptr;
  HistoryW* history_ = nullptr;
  std::wstring prompt_;
  std::deque<wchar_t> keys_;  // that come before those of the terminal
  LineEvent end_ = LineEvent::kEnd;
  std::string typed_;
  bool after_escape_ = false;  // the last key was the first of a sequence
  winsize size_{};
};

}  // namespace

std::unique_ptr<LineSource> MakeLineEditor(const std::atomic<bool>* cancel) {
  const std::string terminal = GetEnv("TERM");
  if (terminal.empty() || terminal == "dumb") return nullptr;
  auto editor = std::make_unique<LineEditor>(cancel);
  if (!editor->works()) return nullptr;
  return editor;
}

}  // namespace hone::cli
