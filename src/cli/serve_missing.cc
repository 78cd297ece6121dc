// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// hone serve where the build has no server.
#include <CLI/CLI.hpp>

#include "cli/cli.h"

namespace hone::cli {

void RegisterServe(CLI::App& app, Command* selected) {
  CLI::App* sub =
      app.add_subcommand("serve", "Not part of this build: it needs the headers of Boost");
  sub->allow_extras();
  sub->callback([selected] {
    *selected = [] {
      return Status(Code::kUnsupported,
                    "serve: this hone was built without its server (-DHONE_SERVE=OFF); build it "
                    "again with -DHONE_SERVE=ON");
    };
  });
}

}  // namespace hone::cli
