#include "krm/service_path.h"

#include <gtest/gtest.h>

namespace kintsugi::krm {
namespace {

using Vw = VirtualWorkspace;

TEST(ServicePath, WhenWhole_IsTakenApart) {
  const auto path = parse_service_path(
      "/services/apiexport/root%3Aorg/wid%2Dgets/clusters/%2A/apis/g/v1/widgets?watch=1");
  ASSERT_TRUE(path);
  EXPECT_EQ(path->kind, Vw::kApiExport);
  EXPECT_EQ(path->owner, "root:org");
  EXPECT_EQ(path->object, "wid-gets");
  EXPECT_EQ(path->cluster, "*");
  EXPECT_EQ(path->trail, "/apis/g/v1/widgets?watch=1");
  EXPECT_EQ(service_target(*path, "one", "*"),
            "/services/apiexport/one/wid%2Dgets/clusters/*/apis/g/v1/widgets?watch=1");
}

TEST(ServicePath, WhenATypeHasAPath_TheLastColonDivides) {
  const auto path =
      parse_service_path("/services/initializingworkspaces/root:org:tenant/clusters/two");
  ASSERT_TRUE(path);
  EXPECT_EQ(path->kind, Vw::kInitializing);
  EXPECT_EQ(path->owner, "root:org");
  EXPECT_EQ(path->type, "tenant");
  EXPECT_EQ(path->trail, "");
  EXPECT_EQ(service_target(*path, "one", "two"),
            "/services/initializingworkspaces/one:tenant/clusters/two");
}

TEST(ServicePath, WhenOfAnyKind_ItsPartsAreFound) {
  const struct {
    const char* target;
    Vw kind;
    const char *owner, *object, *cluster;
  } cases[] = {
      {"/services/terminatingworkspaces/c:t/clusters/x/api", Vw::kTerminating, "c", "", "x"},
      {"/services/replication/c/s/clusters/*/apis", Vw::kReplication, "c", "s", "*"},
      {"/services/apiresourceschema/c/clusters/c/apis", Vw::kApiResourceSchema, "c", "", "c"},
      {"/services/migratingworkspaces/clusters/x/apis", Vw::kMigrating, "", "", "x"},
      {"/services/admin/anything?x", Vw::kAdmin, "", "", ""},
      {"/services/marketplace/clusters/root:orgs/api", Vw::kOther, "", "", ""},
  };
  for (const auto& one : cases) {
    const auto path = parse_service_path(one.target);
    ASSERT_TRUE(path) << one.target;
    EXPECT_EQ(path->kind, one.kind) << one.target;
    EXPECT_EQ(path->owner, one.owner) << one.target;
    EXPECT_EQ(path->object, one.object) << one.target;
    EXPECT_EQ(path->cluster, one.cluster) << one.target;
    EXPECT_EQ(service_target(*path, path->owner, path->cluster), one.target);
  }
}

TEST(ServicePath, WhenAPartIsMissing_NothingServesIt) {
  for (const char* target :
       {"/services/", "/services/apiexport", "/services/apiexport/c", "/services/apiexport/c/e",
        "/services/apiexport/c/e/", "/services/apiexport/c/e/clusters",
        "/services/apiexport/c/e/clusters/", "/services/apiexport/c/e/clusters?x=/y",
        "/services/apiexport/c/e/api/v1", "/services/apiexport/c/clusters/*/api",
        "/services/initializingworkspaces/notype/clusters/*",
        "/services/initializingworkspaces/c:/clusters/*",
        "/services/initializingworkspaces/:t/clusters/*", "/services/replication/c/s",
        "/services/apiresourceschema/clusters/c", "/services/migratingworkspaces/x/clusters/c",
        "/services/apiexport/c/%zz/clusters/x",
        "/services/initializingworkspaces/c:t%2Fclusters%2Fx/clusters/two",
        "/services/apiexport/one/e%2Fclusters%2Fx/clusters/one/api"}) {
    EXPECT_FALSE(parse_service_path(target)) << target;
  }
}

}  // namespace
}  // namespace kintsugi::krm
