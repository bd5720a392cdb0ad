#include "cmd/kintsugi/kubeconfig_set.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "krm/named_entry.h"
#include "krm/yaml.h"
#include "server/files.h"

namespace kintsugi::cmd {
namespace {

using krm::Json;

constexpr const char* kPlain = R"(apiVersion: v1
kind: Config
clusters:
- name: one
  cluster: {server: "https://h:6443/clusters/root", tls-server-name: proxy, unknown: kept}
- name: other
  cluster: {server: "https://else"}
users:
- name: ann
  user: {token: secret}
contexts:
- name: main
  context: {cluster: one, user: ann, namespace: work}
current-context: main
preferences: {}
)";

class KubeconfigSetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "kubeconfig-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name, std::string_view text, unsigned mode = 0600) {
    const std::string path = folder_ + "/" + name;
    EXPECT_TRUE(server::write_file(path, text, mode));
    return path;
  }
  static KubeconfigSet load(const std::vector<std::string>& files) {
    Expected<KubeconfigSet> set = KubeconfigSet::load(files);
    EXPECT_TRUE(set) << set.error().message();
    return set ? std::move(*set) : KubeconfigSet();
  }
  static Json stored(const std::string& path) {
    const Expected<std::string> text = server::read_file(path);
    EXPECT_TRUE(text);
    Expected<Json> document = krm::parse_yaml(text ? *text : "");
    EXPECT_TRUE(document);
    return document ? std::move(*document) : Json();
  }
  static std::string server(const KubeconfigSet& set) {
    const Expected<server::KubeAccess> access = set.access();
    return access ? access->server : "error: " + std::string(access.error().message());
  }

  std::string folder_;
};

TEST_F(KubeconfigSetTest, WhenAWorkspaceIsEntered_OtherEntriesStay) {
  const std::string path = file("config", kPlain);
  KubeconfigSet set = load({path});
  EXPECT_EQ(server(set), "https://h:6443/clusters/root");
  ASSERT_TRUE(set.enter("https://h:6443/clusters/root:a"));
  ASSERT_TRUE(set.save());

  const Json document = stored(path);
  EXPECT_EQ(document.text({"current-context"}), kCurrentWorkspace);
  const Json* cluster = krm::find_named(document, "clusters", kCurrentWorkspace);
  ASSERT_NE(cluster, nullptr);
  EXPECT_EQ(cluster->text({"cluster", "server"}), "https://h:6443/clusters/root:a");
  EXPECT_EQ(cluster->text({"cluster", "tls-server-name"}), "proxy");
  EXPECT_EQ(cluster->text({"cluster", "unknown"}), "kept");
  const Json* context = krm::find_named(document, "contexts", kCurrentWorkspace);
  ASSERT_NE(context, nullptr);
  EXPECT_EQ(context->text({"context", "user"}), "ann");
  EXPECT_EQ(context->text({"context", "namespace"}), "work");
  EXPECT_EQ(krm::find_named(document, "clusters", "one")->text({"cluster", "server"}),
            "https://h:6443/clusters/root");
  EXPECT_NE(krm::find_named(document, "clusters", "other"), nullptr);
  EXPECT_EQ(krm::find_named(document, "contexts", kPreviousWorkspace)->text({"context", "cluster"}),
            "one");
  EXPECT_EQ(server(load({path})), "https://h:6443/clusters/root:a");
}

TEST_F(KubeconfigSetTest, WhenGoingBack_CurrentAndPreviousChangePlaces) {
  const std::string path = file("config", kPlain);
  KubeconfigSet set = load({path});
  EXPECT_FALSE(set.go_back());
  for (const char* name : {"a", "b"}) {
    ASSERT_TRUE(set.enter(std::string("https://h:6443/clusters/root:") + name));
  }
  ASSERT_TRUE(set.go_back());
  EXPECT_EQ(server(set), "https://h:6443/clusters/root:a");
  ASSERT_TRUE(set.go_back());
  EXPECT_EQ(server(set), "https://h:6443/clusters/root:b");
  ASSERT_TRUE(set.save());
  set = load({path});
  ASSERT_TRUE(set.go_back());
  EXPECT_EQ(server(set), "https://h:6443/clusters/root:a");
}

TEST_F(KubeconfigSetTest, WhenTheFirstStepGoesBack_ReturnsToTheOldContext) {
  KubeconfigSet set = load({file("config", kPlain)});
  ASSERT_TRUE(set.enter("https://h:6443/clusters/root:a"));
  ASSERT_TRUE(set.go_back());
  EXPECT_EQ(server(set), "https://h:6443/clusters/root");
  ASSERT_TRUE(set.go_back());
  EXPECT_EQ(server(set), "https://h:6443/clusters/root:a");
}

TEST_F(KubeconfigSetTest, WhenSaved_KeepsModeAndSymbolicLink) {
  const std::string path = file("config", kPlain, 0640);
  const std::string link = folder_ + "/link";
  std::filesystem::create_symlink("config", link);
  KubeconfigSet set = load({link});
  ASSERT_TRUE(set.enter("https://h:6443/clusters/root:a"));
  ASSERT_TRUE(set.save());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0640U);
  EXPECT_EQ(stored(path).text({"current-context"}), kCurrentWorkspace);
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    EXPECT_TRUE(entry.path().filename() == "config" || entry.path().filename() == "link");
  }
}

TEST_F(KubeconfigSetTest, WhenThereAreSeveralFiles_TheFirstWordCounts) {
  ASSERT_TRUE(server::write_file(folder_ + "/ca.crt", "PEM"));
  const std::string clusters = file("clusters", R"(clusters:
- name: one
  cluster: {server: "https://first/clusters/root", certificate-authority: ca.crt}
)");
  const std::string rest = file("rest", kPlain);
  KubeconfigSet set = load({folder_ + "/absent", clusters, rest});
  const Expected<server::KubeAccess> access = set.access();
  ASSERT_TRUE(access);
  EXPECT_EQ(access->server, "https://first/clusters/root");
  EXPECT_EQ(access->ca_pem, "PEM");
  EXPECT_EQ(access->token.view(), "secret");
  ASSERT_TRUE(set.enter("https://first/clusters/root:a"));
  ASSERT_TRUE(set.save());
  EXPECT_EQ(stored(clusters).text({"current-context"}), "");
  const Json written = stored(rest);
  EXPECT_EQ(krm::find_named(written, "clusters", kCurrentWorkspace)
                ->text({"cluster", "certificate-authority"}),
            server::absolute_path(folder_ + "/ca.crt"));
  EXPECT_EQ(server(load({clusters, rest})), "https://first/clusters/root:a");
}

TEST_F(KubeconfigSetTest, WhenSomethingIsMissing_SaysWhat) {
  const auto error = [&](std::string_view text) {
    const Expected<KubeconfigSet> set = KubeconfigSet::load({file("config", text)});
    return set ? server(*set) : std::string(set.error().message());
  };
  EXPECT_NE(error("").find("no current context"), std::string::npos);
  EXPECT_NE(error("- a").find("not a kubeconfig"), std::string::npos);
  EXPECT_NE(error("a: [").find("yaml"), std::string::npos);
  EXPECT_NE(error("current-context: x").find("no context \"x\""), std::string::npos);
  EXPECT_NE(
      error("current-context: x\ncontexts:\n- name: x\n  context: {cluster: c}").find("no server"),
      std::string::npos);
  EXPECT_FALSE(KubeconfigSet::load({folder_ + "/absent"}));
  EXPECT_FALSE(KubeconfigSet::load({folder_ + "/absent", folder_ + "/absent2"}));
}

TEST_F(KubeconfigSetTest, WhenTheUserNeedsAProgram_SaysSo) {
  const std::string path = file("config", R"(current-context: x
contexts: [{name: x, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://h"}}]
users: [{name: u, user: {exec: {command: aws}}}]
)");
  EXPECT_NE(server(load({path})).find("user \"u\": exec.apiVersion: must be one of"),
            std::string::npos);
}

TEST_F(KubeconfigSetTest, WhenFilesAreChosen_TheFlagIsFirstThenTheEnvironment) {
  ::setenv("KUBECONFIG", ":/a::/b", 1);
  EXPECT_EQ(KubeconfigSet::default_files("/x"), (std::vector<std::string>{"/x"}));
  EXPECT_EQ(KubeconfigSet::default_files(""), (std::vector<std::string>{"/a", "/b"}));
  ::unsetenv("KUBECONFIG");
  ::setenv("HOME", "/home/ann", 1);
  EXPECT_EQ(KubeconfigSet::default_files(""), (std::vector<std::string>{"/home/ann/.kube/config"}));
}

}  // namespace
}  // namespace kintsugi::cmd
