#include "apiserver/shard/logical_cluster_controller.h"

#include <gtest/gtest.h>

#include "apiserver/controllers/testing_server.h"
#include "apiserver/keys.h"
#include "apiserver/replicas.h"
#include "store/memory/memory_store.h"

namespace kintsugi::apiserver {
namespace {

class LogicalClusterControllerTest : public ControllerTest {
 protected:
  void put_row(std::string_view resource, std::string_view cluster, std::string_view name) {
    ASSERT_TRUE(store_.commit_wait(
        {{store::EventType::kPut, *object_key(resource, cluster, "", name), "x", std::nullopt}}));
  }
  [[nodiscard]] bool has_row(std::string_view resource, std::string_view cluster,
                             std::string_view name) const {
    return store_.get(*object_key(resource, cluster, "", name)).has_value();
  }

  store::MemoryStore store_;
  ClusterIndex index_;
};

TEST_F(LogicalClusterControllerTest, AM489_WhenAClusterIsGone_ItsRowsAreSwept) {
  const std::string copies = stored_resource(kReplicaGroup, "apiexports");
  for (const char* cluster : {"gone", "other"}) {
    put_row("apiexports.apis.kcp.io", cluster, "widgets");
    put_row(copies, cluster, "widgets");
    put_row("widgets.ex.io:0a1b", cluster, "w");
    put_row("zebras.ex.io", cluster, "z");
  }
  LogicalClusterController controller(
      context(),
      {"one", store_, index_, [] { return std::string(); }, [](std::string_view, bool) {}});
  controller.start();
  controller.add_cluster("gone");
  server_.run(controller);
  EXPECT_FALSE(has_row("apiexports.apis.kcp.io", "gone", "widgets"));
  EXPECT_FALSE(has_row("widgets.ex.io:0a1b", "gone", "w"));
  EXPECT_FALSE(has_row("zebras.ex.io", "gone", "z"));
  EXPECT_TRUE(has_row(copies, "gone", "widgets")) << "it may live on another shard";
  for (const std::string& resource :
       {std::string("apiexports.apis.kcp.io"), copies, std::string("widgets.ex.io:0a1b")}) {
    const char* name = resource.starts_with("widgets") ? "w" : "widgets";
    EXPECT_TRUE(has_row(resource, "other", name)) << resource;
  }
}

}  // namespace
}  // namespace kintsugi::apiserver
