#include "server/internal/up_files.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "proxy/config/config.h"
#include "server/files.h"
#include "server/internal/pki.h"
#include "server/internal/up_etcd.h"
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
  EXPECT_FALSE(plain->ui.enabled);
  EXPECT_TRUE(plain->ui.workers.empty());
}

TEST_F(UpFilesTest, OP_704_TheConsoleIsAtTheMainPortWhereItIsWanted_AndKnowsTheWorkers) {
  options.ui = true;
  options.workers = {"example", "messaging"};
  const auto config = proxy::parse_proxy_config(proxy_config_text(options), "proxy.yaml");
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_TRUE(config->ui.enabled);
  EXPECT_EQ(config->ui.workers,
            (std::vector<std::string>{options.layout.worker_health("example"),
                                      options.layout.worker_health("messaging")}));
}

TEST_F(UpFilesTest, GR_508_ProxiesOfFarRegionsKnowWhichShardsAreFar) {
  options.shards = 4;
  options.proxies = 2;
  options.uses_etcd = true;
  options.etcd_urls = {"https://a:2379"};
  ASSERT_TRUE(prepare_installation(options));
  const auto one = proxy::parse_proxy_config(proxy_config_text(options, 0), "proxy.yaml");
  ASSERT_TRUE(one) << one.error().to_string();
  EXPECT_EQ(one->region, "") << "nothing is far";
  const std::string text =
      proxy_config_text(options, 1, {}, {.shards = 7001, .etcd = {7002, 7003}});
  const auto far = proxy::parse_proxy_config(text, "proxy.yaml");
  ASSERT_TRUE(far) << far.error().to_string() << "\n" << text;
  EXPECT_EQ(far->region, "us-east-1");
  EXPECT_EQ(far->endpoint_slice.regions.url_of("eu-west-1"), url_of_proxy(options, 0));
  EXPECT_EQ(far->endpoint_slice.regions.url_of("us-east-1"), url_of_proxy(options, 1));
  EXPECT_EQ(far->endpoint_slice.regions.url_of("ap-south-1"), "") << "no proxy is there";
  std::vector<std::string> by_link;
  for (const auto& shard : far->shards) {
    EXPECT_EQ(shard.proxy_url, "http://127.0.0.1:7001");
    by_link.push_back(shard.name);
  }
  EXPECT_EQ(by_link, (std::vector<std::string>{"root", "shard-2", "shard-3"}));
  const auto store = proxy_store_text(options, 1, {7002, 7003});
  ASSERT_TRUE(store);
  EXPECT_NE(store->find(R"(["https://127.0.0.1:7002", "https://127.0.0.1:7003"])"),
            std::string::npos)
      << *store;
}

TEST_F(UpFilesTest, GR_214_SeveralProxiesHaveFoldersAndPortsOfTheirOwnAndOneStore) {
  options.proxies = 3;
  options.uses_etcd = true;
  options.etcd_urls = {"https://a:2379", "https://b:2379"};
  ASSERT_TRUE(prepare_installation(options));
  const std::uint16_t port = port_of_proxy(options, 1);
  EXPECT_NE(port, 0);
  EXPECT_NE(port, port_of_proxy(options, 2));
  ASSERT_TRUE(prepare_installation(options));
  EXPECT_EQ(port_of_proxy(options, 1), port) << "the same at the next start";
  ASSERT_TRUE(write_proxy_configs(options));
  const std::string path = options.layout.proxy_config("proxy-2");
  const auto config = proxy::parse_proxy_config(read_file(path).value_or(""), path);
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_EQ(config->listener.port, port);
  EXPECT_EQ(config->external_url, url_of_proxy(options)) << "slices are the same, whoever writes";
  EXPECT_TRUE(config->store.is_etcd);
  EXPECT_EQ(config->store.endpoints, options.etcd_urls);
  EXPECT_EQ(config->admin.socket, options.layout.run() + "/admin-proxy-2.sock");
  const auto base = read_kubeconfig(options.layout.admin_kubeconfig(), "base-2");
  ASSERT_TRUE(base);
  EXPECT_EQ(base->server, "https://127.0.0.1:" + std::to_string(port));
}

TEST_F(UpFilesTest, GR_214_WhoHasDataInItsFolderStaysWithThat) {
  options.uses_etcd = true;
  options.etcd_urls = {"https://a:2379"};
  ASSERT_TRUE(make_directories(options.layout.proxy_data()));
  ASSERT_TRUE(write_file(options.layout.proxy_data() + "/data.mdb", ""));
  EXPECT_EQ(proxy_store_text(options, 0).value_or("?"), "");
  options.proxies = 2;
  const auto refused = proxy_store_text(options, 0);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("--proxies: the data of the proxy is in"),
            std::string::npos);
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
    EXPECT_EQ(second.error().message(),
              options.layout.dir + " is in use by process " + std::to_string(::getpid()) +
                  ", another `kintsugi up`: end it, or use another --dir");
  }
  EXPECT_TRUE(lock_installation(options.layout));
}

}  // namespace
}  // namespace kintsugi::server
