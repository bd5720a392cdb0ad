#include "krm/version_order.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kintsugi::krm {
namespace {

TEST(VersionOrder, WhenAM105VersionsAreSorted_GaComesFirst) {
  const std::vector<std::string> sorted = {"v10", "v2", "v1", "v1beta1", "v1alpha1", "foo"};
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    for (std::size_t k = 0; k < sorted.size(); ++k) {
      EXPECT_EQ(is_preferred_version(sorted[i], sorted[k]), i < k) << sorted[i] << sorted[k];
    }
  }
}

}  // namespace
}  // namespace kintsugi::krm
