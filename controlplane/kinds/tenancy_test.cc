#include <gtest/gtest.h>

#include "apiserver/testing/fake_server.h"
#include "controlplane/kinds/kcp_kinds.h"

namespace kintsugi::controlplane {
namespace {

using apiserver::testing::Exchange;
using krm::Json;

constexpr const char* kWorkspaces = "/apis/tenancy.kcp.io/v1alpha1/workspaces";

class WorkspaceKind : public ::testing::Test {
 protected:
  Exchange create(std::string_view name, std::string_view spec) {
    Json object = Json::object({{"apiVersion", "tenancy.kcp.io/v1alpha1"}, {"kind", "Workspace"}});
    object.make({"metadata", "name"}) = name;
    object["spec"] = *Json::parse(spec);
    return server_.send("POST", kWorkspaces, object);
  }
  std::string merge(const std::string& target, std::string_view body) {
    Exchange answer = server_.send("PATCH", kWorkspaces + target, body,
                                   {{"content-type", "application/merge-patch+json"}});
    return std::to_string(answer.status()) + " " + std::string(answer.json().text({"message"}));
  }

  apiserver::testing::FakeServer server_{{workspace_kind()}, "lc"};
};

TEST_F(WorkspaceKind, WhenNamesAreWrong_AM486_IsInvalid) {
  Exchange answer = create("a.b", R"({"type":{"name":"universal"}})");
  EXPECT_EQ(answer.status(), 422);
  EXPECT_NE(answer.body().find("metadata.name in body should match"), std::string::npos);
  EXPECT_EQ(create("a-b", R"({"type":{"name":"universal"}})").status(), 201);
  EXPECT_EQ(create(std::string(63, 'a'), R"({"type":{"name":"universal"}})").status(), 201);
  Exchange longer = create(std::string(64, 'a'), R"({"type":{"name":"universal"}})");
  const std::string message(longer.json().text({"message"}));
  EXPECT_NE(message.find("metadata.name: Too long: may not be more than 63 bytes, <nil>: Invalid "
                         "value: null: some validation rules were not checked"),
            std::string::npos)
      << message;
}

TEST_F(WorkspaceKind, WhenInitializersAreWrong_KK021_OnlyOneAnchorBindsEach) {
  ASSERT_EQ(create("w", R"({"type":{"name":"universal"}})").status(), 201);
  const auto initializers = [&](std::string_view name) {
    return merge("/w/status", R"({"status":{"initializers":[")" + std::string(name) + "\"]}}")
        .substr(0, 3);
  };
  for (const char* name : {"root:ab", "system:x", "a:bc!", "Xsystem:y"}) {
    EXPECT_EQ(initializers(name), "200") << name;
  }
  for (const char* name : {"x", "root:a", "system:", ""}) {
    EXPECT_EQ(initializers(name), "422") << name;
  }
}

TEST_F(WorkspaceKind, WhenSetFieldsChange_AM487_IsInvalid) {
  ASSERT_EQ(create("w", R"({"cluster":"abc","URL":"https://x/clusters/abc",
                            "type":{"name":"universal","path":"root"}})")
                .status(),
            201);
  const std::string lead = "422 Workspace.tenancy.kcp.io \"w\" is invalid: ";
  EXPECT_EQ(merge("/w", R"({"spec":{"cluster":"zzz"}})"),
            lead + "spec.cluster: Invalid value: \"zzz\": cluster is immutable");
  EXPECT_NE(merge("/w", R"({"spec":{"cluster":null}})").find("cluster cannot be unset"),
            std::string::npos);
  EXPECT_NE(merge("/w", R"({"spec":{"URL":null}})").find("URL cannot be unset"), std::string::npos);
  EXPECT_NE(merge("/w", R"({"spec":{"type":{"name":"other"}}})").find("name is immutable"),
            std::string::npos);
  EXPECT_NE(merge("/w", R"({"spec":{"type":{"path":"root:x"}}})").find("path is immutable"),
            std::string::npos);
  EXPECT_TRUE(merge("/w", R"({"metadata":{"labels":{"a":"b"}}})").starts_with("200"));
}

TEST_F(WorkspaceKind, WhenThePhaseIsUnknown_TheRulesAreNotRun) {
  ASSERT_EQ(create("w", R"({"type":{"name":"universal"}})").status(), 201);
  const std::string answer = merge("/w/status", R"({"status":{"phase":"Bogus"}})");
  EXPECT_NE(answer.find("status.phase: Unsupported value: \"Bogus\""), std::string::npos) << answer;
  EXPECT_NE(answer.find("some validation rules were not checked"), std::string::npos) << answer;
}

}  // namespace
}  // namespace kintsugi::controlplane
