#include "controlplane/kinds/internal/kind_texts.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/strings.h"
#include "controlplane/kinds/kcp_kinds.h"

namespace kintsugi::controlplane {
namespace {

using krm::Schema;

/// All fields of a kind, by path, with what their schemas say.
void collect(const Schema& schema, const std::string& path, StringMap<std::string>& fields) {
  if (!schema.type_name.empty()) {
    return;  // of every object
  }
  for (const krm::SchemaProperty& property : schema.properties) {
    if (path.empty() && property.name != "spec" && property.name != "status") {
      continue;
    }
    const std::string below = path.empty() ? property.name : path + "." + property.name;
    fields[below] = property.schema->description;
    collect(*property.schema, below, fields);
  }
  for (const Schema* inner : {schema.items.get(), schema.additional.get()}) {
    if (inner != nullptr) {
      collect(*inner, path, fields);
    }
  }
}

const std::vector<apiserver::ResourcePtr>& all_kinds() {
  static const auto& kinds =
      *new std::vector<apiserver::ResourcePtr>{shard_kind(),
                                               logical_cluster_kind(),
                                               workspace_kind(),
                                               workspace_type_kind(),
                                               workspace_authentication_kind(),
                                               api_export_kind(),
                                               api_resource_schema_kind(),
                                               api_conversion_kind(),
                                               api_binding_kind(),
                                               api_export_endpoint_slice_kind(),
                                               cached_resource_kind(),
                                               cached_slice_kind(),
                                               migration_kind(),
                                               cluster_dump_kind(),
                                               partition_kind(),
                                               partition_set_kind()};
  return kinds;
}

TEST(KindTexts, WhenAFieldIsServed_ItHasADescription) {
  for (const apiserver::ResourcePtr& kind : all_kinds()) {
    for (const apiserver::ResourceVersion& version : kind->versions) {
      EXPECT_NE(version.schema->description, "") << kind->qualified_name();
      StringMap<std::string> fields;
      collect(*version.schema, "", fields);
      EXPECT_GE(fields.size(), 2U);
      for (const auto& [path, description] : fields) {
        EXPECT_NE(description, "") << kind->qualified_name() << '/' << version.name << ' ' << path;
      }
    }
  }
}

TEST(KindTexts, WhenATextIsThere_AFieldHasIt) {
  StringMap<std::set<std::string>> paths;
  std::set<std::string> said;
  for (const apiserver::ResourcePtr& kind : all_kinds()) {
    for (const apiserver::ResourceVersion& version : kind->versions) {
      StringMap<std::string> fields;
      collect(*version.schema, "", fields);
      for (auto& [path, description] : fields) {
        paths[kind->qualified_name()].insert(path);
        said.insert(std::move(description));
      }
    }
  }
  std::string block;
  for (const std::string_view row : split(kind_texts(), '\n')) {
    const std::size_t colon = row.find(": ");
    if (row.empty() || row.front() != ' ') {
      block = row.substr(0, colon);
      EXPECT_TRUE(row.empty() || block == "shared" || paths.contains(block)) << row;
    } else if (block == "shared") {
      EXPECT_TRUE(said.contains(std::string(row.substr(colon + 2)))) << row;
    } else {
      EXPECT_TRUE(paths[block].contains(std::string(trim(row.substr(0, colon))))) << block << row;
    }
  }
}

TEST(KindTexts, WhenEndsAreShared_TheyBeginWhereANameBegins) {
  const std::string_view kind = "workspaces.tenancy.kcp.io";
  EXPECT_EQ(kind_text(kind, "spec.type.name"), "Name of the type.");
  EXPECT_EQ(kind_text(kind, "status.conditions.type"), "The aspect.");
  EXPECT_EQ(kind_text(kind, "status.myconditions.type"), "");
  EXPECT_EQ(kind_text(kind, "spec.defaultSelector.matchAll"), "All objects of the resource.");
  EXPECT_EQ(kind_text(kind, "spec.new"), "");
  EXPECT_EQ(kind_text("others.x.io", "spec"), "");
}

}  // namespace
}  // namespace kintsugi::controlplane
