#include "server/kubeconfig.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "base/strings.h"
#include "server/files.h"
#include "server/internal/exec_plugin.h"

namespace kintsugi::server {
namespace {

class Kubeconfig : public ::testing::Test {
 protected:
  Kubeconfig() {
    char name[] = "/tmp/kintsugi-kubeconfig-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~Kubeconfig() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    ASSERT_TRUE(write_file(folder_ + "/" + name, text, 0600));
  }
  /// A kubeconfig with this cluster and this user, both as YAML in one line.
  [[nodiscard]] std::string file(const std::string& cluster, const std::string& user) const {
    write("a.kubeconfig",
          "current-context: here\ncontexts: [{name: here, context: {cluster: c, user: me}}]\n"
          "clusters: [{name: c, cluster: " +
              cluster + "}]\nusers: [{name: me, user: " + user + "}]\n");
    return folder_ + "/a.kubeconfig";
  }
  [[nodiscard]] KubeAccess read(const std::string& user) const {
    auto access = read_kubeconfig(file("{server: 'https://h'}", user));
    EXPECT_TRUE(access) << access.error().message();
    return access ? std::move(*access) : KubeAccess();
  }
  [[nodiscard]] std::string error(const std::string& user,
                                  const std::string& cluster = "{server: 'https://h'}") const {
    const auto access = read_kubeconfig(file(cluster, user));
    EXPECT_FALSE(access);
    return access ? "" : access.error().to_string();
  }

  std::string folder_;
};

TEST_F(Kubeconfig, WhenTheServerIsEmptyOrAbsent_FP155_ItServesForCredentials) {
  for (const char* cluster : {"{server: ''}", "{certificate-authority-data: QQ==}", "{}"}) {
    const std::string path = file(cluster, "{token: t}");
    const auto access = read_kubeconfig(path, {}, KubeServer::kOptional);
    ASSERT_TRUE(access) << cluster;
    EXPECT_EQ(access->server, "");
    EXPECT_EQ(access->token.view(), "t");
    EXPECT_FALSE(read_kubeconfig(path)) << cluster;  // where one is to be asked
  }
}

TEST_F(Kubeconfig, WhenACredentialIsKnown_FP156_ItIsTaken) {
  write("me.crt", "CERT");
  write("me.key", "KEY");
  write("token", " from a file\n");
  for (const std::string pair : {"{client-certificate: me.crt, client-key: me.key}",
                                 "{client-certificate-data: Q0VSVA==, client-key-data: S0VZ}"}) {
    const KubeAccess access = read(pair);
    EXPECT_EQ(access.certificate_pem, "CERT") << pair;
    EXPECT_EQ(access.key_pem.view(), "KEY") << pair;
    EXPECT_EQ(access.authorization().view(), "") << pair;
    EXPECT_TRUE(access.has_credential()) << pair;
  }
  EXPECT_EQ(read("{token: abc}").authorization().view(), "Bearer abc");
  EXPECT_EQ(read("{tokenFile: token}").authorization().view(), "Bearer from a file");
  EXPECT_EQ(read("{token: abc, tokenFile: token}").authorization().view(), "Bearer from a file");
  EXPECT_EQ(read("{username: me, password: 'p:w'}").authorization().view(),
            "Basic " + base64_encode("me:p:w"));
  EXPECT_EQ(read("{username: me}").authorization().view(), "Basic " + base64_encode("me:"));
  EXPECT_FALSE(read("{}").has_credential());
}

TEST_F(Kubeconfig, WhenACredentialIsNotKnown_FP156_SaysFileUserAndField) {
  const std::string at = folder_ + "/a.kubeconfig: user \"me\": ";
  EXPECT_NE(
      error("{token: t, auth-provider: {name: oidc}}").find(at + "auth-provider: not supported"),
      std::string::npos);
  for (const char* url : {"socks5://p:1", "https://p:1", "http://p:1/path"}) {
    EXPECT_NE(error("{token: t}", "{server: 'https://h', proxy-url: '" + std::string(url) + "'}")
                  .find("a.kubeconfig: cluster \"c\": proxy-url: only http://host:port"),
              std::string::npos);
  }
  EXPECT_EQ(read("{token: t, as: '', exec: null}").token.view(), "t");  // as kubectl writes it
}

TEST_F(Kubeconfig, WhenOneIsSomebodyElse_FP156_HeadersSayWho) {
  const KubeAccess access =
      read("{token: t, as: me, as-uid: '7', as-groups: [a, b], as-user-extra: {Some/Key: [x, z]}}");
  using Headers = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(access.impersonation, (Headers{{"impersonate-user", "me"},
                                           {"impersonate-uid", "7"},
                                           {"impersonate-group", "a"},
                                           {"impersonate-group", "b"},
                                           {"impersonate-extra-some%2fkey", "x"},
                                           {"impersonate-extra-some%2fkey", "z"}}));
  EXPECT_TRUE(read("{token: t, as-groups: []}").impersonation.empty());
  for (const char* field : {"as-groups: [a]", "as-uid: u", "as-user-extra: {k: [v]}"}) {
    EXPECT_NE(error("{token: t, " + std::string(field) + "}").find("as: missing, as-"),
              std::string::npos);
  }
  for (const char* wrong :
       {"as: \"a\\nb\"", "as: me, as-groups: [yes]", "as: me, as-groups: ['']"}) {
    EXPECT_NE(error("{token: t, " + std::string(wrong) + "}").find("as: a name is empty"),
              std::string::npos)
        << wrong;
  }
}

TEST_F(Kubeconfig, WhenAProxyMakesTheConnections_FP156_ItsAddressIsTaken) {
  const auto access = read_kubeconfig(
      file("{server: 'https://h', proxy-url: 'http://u%40x:p@proxy.example:3128'}", "{token: t}"));
  ASSERT_TRUE(access) << access.error().message();
  EXPECT_EQ(access->proxy_host, "proxy.example");
  EXPECT_EQ(access->proxy_port, 3128);
  EXPECT_EQ(access->proxy_authorization.view(), "Basic " + base64_encode("u@x:p"));
}

TEST_F(Kubeconfig, WhenAProgramGivesTheCredential_FP156_ItIsAsked) {
  write("says.json", R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1",)"
                     R"("status":{"token":"t","expirationTimestamp":"2100-01-01T00:00:00Z"}})");
  const std::string exec =
      "{exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/cat, args: ['" + folder_ +
      "/says.json']}}";
  EXPECT_EQ(read(exec).authorization().view(), "Bearer t");
  write("says.json", "not asked again");
  EXPECT_EQ(read(exec).authorization().view(), "Bearer t");
  const std::string said =
      R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1","status":)";
  const std::string version = "client.authentication.k8s.io/v1beta1";
  const auto pair = read_exec_credential(
      said + R"({"clientCertificateData":"CERT","clientKeyData":"KEY"}})", version);
  ASSERT_TRUE(pair);
  EXPECT_EQ(*pair, (ExecCredential{{}, "CERT", Secret::copy_of("KEY"), 0}));
  for (const std::string& wrong :
       {std::string("x"), said + "{}}", said + R"({"clientKeyData":"KEY"}})",
        said + R"({"token":"a\nb"}})", said + R"({"token":"a","expirationTimestamp":"soon"}})",
        std::string(R"({"kind":"ExecCredential","status":{"token":"t"}})")}) {
    EXPECT_FALSE(read_exec_credential(wrong, version)) << wrong;
  }
}

TEST_F(Kubeconfig, WhenAProgramWantsToKnowTheServer_FP156_ItIsTold) {
  write("says.sh",
        "#!/bin/sh\n"
        "printf '%s' \"$KUBERNETES_EXEC_INFO\" >\"$KEPT\"\n"
        "printf '%s' '{\"kind\":\"ExecCredential\",\"apiVersion\":"
        "\"client.authentication.k8s.io/v1\",\"status\":{\"token\":\"t\"}}'\n");
  std::filesystem::permissions(folder_ + "/says.sh", std::filesystem::perms::owner_all);
  const std::string exec =
      "{exec: {apiVersion: client.authentication.k8s.io/v1, command: ./says.sh, "
      "provideClusterInfo: true, env: [{name: KEPT, value: '" +
      folder_ + "/kept'}]}}";
  const auto access = read_kubeconfig(
      file("{server: 'https://h', tls-server-name: n.test, certificate-authority-data: QQ==, "
           "extensions: [{name: other, extension: x}, "
           "{name: client.authentication.k8s.io/exec, extension: {audience: a}}]}",
           exec));
  ASSERT_TRUE(access) << access.error().message();
  const auto told = krm::Json::parse(read_file(folder_ + "/kept").value_or(""));
  ASSERT_TRUE(told);
  EXPECT_EQ(told->at({"spec", "cluster"})->dump(),
            R"({"certificate-authority-data":"QQ==","config":{"audience":"a"},)"
            R"("server":"https://h","tls-server-name":"n.test"})");
}

TEST_F(Kubeconfig, WhenAProgramCannotBeAsked_FP156_SaysWhy) {
  const auto refused = [this](const std::string& exec, const std::string& other = "") {
    return error("{" + other + "exec: {" + exec + "}}");
  };
  const std::string version = "apiVersion: client.authentication.k8s.io/v1";
  for (const auto& [exec, text] : std::vector<std::pair<std::string, std::string>>{
           {"apiVersion: v2, command: c", "exec.apiVersion: must be one of "},
           {version, "exec.command: missing"},
           {version + ", command: c, interactiveMode: Always", "exec.interactiveMode: nobody"},
           {version + ", command: ./none, installHint: get it there", "get it there"}}) {
    EXPECT_NE(refused(exec).find(text), std::string::npos) << exec << refused(exec);
  }
  EXPECT_NE(refused(version + ", command: c", "token: t, ").find("exec: not beside another"),
            std::string::npos);
}

TEST_F(Kubeconfig, WhenFilesAreWatched_TheyAreThoseOfTheContext) {
  const std::string path =
      file("{server: 'https://h', certificate-authority: ca.crt}",
           "{client-certificate: /me.crt, client-key: me.key, tokenFile: token}");
  EXPECT_EQ(kubeconfig_files(path),
            (std::vector<std::string>{folder_ + "/ca.crt", "/me.crt", folder_ + "/me.key",
                                      folder_ + "/token"}));
  EXPECT_TRUE(kubeconfig_files(path, "elsewhere").empty());
  EXPECT_TRUE(kubeconfig_files(folder_ + "/nowhere").empty());
  EXPECT_EQ(context_of(path), "");
  write("kcp.kubeconfig", "contexts: [{name: base}]\n");
  EXPECT_EQ(context_of(folder_ + "/kcp.kubeconfig"), "base");
  EXPECT_FALSE(read_kubeconfig(folder_ + "/nowhere"));
  write("no.kubeconfig", "a: [");
  const auto access = read_kubeconfig(folder_ + "/no.kubeconfig");
  ASSERT_FALSE(access);
  EXPECT_NE(access.error().to_string().find("no.kubeconfig: "), std::string::npos);
}

TEST_F(Kubeconfig, WhenHalfOfACredentialIsThere_FP156_SaysWhichIsMissing) {
  write("me.crt", "CERT");
  write("empty", "\n");
  EXPECT_NE(error("{client-certificate: me.crt}").find("user \"me\": client-key: missing"),
            std::string::npos);
  EXPECT_NE(error("{client-key-data: S0VZ}").find("client-certificate: missing"),
            std::string::npos);
  EXPECT_NE(error("{password: p}").find("username: missing"), std::string::npos);
  EXPECT_NE(error("{token: t, username: u}").find("username: not beside a token"),
            std::string::npos);
  EXPECT_NE(error("{tokenFile: empty}").find("tokenFile: " + folder_ + "/empty is empty"),
            std::string::npos);
  EXPECT_NE(error("{token: \"a\\nb\"}").find("token: has characters that no header can have"),
            std::string::npos);
  EXPECT_NE(error("{tokenFile: nowhere}").find("user \"me\": tokenFile: "), std::string::npos);
  write("a.kubeconfig",
        "current-context: here\ncontexts: [{name: here, context: {cluster: c, user: you}}]\n"
        "clusters: [{name: c, cluster: {server: 'https://h'}}]\n");
  const auto access = read_kubeconfig(folder_ + "/a.kubeconfig");
  ASSERT_FALSE(access);
  EXPECT_NE(access.error().to_string().find("no user \"you\""), std::string::npos);
}

}  // namespace
}  // namespace kintsugi::server
