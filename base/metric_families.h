#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

/// Metrics for whoever scrapes. Modules count in plain integers of their loops; a MetricSource
/// copies them into families of prometheus-cpp when somebody asks, and its serializer makes the
/// text. Include this in .cc files only: no other header needs prometheus-cpp.
namespace kintsugi {

/// What documents say of a family (docs/metrics.md).
struct MetricAbout {
  std::string name, help;
  prometheus::MetricType type;
  std::vector<std::string> labels;
};

/// Families in the order in which they are begun. Threads: one at a time.
class MetricFamilies {
 public:
  using Texts = std::initializer_list<std::string_view>;
  using Histogram = prometheus::ClientMetric::Histogram;

  /// @{ Begins a family. A name appears once; values of labels come from fixed sets or are names of
  /// shards, never of users, clusters or objects.
  void counter(std::string_view name, std::string_view help, Texts labels = {}) {
    begin(name, help, prometheus::MetricType::Counter, labels);
  }
  void gauge(std::string_view name, std::string_view help, Texts labels = {}) {
    begin(name, help, prometheus::MetricType::Gauge, labels);
  }
  void histogram(std::string_view name, std::string_view help, Texts labels = {}) {
    begin(name, help, prometheus::MetricType::Histogram, labels);
  }
  /// @}
  /// @{ A family of one series without labels.
  template <class Number>
  void counter(std::string_view name, std::string_view help, Number value) {
    counter(name, help);
    sample({}, value);
  }
  template <class Number>
  void gauge(std::string_view name, std::string_view help, Number value) {
    gauge(name, help);
    sample({}, value);
  }
  /// @}

  /// Begins a family that is known at run time only.
  void family(const MetricAbout& about);
  void series(const std::vector<std::string>& values, double value);
  void series(const std::vector<std::string>& values, Histogram histogram);

  /// A series of the family that was begun last. @param values  in the order of its labels.
  template <class Number>
  void sample(Texts values, Number value) {
    add(values, static_cast<double>(value));
  }
  void sample(Texts values, Histogram histogram);

  [[nodiscard]] std::vector<prometheus::MetricFamily> take() { return std::move(families_); }
  [[nodiscard]] std::vector<MetricAbout> about() const;

 private:
  void begin(std::string_view name, std::string_view help, prometheus::MetricType type,
             Texts labels);
  template <class Values>
  prometheus::ClientMetric& add(const Values& values);
  void add(Texts values, double value);
  void set(prometheus::ClientMetric& series, double value) const;

  std::vector<prometheus::MetricFamily> families_;
  std::vector<std::vector<std::string>> labels_;  // of each
};

/// A series of a histogram. @param bounds  of the classes but the last, which has none.
/// @param counts  of each class alone, one more than bounds. @param sum  of all values.
template <class Bounds, class Counts>
[[nodiscard]] MetricFamilies::Histogram buckets_of(const Bounds& bounds, const Counts& counts,
                                                   double sum) {
  MetricFamilies::Histogram out;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    out.sample_count += counts[i];
    out.bucket.push_back({out.sample_count,
                          i < bounds.size() ? bounds[i] : std::numeric_limits<double>::infinity()});
  }
  out.sample_sum = sum;
  return out;
}

/// The metrics of a module.
class MetricSource : public prometheus::Collectable {
 public:
  /// Begins every family that it has, also those without a series at the moment.
  virtual void fill(MetricFamilies& out) const = 0;
  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const final;
};

/// The Prometheus text format, version 0.0.4.
[[nodiscard]] std::string metrics_text(
    std::initializer_list<const prometheus::Collectable*> sources);

}  // namespace kintsugi
