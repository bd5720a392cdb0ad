#include "base/metric_families.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <sstream>
#include <utility>

namespace kintsugi {

void MetricFamilies::begin(std::string_view name, std::string_view help,
                           prometheus::MetricType type, Texts labels) {
  prometheus::MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  families_.push_back(std::move(family));
  std::vector<std::string>& names = labels_.emplace_back();
  for (const std::string_view label : labels) {
    names.emplace_back() = label;
  }
}

void MetricFamilies::family(const MetricAbout& about) {
  begin(about.name, about.help, about.type, {});
  labels_.back() = about.labels;
}

void MetricFamilies::series(const std::vector<std::string>& values, double value) {
  set(add(values), value);
}

template <class Values>
prometheus::ClientMetric& MetricFamilies::add(const Values& values) {
  prometheus::ClientMetric series;
  const std::vector<std::string>& names = labels_.back();
  const std::size_t count = std::min(names.size(), values.size());
  series.label.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    prometheus::ClientMetric::Label& label = series.label.emplace_back();
    label.name = names[i];
    label.value = *(std::begin(values) + static_cast<std::ptrdiff_t>(i));
  }
  return families_.back().metric.emplace_back(std::move(series));
}

void MetricFamilies::add(Texts values, double value) { set(add(values), value); }

void MetricFamilies::set(prometheus::ClientMetric& series, double value) const {
  if (families_.back().type == prometheus::MetricType::Counter) {
    series.counter.value = value;
  } else {
    series.gauge.value = value;
  }
}

void MetricFamilies::series(const std::vector<std::string>& values, Histogram histogram) {
  add(values).histogram = std::move(histogram);
}

void MetricFamilies::sample(Texts values, Histogram histogram) {
  add(values).histogram = std::move(histogram);
}

std::vector<MetricAbout> MetricFamilies::about() const {
  std::vector<MetricAbout> out;
  for (std::size_t i = 0; i < families_.size(); ++i) {
    out.push_back({families_[i].name, families_[i].help, families_[i].type, labels_[i]});
  }
  return out;
}

std::vector<prometheus::MetricFamily> MetricSource::Collect() const {
  MetricFamilies families;
  fill(families);
  return families.take();
}

std::string metrics_text(std::initializer_list<const prometheus::Collectable*> sources) {
  std::ostringstream text;
  const prometheus::TextSerializer serializer;
  for (const prometheus::Collectable* source : sources) {
    serializer.Serialize(text, source->Collect());
  }
  return std::move(text).str();
}

}  // namespace kintsugi
