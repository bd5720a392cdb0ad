#include "apiserver/internal/openapi_texts.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "krm/types/builtin_types.h"

namespace kintsugi::apiserver::internal {
namespace {

TEST(OpenApiText, WhenATypeOrFieldIsKnown_SaysWhatItIs) {
  EXPECT_EQ(openapi_text("ConfigMap", ""), "Configuration data: texts and bytes under names.");
  EXPECT_EQ(openapi_text("OwnerReference", "name"), "Name of the owner.");
  EXPECT_EQ(openapi_text("ConfigMap", "none"), "");
  EXPECT_EQ(openapi_text("", ""), "");
}

TEST(OpenApiText, WhenTheTableNamesAField_TheTypeHasIt) {
  std::string type;
  for (const std::string_view row : split(openapi_texts(), '\n')) {
    const std::size_t colon = row.find(": ");
    if (row.empty()) {
      continue;
    }
    ASSERT_NE(colon, std::string_view::npos) << row;
    const std::string_view name = trim(row.substr(0, colon));
    if (row.front() != ' ') {
      type = name;
      ASSERT_NE(krm::builtin_type(type), nullptr) << type;
      continue;
    }
    const bool known =
        krm::builtin_type(type)->property(name) != nullptr ||
        (type == "Event" && krm::builtin_type("events.Event")->property(name) != nullptr);
    EXPECT_TRUE(known) << type << '.' << name;
  }
}

}  // namespace
}  // namespace kintsugi::apiserver::internal
