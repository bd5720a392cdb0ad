#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/work_queue.h"
#include "proxy/admin/admin.h"

/// What the parts of the proxy's metrics text are written with. Threads: the control loop's.
namespace kintsugi::proxy {

/// Appends families in the Prometheus text format. Label values are fixed sets or shard names,
/// which are DNS names.
class MetricsText {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help) {
    out_.append("# HELP ").append(name).append(" ").append(help).append("\n# TYPE ");
    out_.append(name).append(" ").append(type).append("\n");
    name_ = name;
  }
  template <class Number>
  void sample(std::string_view labels, Number value) {
    out_.append(name_);
    if (!labels.empty()) {
      out_.append("{").append(labels).append("}");
    }
    out_.append(" ").append(std::to_string(value)).append("\n");
  }
  /// A series of the family whose name goes on: of a histogram.
  template <class Number>
  void sample_of(std::string_view suffix, const std::string& labels, Number value) {
    const std::size_t length = name_.size();
    name_.append(suffix);
    sample(labels, value);
    name_.resize(length);
  }
  template <class Number>
  void single(std::string_view name, std::string_view type, std::string_view help, Number value) {
    family(name, type, help);
    sample("", value);
  }
  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  std::string out_, name_;
};
/// Label of a shard.
[[nodiscard]] inline std::string shard_label(std::string_view shard) {
  return "shard=\"" + std::string(shard) + "\"";
}

/// Buckets, sum and count of the current family. @param labels  "" for none
void write_histogram(MetricsText& text, const std::string& labels, const net::TimeHistogram& times);

/// Families of merged reads.
void merge_families(MetricsText& text, const std::vector<LoopReport>& loops);

}  // namespace kintsugi::proxy
