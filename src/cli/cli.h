// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What the commands share: registration, output, Ctrl-C. Commands parse, call a library and print.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace CLI {
class App;
}

namespace hone::cli {

// The work of a command. main() runs it after the command line has been read, prints its error as
// one line and exits with ExitCode(code).
using Command = std::function<Status()>;

// Each adds one subcommand; its callback stores the work in *selected. Options live in an object
// that the callback and the work share (std::shared_ptr), since parsing ends before the work runs.
void RegisterConvert(CLI::App& app, Command* selected);
void RegisterPeek(CLI::App& app, Command* selected);
void RegisterPull(CLI::App& app, Command* selected);
void RegisterRun(CLI::App& app, Command* selected);
void RegisterBench(CLI::App& app, Command* selected);
void RegisterLogits(CLI::App& app, Command* selected);
void RegisterTokenize(CLI::App& app, Command* selected);
void RegisterRender(CLI::App& app, Command* selected);
void RegisterCheck(CLI::App& app, Command* selected);
void RegisterRepair(CLI::App& app, Command* selected);
void RegisterPack(CLI::App& app, Command* selected);
void RegisterUnpack(CLI::App& app, Command* selected);
void RegisterEdit(CLI::App& app, Command* selected);
void RegisterManifest(CLI::App& app, Command* selected);
void RegisterQuantize(CLI::App& app, Command* selected);
void RegisterServe(CLI::App& app, Command* selected);

// "hone: warning: MESSAGE" on stderr, as one line: messages quote files, whose control characters
// must not reach the terminal.
void PrintWarning(std::string_view message);
// "hone: note: MESSAGE", as PrintWarning.
void PrintNote(std::string_view message);
// "hone: error: MESSAGE", as PrintWarning. Returns the exit code.
int PrintError(Code code, std::string_view message);
// The code of a command that did its work and found that a check failed: exit code 1. Only commands
// return it.
inline constexpr Code kCheckFailed{255};
// The message with control characters as \n or \xNN.
std::string OneLine(std::string_view message);
// Whether text on standard output may be dimmed: not if NO_COLOR is set.
bool MayDim(bool terminal);
// The value and a newline on stdout, indented. With --json a command prints nothing else there.
void PrintJson(const Json& value);
// The bytes as they are on stdout. Main checks at the end that everything could be written.
void PrintText(std::string_view text);

// True from the first Ctrl-C on. The first call installs the handlers, so call it before work that
// polls the flag: the first Ctrl-C sets it, the second removes temporary files and exits with 130;
// SIGTERM and SIGHUP remove temporary files and end the process at once. Without a call Ctrl-C ends
// the process.
const std::atomic<bool>* CancelFlag();
// Makes the flag false again, for a chat that has stopped something for Ctrl-C and goes on.
void ResetCancelFlag();

// Standard input and output are a terminal that will be edited on: where a signal ends the process
// at once, the terminal's modes are first made what they are now, and its text plain.
void GuardTerminal();

// "1.65 GB", "98.4 MB", "512 bytes" (powers of 1000).
std::string FormatBytes(std::uint64_t bytes);

// The number of threads that --threads asks for: 0 is what ChooseThreads() of base/thread_choice.h
// says. Refuses negative numbers.
Result<int> ResolveThreads(int requested);

}  // namespace hone::cli
