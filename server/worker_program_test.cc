#include "server/worker_program.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "net/server_credential.h"
#include "net/x509_maker.h"
#include "server/files.h"
#include "server/internal/worker_access.h"
#include "server/internal/worker_files.h"
#include "server/internal/worker_roles.h"
#include "server/kubeconfig.h"

namespace kintsugi::server {
namespace {

class WorkerProgramTest : public ::testing::Test {
 protected:
  WorkerProgramTest() {
    char name[] = "/tmp/kintsugi-worker-XXXXXX";
    folder_ = ::mkdtemp(name);
    config_.kubeconfig = folder_ + "/kubeconfig";
    config_.data_dir = folder_ + "/data";
    config_.metrics = config_.health = WorkerAddress();
    WorkerRoleConfig role;
    role.name = worker_roles().front();
    role.slice_cluster = "root";
    role.slice = "x";
    role.lease_clusters = {"root"};
    config_.roles = {role};
  }
  ~WorkerProgramTest() override { std::filesystem::remove_all(folder_); }

  static net::KeyPair pair_of(const std::string& name) {
    auto ca = net::make_ca("test");
    net::CertificateRequest request;
    request.common_name = name;
    auto pair = ca ? net::issue(*ca, request) : std::move(ca);
    EXPECT_TRUE(pair);
    return pair ? std::move(*pair) : net::KeyPair();
  }
  void write_kubeconfig(const net::KeyPair& certificate, const net::KeyPair& key,
                        const std::string& server = "https://127.0.0.1:6443/clusters/root") {
    const net::KeyPair ca = pair_of("ca");
    const auto written =
        write_file(config_.kubeconfig,
                   render_kubeconfig({{"base", server}}, "me", ca.certificate_pem,
                                     certificate.certificate_pem, key.key_pem.view()),
                   0600);
    ASSERT_TRUE(written);
  }
  void write_right_kubeconfig() {
    const net::KeyPair pair = pair_of("me");
    write_kubeconfig(pair, pair);
  }
  std::string fault() const {
    const auto right = check_worker(config_);
    return right ? "none" : std::string(right.error().message());
  }

  std::string folder_;
  WorkerConfig config_;
};

TEST_F(WorkerProgramTest, RT6_AKubeconfigThatIsRightPasses) {
  write_right_kubeconfig();
  EXPECT_EQ(fault(), "none");
  const auto access = load_worker_access(config_.kubeconfig);
  ASSERT_TRUE(access);
  EXPECT_EQ(access->proxy, (net::Url{"https", "127.0.0.1", 6443, ""}));
  EXPECT_NE(access->tls, nullptr);
}

TEST_F(WorkerProgramTest, RT6_AKubeconfigThatIsMissingOrDoesNotFitIsNamed) {
  EXPECT_NE(fault().find(config_.kubeconfig), std::string::npos) << fault();
  const net::KeyPair one = pair_of("one"), two = pair_of("two");
  write_kubeconfig(one, two);
  EXPECT_NE(fault().find(config_.kubeconfig), std::string::npos) << fault();
  ASSERT_TRUE(write_file(config_.kubeconfig, "apiVersion: v1\nkind: Config\n", 0600));
  EXPECT_NE(fault().find(config_.kubeconfig), std::string::npos) << fault();
}

TEST_F(WorkerProgramTest, RT4_ACredentialThatIsReadAgainIsWhatIsSaidFromThenOn) {
  const auto write = [this](const std::string& server, const std::string& token) {
    ASSERT_TRUE(write_file(config_.kubeconfig,
                           "apiVersion: v1\nkind: Config\ncurrent-context: a\n"
                           "contexts: [{name: a, context: {cluster: a, user: a}}]\n"
                           "clusters: [{name: a, cluster: {server: '" +
                               server + "'}}]\nusers: [{name: a, user: {token: " + token + "}}]\n",
                           0600));
  };
  write("https://127.0.0.1:6443", "one");
  const auto access = load_worker_access(config_.kubeconfig);
  ASSERT_TRUE(access) << access.error().message();
  const auto shared = access->tls;  // as units have it
  EXPECT_EQ(net::authorization_of(*shared), "Bearer one");
  auto* const before = shared->native();
  write("https://127.0.0.1:6443/clusters/root", "two");
  ASSERT_TRUE(renew_worker_access(*access, config_.kubeconfig));
  EXPECT_EQ(net::authorization_of(*shared), "Bearer two");
  EXPECT_NE(shared->native(), before) << "and so is the certificate";
  write("https://elsewhere:6443", "three");
  EXPECT_FALSE(renew_worker_access(*access, config_.kubeconfig)) << "not for this server";
  ASSERT_TRUE(write_file(config_.kubeconfig, "broken", 0600));
  EXPECT_FALSE(renew_worker_access(*access, config_.kubeconfig));
  EXPECT_EQ(net::authorization_of(*shared), "Bearer two");
}

TEST_F(WorkerProgramTest, RT15_AServerThatIsNeitherTheProxyNorAllowedIsRefused) {
  write_right_kubeconfig();
  WorkerRoleConfig& role = config_.roles.front();
  role.slice.clear();
  role.servers = {"https://127.0.0.1:9/shards/root", "https://elsewhere:6443"};
  EXPECT_TRUE(fault().starts_with("roles." + role.name + ".server: https://elsewhere:6443: "))
      << fault();
  role.allowed_endpoint_hosts = {"elsewhere"};
  EXPECT_EQ(fault(), "none");
}

TEST_F(WorkerProgramTest, WithoutTLSOnlyLoopbackIsAsked) {
  const net::KeyPair pair = pair_of("me");
  write_kubeconfig(pair, pair, "http://127.0.0.1:80");
  EXPECT_EQ(fault(), "none");
  write_kubeconfig(pair, pair, "http://10.0.0.1:80");
  EXPECT_NE(fault(), "none");
}

TEST_F(WorkerProgramTest, AFolderThatIsTooLongForSocketsIsAFaultOfASupervisor) {
  write_right_kubeconfig();
  config_.data_dir = folder_ + "/" + std::string(100, 'x');
  EXPECT_EQ(fault(), "none") << "one role has no sockets";
  config_.roles.push_back(config_.roles.front());
  EXPECT_TRUE(fault().starts_with("data_dir: ")) << fault();
  config_.isolation = WorkerIsolation::kThread;
  EXPECT_EQ(fault(), "none");
}

TEST_F(WorkerProgramTest, RT_T073_ASecondProcessEndsWithTwo) {
  write_right_kubeconfig();
  const auto lock = lock_worker_folder(config_.data_dir);
  ASSERT_TRUE(lock);
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_worker_program({config_, {}}), 2);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "kintsugi worker: data_dir: " + config_.data_dir + " is in use by another worker\n");
}

TEST_F(WorkerProgramTest, RT6_AFaultOfTheConfigurationEndsWithTwo) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_worker_program({config_, {}}), 2);
  EXPECT_TRUE(testing::internal::GetCapturedStderr().starts_with("kintsugi worker: "));
  EXPECT_FALSE(std::filesystem::exists(config_.data_dir)) << "nothing was begun";
}

TEST(WorkerRoles, EachIsMadeUnderItsName) {
  for (const std::string& name : worker_roles()) {
    WorkerRoleConfig config;
    config.name = name;
    const workers::Role role = make_worker_role(config);
    EXPECT_EQ(role.name, name);
    EXPECT_TRUE(role.start);
  }
}

}  // namespace
}  // namespace kintsugi::server
