// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/metrics.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/check.h"

namespace hone::serve {
namespace {

bool IsName(std::string_view name, bool may_have_colon) {
  const auto letter = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (c == ':' && may_have_colon);
  };
  return !name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), [&](char c) {
    return letter(c) || (c >= '0' && c <= '9');
  });
}

void AppendEscaped(std::string& out, std::string_view text, bool quotes) {
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || (c == '"' && quotes)) out.push_back('\\');
    out.push_back(c);
  }
}

std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::array<char, 40> text = {};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

// One line: name, labels and value.
void AppendSample(std::string& out, std::string_view name, std::string_view suffix,
                  const MetricLabels& labels, std::string_view bound, double value) {
  out.append(name).append(suffix);
  std::string list;
  for (const auto& [key, text] : labels) {
    if (!list.empty()) list += ",";
    list.append(key).append("=\"");
    AppendEscaped(list, text, /*quotes=*/true);
    list += "\"";
  }
  if (!bound.empty()) list.append(list.empty() ? "" : ",").append("le=\"").append(bound) += "\"";
  if (!list.empty()) out.append("{").append(list).append("}");
  out.append(" ").append(NumberText(value)).append("\n");
}

void AppendHistogram(std::string& out, std::string_view name, const MetricLabels& labels,
                     const Histogram& histogram) {
  const Histogram::Snapshot now = histogram.snapshot();
  for (std::size_t i = 0; i < now.cumulative.size(); ++i) {
    AppendSample(out, name, "_bucket", labels, NumberText(histogram.bounds()[i]),
                 static_cast<double>(now.cumulative[i]));
  }
  const auto count = static_cast<double>(now.count);
  AppendSample(out, name, "_bucket", labels, "+Inf", count);
  AppendSample(out, name, "_sum", labels, "", now.sum);
  AppendSample(out, name, "_count", labels, "", count);
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)),
      buckets_(std::make_unique<std::atomic<std::uint64_t>[]>(bounds_.size() + 1)) {
  HONE_CHECK(
      std::is_sorted(bounds_.begin(), bounds_.end(), std::less_equal<>()) &&
      std::all_of(bounds_.begin(), bounds_.end(), [](double b) { return std::isfinite(b); }));
}

void Histogram::Observe(double value) {
  if (std::isnan(value)) return;
  const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  buckets_[static_cast<std::size_t>(at)].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

Histogram::Snapshot Histogram::snapshot() const {
  Snapshot now;
  for (std::size_t i = 0; i <= bounds_.size(); ++i) {
    now.count += buckets_[i].load(std::memory_order_relaxed);
    if (i < bounds_.size()) now.cumulative.push_back(now.count);
  }
  now.sum = sum_.load(std::memory_order_relaxed);
  return now;
}

std::vector<double> SecondsBuckets() {
  return {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600};
}

Metrics::Series& Metrics::FindSeries(std::string_view name, std::string_view help, Type type,
                                     MetricLabels labels) {
  HONE_CHECK(IsName(name, /*may_have_colon=*/true));
  for (const auto& [key, value] : labels) {
    HONE_CHECK(IsName(key, /*may_have_colon=*/false) && key != "le");
  }
  auto family = std::find_if(families_.begin(), families_.end(),
                             [&](const Family& f) { return f.name == name; });
  if (family == families_.end()) {
    families_.push_back({std::string(name), std::string(help), type, {}});
    family = families_.end() - 1;
  }
  HONE_CHECK(family->type == type);
  for (const auto& series : family->series) {
    if (series->labels == labels) return *series;
  }
  family->series.push_back(std::make_unique<Series>());
  family->series.back()->labels = std::move(labels);
  return *family->series.back();
}

Counter& Metrics::AddCounter(std::string_view name, std::string_view help, MetricLabels labels) {
  const std::lock_guard lock(mutex_);
  Series& series = FindSeries(name, help, Type::kCounter, std::move(labels));
  if (series.counter == nullptr) series.counter = std::make_unique<Counter>();
  return *series.counter;
}

Gauge& Metrics::AddGauge(std::string_view name, std::string_view help, MetricLabels labels) {
  const std::lock_guard lock(mutex_);
  Series& series = FindSeries(name, help, Type::kGauge, std::move(labels));
  HONE_CHECK(series.read == nullptr);
  if (series.gauge == nullptr) series.gauge = std::make_unique<Gauge>();
  return *series.gauge;
}

void Metrics::AddGauge(std::string_view name, std::string_view help, std::function<double()> read,
                       MetricLabels labels) {
  const std::lock_guard lock(mutex_);
  Series& series = FindSeries(name, help, Type::kGauge, std::move(labels));
  HONE_CHECK(series.gauge == nullptr && series.read == nullptr && read != nullptr);
  series.read = std::move(read);
}

Histogram& Metrics::AddHistogram(std::string_view name, std::string_view help,
                                 std::vector<double> bounds, MetricLabels labels) {
  const std::lock_guard lock(mutex_);
  Series& series = FindSeries(name, help, Type::kHistogram, std::move(labels));
  if (series.histogram == nullptr) {
    series.histogram = std::make_unique<Histogram>(std::move(bounds));
  }
  return *series.histogram;
}

void Metrics::Remove(std::string_view name, const MetricLabels& labels) {
  const std::lock_guard lock(mutex_);
  for (Family& family : families_) {
    if (family.name != name) continue;
    std::erase_if(family.series, [&](const auto& series) { return series->labels == labels; });
  }
}

std::string Metrics::Render() const {
  const std::lock_guard lock(mutex_);
  std::string out;
  for (const Family& family : families_) {
    if (family.series.empty()) continue;
    constexpr std::array<std::string_view, 3> kTypes = {"counter", "gauge", "histogram"};
    out.append("# HELP ").append(family.name).append(" ");
    AppendEscaped(out, family.help, /*quotes=*/false);
    out.append("\n# TYPE ").append(family.name).append(" ");
    out.append(kTypes[static_cast<std::size_t>(family.type)]).append("\n");
    for (const auto& series : family.series) {
      if (series->histogram != nullptr) {
        AppendHistogram(out, family.name, series->labels, *series->histogram);
        continue;
      }
      const double value = series->counter ? series->counter->value()
                           : series->gauge ? series->gauge->value()
                                           : series->read();
      AppendSample(out, family.name, "", series->labels, "", value);
    }
  }
  return out;
}

}  // namespace hone::serve
