// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/hub_pull.h"

#include "cli/cli.h"
#include "cli/progress.h"

namespace hone::cli {

Result<hub::PullReport> PullFromHub(const hub::Settings& settings, const hub::RepoRef& ref,
                                    hub::PullOptions options) {
  options.transfer.cancel = CancelFlag();
  Progress progress("Downloading");
  std::uint64_t at_start = 0;
  bool started = false;
  options.transfer.progress = [&](std::uint64_t done, std::uint64_t total, std::string_view what) {
    if (!started) at_start = done;
    started = true;
    // The time left follows from this run's speed, so an earlier run's bytes do not count.
    const double seconds = progress.Seconds();
    const auto speed = static_cast<std::uint64_t>(
        seconds > 0.5 ? static_cast<double>(done - std::min(done, at_start)) / seconds : 0.0);
    progress.Update(done - std::min(done, at_start), total - at_start,
                    StrCat(FormatBytes(done), " of ", FormatBytes(total), ", ", FormatBytes(speed),
                           "/s, ", what));
  };
  options.transfer.note = [&](const std::string& text) {
    progress.Clear();
    PrintNote(text);
  };
  return hub::Pull(settings, ref, options);
}

}  // namespace hone::cli
