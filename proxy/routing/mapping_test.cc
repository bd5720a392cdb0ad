#include "proxy/routing/mapping.h"

#include <gtest/gtest.h>

namespace kintsugi::proxy {
namespace {

constexpr const char* kFile = "/etc/kcp/mapping.yaml";
constexpr const char* kFiles =
    "  backend_server_ca: ca.crt\n  proxy_client_cert: rh.crt\n  proxy_client_key: rh.key\n";

std::string fault(const std::string& text) {
  const auto entries = parse_mapping(text, kFile);
  return entries ? "accepted" : std::string(entries.error().message());
}

TEST(Mapping, WhenKcpsOwnFilesAreRead_FP105_TheirEntriesAreThere) {
  // What kcp-operator and sharded-test-server write.
  const auto entries = parse_mapping(
      "- path: /clusters/\n  backend: https://root:6443\n" + std::string(kFiles) +
          "- path: /services/\n  backend: https://root:6444/vw/\n" + kFiles +
          "- path: /e2e/clusters/{cluster}/\n  backend: https://localhost:2443\n" + kFiles +
          "  user_header: X-User\n  group_header: X-Group\n  extra_header_prefix: X-More-\n" +
          "- path: /own/\n  backend: https://[::1]:1\n  uid_header: X-Uid\n  static: true\n" +
          "  server_name: inside.example\n" + kFiles,
      kFile);
  ASSERT_TRUE(entries) << entries.error().to_string();
  ASSERT_EQ(entries->size(), 4U);
  EXPECT_TRUE((*entries)[0].is_clusters());
  EXPECT_EQ((*entries)[0].ca_file, "ca.crt");
  EXPECT_EQ((*entries)[0].cert_file, "rh.crt");
  EXPECT_EQ((*entries)[0].key_file, "rh.key");
  EXPECT_FALSE((*entries)[0].own_names);
  EXPECT_EQ((*entries)[1].backend, "https://root:6444/vw/");
  EXPECT_FALSE((*entries)[1].is_static);
  EXPECT_EQ((*entries)[2].segments, (std::vector<std::string>{"e2e", "clusters", "{cluster}"}));
  EXPECT_EQ((*entries)[2].identity.user_headers, (std::vector<std::string>{"X-User"}));
  EXPECT_EQ((*entries)[2].identity.group_headers, (std::vector<std::string>{"X-Group"}));
  EXPECT_EQ((*entries)[2].identity.uid_headers, (std::vector<std::string>{"X-Remote-Uid"}));
  EXPECT_EQ((*entries)[2].identity.extra_prefixes, (std::vector<std::string>{"X-More-"}));
  EXPECT_TRUE((*entries)[2].own_names);
  EXPECT_EQ((*entries)[2].line, 11U);
  EXPECT_TRUE((*entries)[3].is_static);
  EXPECT_EQ((*entries)[3].server_name, "inside.example");
  EXPECT_EQ((*entries)[3].identity.uid_headers, (std::vector<std::string>{"X-Uid"}));
}

TEST(Mapping, WhenThereIsNothing_FP105_ThereAreNoEntries) {
  for (const char* empty : {"", "# nothing\n", "[]\n", "null\n"}) {
    const auto entries = parse_mapping(empty, kFile);
    ASSERT_TRUE(entries) << empty;
    EXPECT_TRUE(entries->empty());
  }
}

TEST(Mapping, WhenItIsBroken_FP101_NamesFileAndLine) {
  const std::string files(kFiles);
  const std::string one = "- path: /a/\n  backend: https://a\n" + files;
  EXPECT_EQ(fault("- path: /a/\n  backend: https://a\n  bakend: x\n" + files),
            "/etc/kcp/mapping.yaml:3: bakend: unknown key");
  EXPECT_EQ(fault(one + one), "/etc/kcp/mapping.yaml:6: path: /a/ is there already, in line 1");
  EXPECT_EQ(fault("- path: /a/{x}/\n  backend: https://a\n" + files +
                  "- path: /a/{y}\n  backend: https://a\n" + files),
            "/etc/kcp/mapping.yaml:6: path: /a/{y} is there already, in line 1");
  EXPECT_EQ(fault("- backend: https://a\n" + files), "/etc/kcp/mapping.yaml:1: path: is required");
  EXPECT_EQ(fault("- path: /a/\n" + files), "/etc/kcp/mapping.yaml:1: backend: is required");
  EXPECT_EQ(fault("- path: /a/\n  backend: ftp://a\n" + files),
            "/etc/kcp/mapping.yaml:2: backend: must be an http or https URL");
  EXPECT_EQ(fault("- path: /a/\n  backend: https://a\n"),
            "/etc/kcp/mapping.yaml:1: backend_server_ca: is required");
  EXPECT_EQ(fault("- path: /clusters/\n  backend_server_ca: x\n  proxy_client_cert: z\n"),
            "/etc/kcp/mapping.yaml:1: proxy_client_key: is required");
  EXPECT_EQ(fault(one + "- path: a/\n"), "/etc/kcp/mapping.yaml:6: path: must begin with /");
  EXPECT_EQ(fault("- path: /a//b\n"),
            "/etc/kcp/mapping.yaml:1: path: must have no empty or dot segments");
  EXPECT_EQ(fault("- path: /a/{b}c\n"), "/etc/kcp/mapping.yaml:1: path: \"{b}c\" is no {name}");
  EXPECT_EQ(fault("- path: /{cluster}/{cluster}\n"),
            "/etc/kcp/mapping.yaml:1: path: has {cluster} twice");
  EXPECT_EQ(fault("- path: 3\n"), "/etc/kcp/mapping.yaml:1: path: must be text");
  EXPECT_EQ(fault("- path: /a\n  static: 1\n"),
            "/etc/kcp/mapping.yaml:2: static: must be true or false");
  EXPECT_EQ(fault("path: /a\n"), "/etc/kcp/mapping.yaml:1: must be a list of entries");
  EXPECT_EQ(fault("- 3\n"), "/etc/kcp/mapping.yaml:1: entry 0 must have keys");
  EXPECT_NE(fault("- path: [\n").find("yaml: line "), std::string::npos);
  std::string deep = "- path: ";
  for (int i = 0; i < 33; ++i) {
    deep += "/a";
  }
  EXPECT_EQ(fault(deep + "\n"), "/etc/kcp/mapping.yaml:1: path: must have at most 32 segments");
}

TEST(Mapping, WhenTheBackendIsPlainHttp_NoFilesAreNeeded) {
  EXPECT_EQ(fault("- path: /\n  backend: http://127.0.0.1:8080\n"), "accepted");
}

}  // namespace
}  // namespace kintsugi::proxy
