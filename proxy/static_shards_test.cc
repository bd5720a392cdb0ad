#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "proxy/config/config.h"

namespace kintsugi::proxy {
namespace {

constexpr std::string_view kHead =
    "apiVersion: kintsugi.dev/v1alpha1\n"
    "kind: ProxyConfiguration\n"
    "listener: {cert_file: a.crt, key_file: a.key}\n"
    "authentication: {client_ca_file: ca.crt}\n";

Expected<ProxyConfig> parse(std::string_view rest) {
  return parse_proxy_config(std::string(kHead) + std::string(rest), "/etc/k/proxy.yaml");
}

std::string fault(std::string_view rest) {
  const auto config = parse(rest);
  return config ? "accepted" : std::string(config.error().message());
}

TEST(StaticShards, WhenTheExampleIsRead_ItIsValid) {
  std::ifstream file(KINTSUGI_SOURCE_DIR "/configs/static.yaml");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto config = parse_proxy_config(text, "/etc/k/proxy.yaml");
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_EQ(config->topology.shards[1].cert_file, "/etc/k/pki/ohio-requestheader.crt");
}

TEST(StaticShards, WhenListed_AreReadInOrder) {
  const auto config = parse(
      "backend: {ca_file: b.crt, cert_file: c.crt, key_file: c.key}\n"
      "topology:\n"
      "  source: static\n"
      "  generation: 7\n"
      "  shards:\n"
      "    - name: b\n"
      "      uid: uid-b\n"
      "      url: https://b.test:6443/k8s/\n"
      "      labels: {zone: z, region: eu}\n"
      "    - {name: a, kubeconfig: a.kubeconfig, identity: impersonate}\n"
      "    - {name: c, url: \"https://c.test\", ca_file: c-ca.crt, cert_file: /p.crt, "
      "key_file: /p.key, server_name: k}\n");
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_EQ(config->topology.generation, 7U);
  EXPECT_EQ(config->wildcard, "serve");
  ASSERT_EQ(config->topology.shards.size(), 3U);
  const StaticShard& first = config->topology.shards[0];
  EXPECT_EQ(first.uid, "uid-b");
  EXPECT_EQ(first.url, "https://b.test:6443/k8s");
  EXPECT_EQ(first.labels,
            (std::vector<std::pair<std::string, std::string>>{{"region", "eu"}, {"zone", "z"}}));
  EXPECT_EQ(config->topology.shards[1].uid, "a");
  EXPECT_EQ(config->topology.shards[1].identity, CallerIdentity::kImpersonate);
  EXPECT_EQ(config->topology.shards[1].kubeconfig, "/etc/k/a.kubeconfig");
  EXPECT_EQ(config->topology.shards[2].cert_file, "/p.crt");
  EXPECT_EQ(config->topology.shards[2].server_name, "k");
}

TEST(StaticShards, WhenWrong_NamesFileLineAndKey) {
  const std::string pair = "backend: {ca_file: b.crt, cert_file: c.crt, key_file: c.key}\n";
  const std::string begin = pair + "topology:\n  source: static\n";
  EXPECT_EQ(fault(begin),
            "/etc/k/proxy.yaml:6: topology.shards: must be a list of 1 to 4096 shards");
  EXPECT_EQ(fault(begin + "  shards: {}\n"),
            "/etc/k/proxy.yaml:8: topology.shards: must be a list");
  EXPECT_EQ(fault(begin + "  shards: [a]\n"),
            "/etc/k/proxy.yaml:8: topology.shards: element 0 must be a section with keys");
  const std::string list = begin + "  shards:\n    - name: a\n      url: https://a.test\n";
  EXPECT_EQ(fault(list), "accepted");
  EXPECT_EQ(
      fault(list + "    - name: b\n      uri: https://b.test\n"),
      "/etc/k/proxy.yaml:12: topology.shards[1].uri: unknown key \"uri\"; did you mean \"url\"?");
  EXPECT_EQ(fault(list + "    - name: B\n      url: https://b.test\n"),
            "/etc/k/proxy.yaml:11: topology.shards[1].name: must be a name of lower-case letters, "
            "digits and '-'");
  EXPECT_EQ(fault(list + "    - name: a\n      url: https://b.test\n"),
            "/etc/k/proxy.yaml:11: topology.shards[1].name: another shard has this name");
  EXPECT_EQ(fault(list + "    - name: b\n      url: https://b.test\n      uid: a\n"),
            "/etc/k/proxy.yaml:13: topology.shards[1].uid: another shard has this uid");
  EXPECT_EQ(fault(list + "    - name: b\n      url: b.test\n"),
            "/etc/k/proxy.yaml:12: topology.shards[1].url: must be an http or https URL");
  EXPECT_EQ(fault(list + "    - name: b\n"),
            "/etc/k/proxy.yaml:11: topology.shards[1].name: url must be an http or https URL");
  EXPECT_EQ(fault(list + "      cert_file: x.crt\n"),
            "/etc/k/proxy.yaml:9: topology.shards[0].name: key_file is required");
  EXPECT_EQ(fault(list + "      identity: guess\n"),
            "/etc/k/proxy.yaml:11: topology.shards[0].identity: must be one of request-header, "
            "impersonate");
  EXPECT_EQ(fault(list + "      identity: impersonate\n"),
            "/etc/k/proxy.yaml:9: topology.shards[0].name: cert_file or token_file or kubeconfig "
            "is required");
  EXPECT_EQ(fault("topology: {source: static, shards: [{name: a, url: \"https://a.test\"}]}\n"),
            "/etc/k/proxy.yaml:5: topology.shards[0].name: ca_file is required without "
            "backend.ca_file");
  EXPECT_EQ(fault("topology: {source: kcp, shards: [{name: a, url: \"https://a.test\"}]}\n"),
            "/etc/k/proxy.yaml:1: backend.ca_file: is required\n"
            "/etc/k/proxy.yaml:1: backend.cert_file: is required\n"
            "/etc/k/proxy.yaml:1: backend.key_file: is required\n"
            "/etc/k/proxy.yaml:5: topology.shards: is for source static only\n"
            "/etc/k/proxy.yaml:5: topology.root_kubeconfig: is required\n"
            "/etc/k/proxy.yaml:5: topology.shards_kubeconfig: is required");
  EXPECT_EQ(fault("topology: {source: static, shards: [{name: a, url: \"http://a.test\"}]}\n"),
            "accepted");
}

}  // namespace
}  // namespace kintsugi::proxy
