// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Counters, gauges and histograms in the text format of Prometheus.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hone::serve {

// Everything here is thread-safe.

// Only goes up.
class Counter {
 public:
  void Add(double amount = 1) { value_.fetch_add(amount, std::memory_order_relaxed); }
  // To a count that somebody else keeps; nothing happens if it is there already.
  void RaiseTo(double count) {
    double now = value();
    while (now < count && !value_.compare_exchange_weak(now, count, std::memory_order_relaxed)) {
    }
  }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

class Gauge {
 public:
  void Set(double value) { value_.store(value, std::memory_order_relaxed); }
  void Add(double amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

class Histogram {
 public:
  // bounds: the upper ends of the buckets, included, ascending; one more bucket takes the rest.
  explicit Histogram(std::vector<double> bounds);
  // NaN counts nowhere.
  void Observe(double value);

  struct Snapshot {
    std::vector<std::uint64_t> cumulative;  // one a bound
    std::uint64_t count = 0;
    double sum = 0;
  };
  Snapshot snapshot() const;
  const std::vector<double>& bounds() const { return bounds_; }

 private:
  std::vector<double> bounds_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> buckets_;
  std::atomic<double> sum_{0};
};

// Seconds from 5 ms to 10 min.
std::vector<double> SecondsBuckets();

// name="value" pairs; a value may be any UTF-8 text.
using MetricLabels = std::vector<std::pair<std::string, std::string>>;

// Asking twice for the same name and labels gives the same object. A name that Prometheus does not
// allow, or one that has another type already, ends the program: names are ours. Objects live as
// long as the registry, or until they are removed. Keep values of labels few: each makes a series.
class Metrics {
 public:
  Counter& AddCounter(std::string_view name, std::string_view help, MetricLabels labels = {});
  Gauge& AddGauge(std::string_view name, std::string_view help, MetricLabels labels = {});
  // read is called by Render.
  void AddGauge(std::string_view name, std::string_view help, std::function<double()> read,
                MetricLabels labels = {});
  Histogram& AddHistogram(std::string_view name, std::string_view help, std::vector<double> bounds,
                          MetricLabels labels = {});

  // The object with that name and these labels is gone, if there is one. Nobody may use it any
  // more.
  void Remove(std::string_view name, const MetricLabels& labels);

  // The content of /metrics, of the type kContentType.
  std::string Render() const;
  static constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  enum class Type : std::uint8_t { kCounter, kGauge, kHistogram };
  struct Series {
    MetricLabels labels;
    std::unique_ptr<Counter> counter = nullptr;
    std::unique_ptr<Gauge> gauge = nullptr;
    std::function<double()> read = nullptr;
    std::unique_ptr<Histogram> histogram = nullptr;
  };
  struct Family {
    std::string name, help;
    Type type;
    std::vector<std::unique_ptr<Series>> series;
  };

  // Needs the lock.
  Series& FindSeries(std::string_view name, std::string_view help, Type type, MetricLabels labels);

  mutable std::mutex mutex_;
  std::vector<Family> families_;  // in the order they came
};

}  // namespace hone::serve
