// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <vector>

namespace hone::serve {
namespace {

TEST(Metrics, WritesTheTextFormatOfPrometheus) {
  Metrics metrics;
  metrics.AddCounter("hone_requests_total", "Requests,\nby \\ status", {{"status", "200"}}).Add(3);
  metrics.AddCounter("hone_requests_total", "", {{"status", "400"}, {"path", "/a\"b\\c\nd"}}).Add();
  metrics.AddGauge("hone_queue", "Waiting").Set(-1.5);
  double live = 7;
  metrics.AddGauge("hone_live", "Read when asked", [&] { return live; });
  Histogram& seconds = metrics.AddHistogram("hone_seconds", "Time", {0.1, 1}, {{"m", "x"}});
  for (const double value : {0.05, 0.1, 0.5, 3.0}) seconds.Observe(value);
  live = 8;
  EXPECT_EQ(metrics.Render(),
            "# HELP hone_requests_total Requests,\\nby \\\\ status\n"
            "# TYPE hone_requests_total counter\n"
            "hone_requests_total{status=\"200\"} 3\n"
            "hone_requests_total{status=\"400\",path=\"/a\\\"b\\\\c\\nd\"} 1\n"
            "# HELP hone_queue Waiting\n"
            "# TYPE hone_queue gauge\n"
            "hone_queue -1.5\n"
            "# HELP hone_live Read when asked\n"
            "# TYPE hone_live gauge\n"
            "hone_live 8\n"
            "# HELP hone_seconds Time\n"
            "# TYPE hone_seconds histogram\n"
            "hone_seconds_bucket{m=\"x\",le=\"0.1\"} 2\n"
            "hone_seconds_bucket{m=\"x\",le=\"1\"} 3\n"
            "hone_seconds_bucket{m=\"x\",le=\"+Inf\"} 4\n"
            "hone_seconds_sum{m=\"x\"} 3.65\n"
            "hone_seconds_count{m=\"x\"} 4\n");
}

TEST(Metrics, WritesNumbersThatPrometheusReads) {
  Metrics metrics;
  Gauge& gauge = metrics.AddGauge("g", "");
  const auto text = [&](double value) {
    gauge.Set(value);
    const std::string all = metrics.Render();
    return all.substr(all.rfind("\ng ") + 3);
  };
  EXPECT_EQ(text(std::numeric_limits<double>::infinity()), "+Inf\n");
  EXPECT_EQ(text(-std::numeric_limits<double>::infinity()), "-Inf\n");
  EXPECT_EQ(text(std::nan("")), "NaN\n");
  EXPECT_EQ(text(0.1), "0.1\n");
  EXPECT_EQ(text(1e300), "1e+300\n");
  EXPECT_EQ(text(123456789), "123456789\n");
}

TEST(Metrics, GivesTheSameObjectForTheSameNameAndLabels) {
  Metrics metrics;
  Counter& counter = metrics.AddCounter("c", "h", {{"a", "1"}});
  EXPECT_EQ(&metrics.AddCounter("c", "h", {{"a", "1"}}), &counter);
  EXPECT_NE(&metrics.AddCounter("c", "h", {{"a", "2"}}), &counter);
  EXPECT_EQ(&metrics.AddHistogram("h", "", {1}), &metrics.AddHistogram("h", "", {1}));
}

TEST(Metrics, ACounterIsNeverTakenBack) {
  Counter counter;
  counter.RaiseTo(7);
  EXPECT_EQ(counter.value(), 7);
  counter.RaiseTo(3);
  EXPECT_EQ(counter.value(), 7);
  counter.Add(2);
  counter.RaiseTo(8.5);
  EXPECT_EQ(counter.value(), 9);
}

TEST(Metrics, LosesNothingBetweenThreads) {
  Metrics metrics;
  Histogram& histogram = metrics.AddHistogram("h", "", SecondsBuckets());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      Counter& counter = metrics.AddCounter("c", "", {{"thread", std::to_string(i % 2)}});
      for (int k = 0; k < 1000; ++k) {
        counter.Add();
        histogram.Observe(k % 3);
        if (k % 100 == 0) {
          EXPECT_FALSE(metrics.Render().empty());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(metrics.AddCounter("c", "", {{"thread", "0"}}).value(), 2000);
  EXPECT_EQ(histogram.snapshot().count, 4000U);
  EXPECT_EQ(histogram.snapshot().sum, 4 * (333 * (0 + 1 + 2) + 0));
}

TEST(Histogram, CountsNoNan) {
  Histogram histogram({1, 2});
  histogram.Observe(std::nan(""));
  histogram.Observe(std::numeric_limits<double>::infinity());
  EXPECT_EQ(histogram.snapshot().count, 1U);
  EXPECT_EQ(histogram.snapshot().cumulative, (std::vector<std::uint64_t>{0, 0}));
}

TEST(MetricsDeathTest, NamesAreChecked) {
  Metrics metrics;
  metrics.AddCounter("c", "");
  EXPECT_DEATH(metrics.AddCounter("1a", ""), "IsName");
  EXPECT_DEATH(metrics.AddCounter("a-b", ""), "IsName");
  EXPECT_DEATH(metrics.AddCounter("a", "", {{"le", "1"}}), "le");
  EXPECT_DEATH(metrics.AddGauge("c", ""), "type");
  EXPECT_DEATH(metrics.AddHistogram("h", "", {2, 1}), "is_sorted");
}

}  // namespace
}  // namespace hone::serve
