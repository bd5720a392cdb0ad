#include "topology/fleet/internal/access.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "krm/yaml.h"

namespace kintsugi::topology {
namespace {

using krm::Json;

const std::string kPem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

FleetOptions options() {
  FleetOptions out;
  out.own = {"proxy.example:6443"};
  out.allow = {"127.0.0.1", "10.9.0.0/16"};
  return out;
}

std::string judged(const std::string& server) {
  const FleetOptions with = options();
  const auto wrong = FleetServers(with).judge(server);
  return wrong ? std::string(fleet_reason_name(wrong->reason)) + " " + wrong->message : "";
}

TEST(FleetServersTest, GR_701_WhatIsNearThisMachineOrNotHttps_IsRefused) {
  EXPECT_EQ(judged("https://berlin.example:6443"), "");
  EXPECT_EQ(judged("https://10.0.0.1:6443"), "");   // private networks are where clusters are
  EXPECT_EQ(judged("https://127.0.0.1:6443"), "");  // allowed
  EXPECT_EQ(judged("http://berlin.example"),
            "BadServer server \"http://berlin.example\" is no https URL");
  EXPECT_EQ(judged("https://proxy.example:6443"),
            "BadServer server \"https://proxy.example:6443\" is the proxy itself");
  for (const char* server :
       {"https://127.0.0.2", "https://[::1]:6443", "https://[::ffff:127.0.0.3]",
        "https://localhost", "https://a.localhost:1", "https://169.254.169.254",
        "https://0.0.0.0:6443", "https://[fe80::1]", "https://224.0.0.1", "https://2130706433",
        "https://0x7f.1", "https://user:word@berlin.example", "ftp://berlin.example",
        "berlin.example", ""}) {
    EXPECT_TRUE(judged(server).starts_with("BadServer ")) << server << ": " << judged(server);
  }
  EXPECT_LT(judged("https://" + std::string(100'000, 'a')).size(), 300U);
}

Judged<FleetAccess> cluster_of(const std::string& yaml, const FleetOptions& with = options()) {
  return read_fleet_cluster(*krm::parse_yaml(yaml), with, FleetServers(with));
}

TEST(FleetAccessTest, GR_702_AClusterOfAProfile_IsReadAndBounded) {
  const auto read =
      cluster_of("{server: https://a.example/, certificate-authority-data: " + base64_encode(kPem) +
                 ", tls-server-name: kubernetes.default, "
                 "proxy-url: 'http://p.example:3128'}");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->server, "https://a.example");
  EXPECT_EQ(read->ca_pem, kPem);
  EXPECT_EQ(read->server_name, "kubernetes.default");
  EXPECT_EQ(read->proxy_url, "http://p.example:3128");
  const auto reason = [](const std::string& yaml) {
    const auto judged = cluster_of("{server: https://a.example, " + yaml + "}");
    return judged ? ""
                  : std::string(fleet_reason_name(judged.error().reason)) + " " +
                        judged.error().message;
  };
  EXPECT_EQ(
      reason("certificate-authority-data: " + base64_encode(kPem + std::string(1'000'000, 'x'))),
      "BadCertificate certificate-authority-data: longer than 64 KiB");
  EXPECT_EQ(reason("certificate-authority-data: '!'"),
            "BadCertificate certificate-authority-data: is not base64");
  EXPECT_EQ(reason("certificate-authority-data: AAAA"),
            "BadCertificate certificate-authority-data: holds no PEM");
  EXPECT_EQ(reason("certificate-authority: /etc/shadow"),
            "BadCertificate certificate-authority: names a file; certificate-authority-data does "
            "not");
  EXPECT_EQ(reason("proxy-url: 'socks5://p.example'"),
            "BadServer proxy-url: only http://host:port is supported");
  EXPECT_EQ(reason("insecure-skip-tls-verify: true"),
            "BadServer insecure-skip-tls-verify: refused without topology.fleet.insecure");
  FleetOptions insecure = options();
  insecure.insecure = true;
  EXPECT_TRUE(cluster_of("{server: https://a.example, insecure-skip-tls-verify: true}", insecure)
                  ->insecure);
}

std::string kubeconfig(const std::string& user, const std::string& server = "https://a.example") {
  return "{current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}], "
         "clusters: [{name: k, cluster: {server: '" +
         server + "'}}], users: [{name: u, user: {" + user + "}}]}";
}

std::string refused(const std::string& text, std::string_view context = {}) {
  const FleetOptions with = options();
  const auto judged = read_fleet_kubeconfig(text, context, with, FleetServers(with));
  return judged
             ? ""
             : std::string(fleet_reason_name(judged.error().reason)) + " " + judged.error().message;
}

TEST(FleetAccessTest, GR_702_WhatAKubeconfigOfAHubMustNotHave_IsRefused) {
  EXPECT_EQ(refused(kubeconfig("token: t")), "");
  for (const char* user :
       {"exec: {command: /bin/true, apiVersion: client.authentication.k8s.io/v1}",
        "auth-provider: {name: oidc}", "client-certificate: /etc/passwd", "tokenFile: /etc/shadow",
        "client-key: k", "token: t, as: admin", "token: t, as-groups: [system:masters]"}) {
    EXPECT_TRUE(refused(kubeconfig(user)).starts_with("BadKubeconfig ")) << user;
  }
  EXPECT_EQ(refused(kubeconfig("")), "BadKubeconfig the user has no credential");
  EXPECT_EQ(refused(kubeconfig("token: \"a\\nb\"")),
            "BadKubeconfig token: too long, or has characters that no header can have");
  EXPECT_EQ(refused(kubeconfig("client-certificate-data: " + base64_encode(kPem))),
            "BadKubeconfig client-key-data: missing");
  EXPECT_EQ(refused(kubeconfig("token: t", "http://a.example")),
            "BadServer server \"http://a.example\" is no https URL");
  EXPECT_EQ(refused(kubeconfig("token: t"), "other"), "BadKubeconfig no context \"other\"");
  EXPECT_EQ(refused("a secret that is no YAML: ["), "BadKubeconfig is no kubeconfig");
  EXPECT_EQ(refused(std::string(300'000, ' ')), "BadKubeconfig longer than 256 KiB");
  EXPECT_EQ(refused("{current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}]}"),
            "BadKubeconfig context \"c\" names no cluster, or no user");
}

}  // namespace
}  // namespace kintsugi::topology
