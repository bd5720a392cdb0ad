#include "server/kubeconfig.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "base/strings.h"
#include "server/files.h"

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
    EXPECT_EQ(access->token, "t");
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
    EXPECT_EQ(access.key_pem, "KEY") << pair;
    EXPECT_EQ(access.authorization(), "") << pair;
    EXPECT_TRUE(access.has_credential()) << pair;
  }
  EXPECT_EQ(read("{token: abc}").authorization(), "Bearer abc");
  EXPECT_EQ(read("{tokenFile: token}").authorization(), "Bearer from a file");
  EXPECT_EQ(read("{token: abc, tokenFile: token}").authorization(), "Bearer from a file");
  EXPECT_EQ(read("{username: me, password: 'p:w'}").authorization(),
            "Basic " + base64_encode("me:p:w"));
  EXPECT_EQ(read("{username: me}").authorization(), "Basic " + base64_encode("me:"));
  EXPECT_FALSE(read("{}").has_credential());
}

TEST_F(Kubeconfig, WhenACredentialIsNotKnown_FP156_SaysFileUserAndField) {
  const std::string at = folder_ + "/a.kubeconfig: user \"me\": ";
  for (const char* field : {"exec", "auth-provider", "as-user-extra"}) {
    const std::string text = error("{token: t, " + std::string(field) + ": {command: aws}}");
    EXPECT_TRUE(text.find(at + field + ": not supported") != std::string::npos) << text;
  }
  EXPECT_NE(error("{token: t, as: somebody}").find(at + "as: not supported"), std::string::npos);
  EXPECT_NE(error("{token: t}", "{server: 'https://h', proxy-url: 'http://p'}")
                .find("a.kubeconfig: cluster \"c\": proxy-url: not supported"),
            std::string::npos);
  EXPECT_EQ(read("{token: t, as: '', exec: null}").token, "t");  // as kubectl writes it
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
