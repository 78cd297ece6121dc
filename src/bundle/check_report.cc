// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "base/check.h"
#include "bundle/check_subject.h"
#include "bundle/printable.h"

namespace hone::bundle {
namespace {

constexpr std::size_t kMaxWhat = 400;

}  // namespace

const char* SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kNote:
      break;
  }
  return "note";
}

int CheckReport::Count(Severity severity) const {
  return static_cast<int>(std::count_if(findings.begin(), findings.end(), [&](const Finding& f) {
    return f.info->severity == severity;
  }));
}

void Findings::Add(std::string_view id, std::string what, std::string todo) {
  const auto table = CheckTable();
  const auto info =
      std::find_if(table.begin(), table.end(), [&](const CheckInfo& row) { return row.id == id; });
  HONE_CHECK(info != table.end());
  if (todo.empty()) todo = info->todo;
  list.push_back({&*info, std::move(what), std::move(todo)});
}

Result<CheckReport> CheckBundle(const std::string& path, const CheckOptions& options) {
  std::unique_ptr<MappedFile> map;
  HONE_ASSIGN(const std::unique_ptr<Subject> subject, ReadSubject(path, options, &map));
  return CheckSubject(*subject);
}

Result<CheckReport> CheckSubject(const Subject& subject) {
  Findings found;
  std::set<void (*)(const Subject&, Findings&)> done;
  const std::atomic<bool>* cancel = subject.options->cancel;
  for (const CheckInfo& row : CheckTable()) {
    if (!done.insert(row.function).second) continue;
    row.function(subject, found);
    if (cancel != nullptr && cancel->load()) return Status(Code::kCancelled, "cancelled");
  }
  CheckReport report;
  report.file = subject.path;
  report.bytes = subject.bytes.size();
  report.scales_read = found.scales_read;
  report.complete = subject.bundle != nullptr;
  report.findings = std::move(found.list);
  std::stable_sort(
      report.findings.begin(), report.findings.end(), [](const Finding& a, const Finding& b) {
        return a.info->severity != b.info->severity ? a.info->severity < b.info->severity
                                                    : a.info < b.info;
      });
  return report;
}

Json CheckJson(const CheckReport& report) {
  Json out(Json::Object{});
  out.Set("file", report.file);
  out.Set("bytes", report.bytes);
  out.Set("complete", report.complete);
  out.Set("scales_read", report.scales_read);
  out.Set("errors", report.Count(Severity::kError));
  out.Set("warnings", report.Count(Severity::kWarning));
  out.Set("notes", report.Count(Severity::kNote));
  Json::Array findings;
  for (const Finding& finding : report.findings) {
    findings.push_back(Json(Json::Object{{"id", finding.info->id},
                                         {"severity", SeverityName(finding.info->severity)},
                                         {"what", finding.what},
                                         {"why", finding.info->why},
                                         {"do", finding.todo}}));
  }
  out.Set("findings", Json(std::move(findings)));
  return out;
}

std::string CheckText(const CheckReport& report) {
  std::string out;
  for (const Finding& finding : report.findings) {
    out += StrCat(SeverityName(finding.info->severity), " ", finding.info->id, "\n  ",
                  Printable(finding.what, kMaxWhat), "\n  why: ", finding.info->why,
                  "\n  do:  ", Printable(finding.todo, kMaxWhat), "\n");
  }
  const auto count = [&](Severity severity) {
    const int n = report.Count(severity);
    return StrCat(n, " ", SeverityName(severity), n == 1 ? "" : "s");
  };
  out += StrCat(Printable(report.file), ": ", count(Severity::kError), ", ",
                count(Severity::kWarning), ", ", count(Severity::kNote), "; ", report.scales_read,
                " scales read", report.complete ? "" : "; the rest could not be checked", "\n");
  return out;
}

}  // namespace hone::bundle
