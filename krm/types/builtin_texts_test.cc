#include "krm/types/builtin_texts.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "krm/types/builtin_types.h"

namespace kintsugi::krm {
namespace {

TEST(BuiltinText, WhenATypeOrFieldIsKnown_SaysWhatItIs) {
  EXPECT_EQ(builtin_text("ConfigMap", ""), "Configuration data: texts and bytes under names.");
  EXPECT_EQ(builtin_text("OwnerReference", "name"), "Name of the owner.");
  EXPECT_EQ(builtin_text("ConfigMap", "none"), "");
  EXPECT_EQ(builtin_text("", ""), "");
}

TEST(BuiltinText, WhenTheTableNamesAField_TheTypeHasIt) {
  std::string type;
  for (const std::string_view row : split(builtin_texts(), '\n')) {
    const std::size_t colon = row.find(": ");
    if (row.empty()) {
      continue;
    }
    ASSERT_NE(colon, std::string_view::npos) << row;
    const std::string_view name = trim(row.substr(0, colon));
    if (row.front() != ' ') {
      type = name;
      ASSERT_NE(builtin_type(type), nullptr) << type;
      continue;
    }
    const bool known = builtin_type(type)->property(name) != nullptr ||
                       (type == "Event" && builtin_type("events.Event")->property(name) != nullptr);
    EXPECT_TRUE(known) << type << '.' << name;
  }
}

}  // namespace
}  // namespace kintsugi::krm
