#include "server/config_check.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "net/x509_maker.h"
#include "server/files.h"
#include "server/kubeconfig.h"

namespace kintsugi::server {
namespace {

class ConfigCheckTest : public testing::Test {
 protected:
  ConfigCheckTest() {
    char name[] = "/tmp/kintsugi-config-check-XXXXXX";
    folder_ = ::mkdtemp(name);
    ca_ = std::move(*net::make_ca("test-ca"));
    write("ca.crt", ca_.certificate_pem);
    const net::KeyPair server = issue({.common_name = "proxy",
                                       .organizations = {},
                                       .dns_names = {"k.example.test"},
                                       .ip_addresses = {"127.0.0.1"},
                                       .server = true});
    const net::KeyPair client = issue({.common_name = "p",
                                       .organizations = {},
                                       .dns_names = {},
                                       .ip_addresses = {},
                                       .client = true});
    write("proxy.crt", server.certificate_pem);
    write("proxy.key", server.key_pem.view());
    write("client.crt", client.certificate_pem);
    write("client.key", client.key_pem.view());
    write("root.kubeconfig",
          render_kubeconfig({{"base", "https://127.0.0.1:1"}}, "u", ca_.certificate_pem,
                            client.certificate_pem, client.key_pem.view()));
  }
  ~ConfigCheckTest() override { std::filesystem::remove_all(folder_); }
  net::KeyPair issue(const net::CertificateRequest& request) {
    return std::move(*net::issue(ca_, request));
  }
  void write(const std::string& name, std::string_view text, unsigned mode = 0600) {
    ASSERT_TRUE(write_file(folder_ + "/" + name, text, mode));
  }
  /// Findings of the configuration after `change`, with folders taken away.
  std::vector<std::string> findings(
      const std::vector<std::pair<std::string, std::string>>& change = {},
      std::int64_t now = std::time(nullptr)) {
    std::string text =
        "apiVersion: kintsugi.dev/v1alpha1\nkind: ProxyConfiguration\n"
        "external_url: https://k.example.test:6443\n"
        "listener: {cert_file: proxy.crt, key_file: proxy.key}\n"  // 4
        "authentication: {client_ca_file: ca.crt}\n"               // 5
        "topology:\n"
        "  root_kubeconfig: root.kubeconfig\n"  // 7
        "  shards_kubeconfig: root.kubeconfig\n"
        "backend: {ca_file: ca.crt, cert_file: client.crt, key_file: client.key}\n"  // 9
        "data_dir: data\n";                                                          // 10
    for (const auto& [from, to] : change) {
      const std::size_t at = text.find(from);
      EXPECT_NE(at, std::string::npos) << from;
      text.replace(at, from.size(), to);
    }
    LoadedProxyConfig loaded;
    loaded.path = folder_ + "/proxy.yaml";
    auto config = proxy::parse_proxy_config(text, loaded.path, {}, &loaded.origin);
    if (!config) {
      return {std::string(config.error().message())};
    }
    loaded.config = std::move(*config);
    const ConfigCheck check = check_files(loaded, now);
    EXPECT_GT(check.checks, 10U);
    std::vector<std::string> out;
    for (const ConfigFinding& one : check.findings) {
      std::string line = (one.is_error ? "" : "warning ") + one.text;
      for (std::size_t at = line.find(folder_ + "/"); at != std::string::npos;
           at = line.find(folder_ + "/")) {
        line.erase(at, folder_.size() + 1);
      }
      out.push_back(std::move(line));
    }
    return out;
  }

  std::string folder_;
  net::KeyPair ca_;
};

using Texts = std::vector<std::string>;

TEST_F(ConfigCheckTest, OP105_WhatIsRightHasNoFindings) { EXPECT_EQ(findings(), Texts()); }

TEST_F(ConfigCheckTest, OP105_AFileIsNotThereOrNotWhatItShouldBe) {
  write("empty", "");
  write("text", "no certificate");
  struct Row {
    std::string from, to;
    Texts expected;
  };
  const Row rows[] = {
      {"cert_file: proxy.crt",
       "cert_file: none.crt",
       {"proxy.yaml:4: listener.cert_file: none.crt cannot be read: No such file or directory"}},
      {"cert_file: proxy.crt",
       "cert_file: text",
       {"proxy.yaml:4: listener.cert_file: text holds no certificate"}},
      {"cert_file: proxy.crt",
       "cert_file: empty",
       {"proxy.yaml:4: listener.cert_file: empty is empty"}},
      {"key_file: proxy.key",
       "key_file: client.key",
       {"proxy.yaml:4: listener.key_file: is not the key of listener.cert_file"}},
      {"cert_file: proxy.crt, key_file: proxy.key",
       "cert_file: client.crt, key_file: client.key",
       {"proxy.yaml:4: listener.cert_file: is not for servers",
        "warning proxy.yaml:4: listener.cert_file: does not name \"k.example.test\", the host of "
        "external_url (names: none)"}},
      {"cert_file: client.crt, key_file: client.key",
       "cert_file: proxy.crt, key_file: proxy.key",
       {"proxy.yaml:9: backend.cert_file: is not for clients"}},
      {"client_ca_file: ca.crt",
       "client_ca_file: proxy.crt",
       {"proxy.yaml:5: authentication.client_ca_file: is not a CA: proxy"}},
      {"client_ca_file: ca.crt",
       "client_ca_file: text",
       {"proxy.yaml:5: authentication.client_ca_file: text holds no certificate"}},
      {"root_kubeconfig: root.kubeconfig",
       "root_kubeconfig: none",
       {"proxy.yaml:7: topology.root_kubeconfig: none: No such file or directory"}},
      {"data_dir: data", "data_dir: text", {"proxy.yaml:10: data_dir: text is no folder"}},
      {"external_url: https://k.example.test:6443",
       "external_url: https://other.test",
       {"warning proxy.yaml:4: listener.cert_file: does not name \"other.test\", the host of "
        "external_url (names: k.example.test, 127.0.0.1)"}},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(findings({{row.from, row.to}}), row.expected) << row.to;
  }
}

TEST_F(ConfigCheckTest, OP105_AllFindingsAreTold) {
  const Texts all =
      findings({{"cert_file: proxy.crt", "cert_file: a"},
                {"client_ca_file: ca.crt", "client_ca_file: b"},
                {"ca_file: ca.crt, cert_file: client.crt", "ca_file: c, cert_file: d"},
                {"root_kubeconfig: root.kubeconfig", "root_kubeconfig: e"}});
  EXPECT_EQ(all.size(), 5U);
}

TEST_F(ConfigCheckTest, OP105_CertificatesThatEndSoonOrHaveEnded) {
  const std::int64_t now = std::time(nullptr);
  const std::int64_t day = 86'400;
  const Texts soon = findings({}, now + 359 * day + day / 2);
  ASSERT_FALSE(soon.empty());
  EXPECT_EQ(soon.front(), "warning proxy.yaml:4: listener.cert_file: ends in 5 days");
  const Texts ended = findings({}, now + 368 * day);
  ASSERT_FALSE(ended.empty());
  EXPECT_TRUE(ended.front().starts_with("proxy.yaml:4: listener.cert_file: ended 3 days ago (20"))
      << ended.front();
  const Texts early = findings({}, now - 10 * day);
  ASSERT_FALSE(early.empty());
  EXPECT_TRUE(early.front().starts_with("proxy.yaml:4: listener.cert_file: is not valid before "))
      << early.front();
}

TEST_F(ConfigCheckTest, OP105_SecretsThatOthersReadAreRefusedAndNeverShown) {
  ASSERT_EQ(::chmod((folder_ + "/proxy.key").c_str(), 0644), 0);
  const Texts all = findings();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_TRUE(
      all.front().starts_with("proxy.yaml:4: listener.key_file: proxy.key cannot be read: "))
      << all.front();
  EXPECT_EQ(all.front().find("PRIVATE"), std::string::npos);
}

TEST(ConfigReport, OP105_TheLastLineSaysHowItWent) {
  ConfigCheck check;
  check.checks = 23;
  EXPECT_EQ(report_text(check, "proxy.yaml"), "proxy.yaml: ok (23 checks)\n");
  check.findings = {{false, "w"}};
  EXPECT_EQ(report_text(check, "proxy.yaml"),
            "warning: w\nproxy.yaml: ok (23 checks, 1 warning)\n");
  check.findings.push_back({true, "e"});
  EXPECT_EQ(report_text(check, "proxy.yaml"),
            "warning: w\nerror: e\nproxy.yaml: 1 error (23 checks, 1 warning)\n");
}

TEST_F(ConfigCheckTest, GR_701_TheHubAndTheProviders_AreChecked) {
  const auto with = [this](const std::string& fleet) {
    return findings(
        {{"topology:\n  root_kubeconfig: root.kubeconfig\n"
          "  shards_kubeconfig: root.kubeconfig\n",
          "topology: {source: clusterprofiles, fleet: {" + fleet + "}}\n"}});
  };
  EXPECT_EQ(with("kubeconfig: root.kubeconfig"), std::vector<std::string>{});
  const auto missing = with("kubeconfig: hub.kubeconfig");
  ASSERT_EQ(missing.size(), 1U);
  EXPECT_NE(missing.front().find("topology.fleet.kubeconfig: "), std::string::npos);
  write("providers.json", R"({"providers": [{"name": "a", "execConfig": {}}]})");
  const auto wrong = with("kubeconfig: root.kubeconfig, provider_file: providers.json");
  ASSERT_FALSE(wrong.empty());
  EXPECT_NE(wrong.front().find("topology.fleet.provider_file: "), std::string::npos);
  EXPECT_NE(wrong.front().find("providers[0].execConfig.apiVersion: must be one of"),
            std::string::npos);
}

}  // namespace
}  // namespace kintsugi::server
