// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// hone pack and hone unpack where the build had no protobuf or no toml++.
#include <CLI/CLI.hpp>

#include "cli/cli.h"

namespace hone::cli {
namespace {

void RegisterMissing(CLI::App& app, Command* selected, const char* name) {
  CLI::App* sub = app.add_subcommand(name, "Not part of this build: it needs protobuf and toml++");
  sub->allow_extras();
  sub->callback([selected, name] {
    *selected = [name] {
      return Status(Code::kUnsupported, StrCat(name,
                                               ": this hone was built without protobuf and toml++; "
                                               "install them and build again"));
    };
  });
}

}  // namespace

void RegisterPack(CLI::App& app, Command* selected) { RegisterMissing(app, selected, "pack"); }
void RegisterUnpack(CLI::App& app, Command* selected) { RegisterMissing(app, selected, "unpack"); }

}  // namespace hone::cli
