#include "krm/types/builtin_texts.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "krm/types/builtin_types.h"
#include "krm/types/internal/tables.h"

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
      if (type == "Time" || type == "MicroTime" || type == "Patch") {
        continue;  // scalars, and what no schema describes
      }
      ASSERT_NE(builtin_type(type), nullptr) << type;
      continue;
    }
    const bool known = builtin_type(type)->property(name) != nullptr ||
                       (type == "Event" && builtin_type("events.Event")->property(name) != nullptr);
    EXPECT_TRUE(known) << type << '.' << name;
  }
}

/// Every type of the tables and every field has a text; apiVersion, kind and metadata of kinds have
/// that of all kinds.
TEST(BuiltinText, WhenATypeIsAdded_EachOfItsFieldsHasAText) {
  for (const std::string_view table :
       {meta_types(), core_types(), events_types(), coordination_types(), rbac_types(),
        authorization_types(), authentication_types(), apiextensions_types(),
        admissionregistration_types()}) {
    for (const std::string_view row : split(table, '\n')) {
      if (row.empty() || row.front() == ' ') {
        continue;
      }
      const std::string_view name = row.substr(0, row.find(' '));
      const SchemaPtr type = builtin_type(name);
      ASSERT_NE(type, nullptr) << name;
      EXPECT_NE(builtin_text(type->type_name, ""), "") << name;
      const bool is_kind =
          type->property("kind") != nullptr && type->property("apiVersion") != nullptr;
      for (const SchemaProperty& field : type->properties) {
        const bool is_common = is_kind && (field.name == "kind" || field.name == "apiVersion" ||
                                           field.name == "metadata");
        EXPECT_TRUE(is_common || !builtin_text(type->type_name, field.name).empty())
            << name << '.' << field.name;
      }
    }
  }
}

}  // namespace
}  // namespace kintsugi::krm
