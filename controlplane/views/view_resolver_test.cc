#include "controlplane/views/view_resolver.h"

#include <gtest/gtest.h>

#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

auth::UserInfo alice() {
  auth::UserInfo out;
  out.name = "alice";
  return out;
}

class ViewResolverTest : public ::testing::Test {
 protected:
  ViewResolverTest() {
    resolver_.add(
        "apiexport",
        [](const ViewRequest& request) -> Expected<std::optional<apiserver::ClusterTarget>> {
          std::optional<ViewPath> path = split_view_path(request, 2);
          if (!path) {
            return std::nullopt;
          }
          return apiserver::ClusterTarget{
              path->cluster + " of " + path->segments[0] + "|" + path->segments[1], path->api_root,
              path->api_path};
        });
  }
  Expected<std::optional<apiserver::ClusterTarget>> resolve(std::string target) {
    head_.method = "GET";
    head_.target = std::move(target);
    const apiserver::ClusterResolver all = resolver_.wrap(
        [](const http::RequestHead&,
           const auth::UserInfo&) -> Expected<std::optional<apiserver::ClusterTarget>> {
          return std::nullopt;
        });
    return all(head_, alice());
  }
  std::string refusal(std::string target) {
    const auto found = resolve(std::move(target));
    return found ? ""
                 : std::to_string(krm::http_status(found.error())) + " " +
                       std::string(found.error().message());
  }
  int status_with_hops(const char* hops) {
    head_.headers.set("x-kcp-virtual-resource-hops", hops);
    const auto found = resolve("/services/apiexport/root/widgets/clusters/*/api");
    return found ? 200 : krm::http_status(found.error());
  }

  ViewResolver resolver_;
  http::RequestHead head_;
};

TEST_F(ViewResolverTest, WhenPathIsWhole_AM510_SplitsIt) {
  const auto found = resolve("/services/apiexport/root/widgets/clusters/abc/api/v1/pods?watch=1");
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->name, "abc of root|widgets");
  EXPECT_EQ((*found)->api_root, "/services/apiexport/root/widgets/clusters/abc");
  EXPECT_EQ((*found)->rest, "/api/v1/pods?watch=1");
  const auto all = resolve("/services/apiexport/root/my%2Ewidgets/clusters/%2A");
  ASSERT_TRUE(all && *all);
  EXPECT_EQ((*all)->name, "* of root|my.widgets");
  EXPECT_EQ((*all)->rest, "");
}

TEST_F(ViewResolverTest, WhenNameBeginsWithSystem_TP081_TakesItAsName) {
  const auto found = resolve("/services/apiexport/system:admin/w/clusters/system:shard/apis");
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->name, "system:shard of system:admin|w");
}

TEST_F(ViewResolverTest, WhenPathIsNone_AM511_Refuses) {
  const std::string_view ending = ": Path not resolved to a valid virtual workspace";
  for (const char* target :
       {"/services/apiexport/root/widgets", "/services/apiexport/root/widgets/api/v1",
        "/services/apiexport/root/widgets/clusters/", "/services/apiexport//widgets/clusters/*/api",
        "/services/apiexport/root//clusters/*/api", "/services/apiexport?x=/root/w/clusters/*",
        "/services/apiexport/root/widgets/clusters/root:none/api", "/services/other/x",
        "/services/"}) {
    const std::string text = refusal(target);
    const std::string path(std::string_view(target).substr(0, std::string_view(target).find('?')));
    EXPECT_EQ(text, "403 forbidden: User \"alice\" cannot get path \"" + path + "\"" +
                        std::string(ending))
        << target;
  }
}

TEST_F(ViewResolverTest, WhenOutsideOfServices_AsksTheOther) {
  const auto found = resolve("/clusters/root/api");
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->has_value());
  EXPECT_TRUE(resolve("/servicesx/apiexport"));
}

TEST_F(ViewResolverTest, WhenForwardedTooOften_TP078_Refuses) {
  for (const char* hops : {"0", "1", "3"}) {
    EXPECT_EQ(status_with_hops(hops), 200) << hops;
  }
  for (const char* hops : {"4", "17", "x", "-1", "3x", "99999999999999999999"}) {
    EXPECT_EQ(status_with_hops(hops), 500) << hops;
  }
}

}  // namespace
}  // namespace kintsugi::controlplane
