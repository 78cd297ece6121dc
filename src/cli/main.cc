// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "base/cpu_info.h"
#include "base/env.h"
#include "cli/cli.h"

namespace hone::cli {
namespace {

constexpr const char* kAbout =
    "Hone: converts, packs and runs small language models on CPUs.\n\n"
    "Example:\n"
    "  hone pull smollm2-135m\n"
    "  hone convert SmolLM2-135M-Instruct.Q4_1.gguf -o smollm2.litertlm\n"
    "  hone run smollm2.litertlm -p \"What is the capital of France?\"";

void RegisterCommands(CLI::App& app, Command* selected) {
  RegisterPull(app, selected);
  RegisterConvert(app, selected);
  RegisterRun(app, selected);
  RegisterServe(app, selected);
  RegisterBench(app, selected);
  RegisterPeek(app, selected);
  RegisterCheck(app, selected);
  RegisterRepair(app, selected);
  RegisterEdit(app, selected);
  RegisterQuantize(app, selected);
  RegisterUnpack(app, selected);
  RegisterPack(app, selected);
  RegisterManifest(app, selected);
  RegisterLogits(app, selected);
  RegisterTokenize(app, selected);
  RegisterRender(app, selected);
}

std::string EnvHelp() {
  std::string out = "Environment variables that Hone reads:\n";
  for (const EnvVar& var : EnvTable()) {
    std::array<char, 40> name{};
    std::snprintf(name.data(), name.size(), "  %-23s ", var.name);
    out += StrCat(name.data(), var.meaning, "\n");
  }
  return out;
}

// Output that was lost (a full disk, a closed pipe) is a failure.
int Finish(int exit_code) {
  const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (lost && exit_code == 0) return PrintError(Code::kIo, "cannot write to standard output");
  return exit_code;
}

int Main(int argc, char** argv) {
  CLI::App app(kAbout, "hone");
  Command selected;
  bool help_env = false;
  app.set_version_flag("--version", "hone " HONE_VERSION);
  app.add_flag("--help-env", help_env, "Print the environment variables that Hone reads");
  app.require_subcommand(0, 1);
  RegisterCommands(app, &selected);

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    return Finish(app.exit(e));
  } catch (const CLI::ParseError& e) {
    // The parser forgets the command when it throws.
    const auto used =
        app.get_subcommands([&](CLI::App* sub) { return argc > 1 && sub->get_name() == argv[1]; });
    const std::string command = used.empty() ? "hone" : "hone " + used.front()->get_name();
    return PrintError(Code::kInvalidArgument, StrCat(e.what(), "; see ", command, " --help"));
  }
  if (help_env) {
    PrintText(EnvHelp());
    return Finish(0);
  }
  if (!selected) {
    PrintText(app.help());
    return Finish(ExitCode(Code::kInvalidArgument));
  }
  Status status = CheckCpuCap();
  if (status.ok()) status = selected();
  const int code = Finish(0);
  if (status.ok()) return code;
  const int failed = PrintError(status.code(), status.message());
  return status.code() == kCheckFailed ? 1 : failed;
}

}  // namespace
}  // namespace hone::cli

int main(int argc, char** argv) {
  try {
    return hone::cli::Main(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("hone: error: out of memory\n", stderr);
    return hone::ExitCode(hone::Code::kOutOfMemory);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "hone: internal error: %s\n", e.what());
    return hone::ExitCode(hone::Code::kInternal);
  }
}
