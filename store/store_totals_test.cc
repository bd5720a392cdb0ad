#include "store/store_totals.h"

#include <gtest/gtest.h>

#include "base/metric_families.h"

namespace kintsugi::store {
namespace {

class Page final : public MetricSource {
 public:
  explicit Page(const StoreTotals& totals) : totals_(totals) {}
  void fill(MetricFamilies& out) const override { totals_.fill(out); }

 private:
  const StoreTotals& totals_;
};

TEST(StoreTotals, WhenGroupsAreCommitted_OP401_TheyAreCountedByTimeAndSize) {
  StoreTotals totals;
  totals.committed(1, std::chrono::microseconds(100));
  totals.committed(3, milliseconds(3));
  totals.committed(600, seconds(9));
  totals.failed();
  const Page page(totals);
  const std::string text = metrics_text({&page});
  for (const char* line :
       {"kintsugi_store_commit_duration_seconds_bucket{le=\"0.0001\"} 1\n",
        "kintsugi_store_commit_duration_seconds_bucket{le=\"0.002\"} 1\n",
        "kintsugi_store_commit_duration_seconds_bucket{le=\"0.004\"} 2\n",
        "kintsugi_store_commit_duration_seconds_bucket{le=\"8.192\"} 2\n",
        "kintsugi_store_commit_duration_seconds_bucket{le=\"+Inf\"} 3\n",
        "kintsugi_store_commit_duration_seconds_sum 9.0031\n",
        "kintsugi_store_batch_size_bucket{le=\"4\"} 2\n",
        "kintsugi_store_batch_size_bucket{le=\"512\"} 2\n", "kintsugi_store_batch_size_count 3\n",
        "kintsugi_store_commits_total 604\n", "kintsugi_store_commit_failures_total 1\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

}  // namespace
}  // namespace kintsugi::store
