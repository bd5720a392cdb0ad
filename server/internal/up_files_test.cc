#include "server/internal/up_files.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "proxy/config/config.h"
#include "server/files.h"
#include "server/internal/pki.h"
#include "server/kubeconfig.h"

namespace kintsugi::server {
namespace {

class UpFilesTest : public ::testing::Test {
 protected:
  UpFilesTest() {
    char name[] = "/tmp/kintsugi-up-XXXXXX";
    options.layout.dir = std::string(::mkdtemp(name)) + "/installation";
  }
  ~UpFilesTest() override {
    std::filesystem::remove_all(std::filesystem::path(options.layout.dir).parent_path());
  }
  UpOptions options;
};

TEST_F(UpFilesTest, WhenProxyYamlIsWritten_TheProxyUnderstandsAllOfIt) {
  options.address = "0.0.0.0";
  options.port = 7443;
  options.admin_port = 7444;
  options.wildcard = "deny";
  options.consumers = "required";
  options.tenants.outgoing_allow = {"127.0.0.0/8", "::1"};
  options.tenants.existence = "kcp";
  const std::string text = proxy_config_text(options);
  const auto config = proxy::parse_proxy_config(text, "proxy.yaml");
  ASSERT_TRUE(config) << config.error().to_string() << "\n" << text;
  EXPECT_EQ(config->external_url, "https://127.0.0.1:7443");
  EXPECT_EQ(config->listener.address, "0.0.0.0");
  EXPECT_EQ(config->listener.port, 7443);
  EXPECT_EQ(config->data_dir, options.layout.proxy_data());
  EXPECT_EQ(config->topology.source, "kcp");
  EXPECT_EQ(config->topology.root_kubeconfig, options.layout.proxy_kubeconfig("root"));
  EXPECT_TRUE(config->authentication.workspaces);
  EXPECT_EQ(config->outgoing.allow, options.tenants.outgoing_allow);
  UpOptions defaults;
  defaults.layout = options.layout;
  const auto plain = proxy::parse_proxy_config(proxy_config_text(defaults), "proxy.yaml");
  ASSERT_TRUE(plain) << plain.error().to_string();
  EXPECT_EQ(plain->external_url, "https://127.0.0.1:6443");
  EXPECT_TRUE(plain->outgoing.allow.empty());
}

TEST_F(UpFilesTest, WhenPreparedTwice_CertificatesStayAndConfigurationFollows) {
  ASSERT_TRUE(prepare_installation(options));
  const Pki pki(options.layout.pki());
  const auto before = read_file(pki.certificate("client-ca"));
  ASSERT_TRUE(before);
  for (std::uint32_t i = 0; i < options.shards; ++i) {
    EXPECT_TRUE(file_exists(options.layout.shard(shard_name(i))));
  }
  ASSERT_TRUE(write_file(options.layout.ready_file(), "ready\n"));
  options.port = 7443;
  ASSERT_TRUE(prepare_installation(options));
  EXPECT_EQ(read_file(pki.certificate("client-ca")).value_or(""), *before);
  EXPECT_FALSE(file_exists(options.layout.ready_file()));
  const auto admin = read_kubeconfig(options.layout.admin_kubeconfig());
  ASSERT_TRUE(admin);
  EXPECT_EQ(admin->server, "https://127.0.0.1:7443/clusters/root");
  const auto base = read_kubeconfig(options.layout.admin_kubeconfig(), "base");
  ASSERT_TRUE(base);
  EXPECT_EQ(base->server, "https://127.0.0.1:7443");
}

TEST_F(UpFilesTest, WhenAnInstallationIsInUse_ItCannotBeTakenAgainUntilItIsLeft) {
  {
    const auto first = lock_installation(options.layout);
    ASSERT_TRUE(first) << first.error().to_string();
    const auto second = lock_installation(options.layout);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().message(), options.layout.dir + " is in use by another `kintsugi up`");
  }
  EXPECT_TRUE(lock_installation(options.layout));
}

}  // namespace
}  // namespace kintsugi::server
