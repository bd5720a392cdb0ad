#include "proxy/admin/admin_gate.h"

#include <gtest/gtest.h>

#include "auth/x509_identity.h"

namespace kintsugi::proxy {
namespace {

class Yes final : public http::Handler {
 public:
  std::unique_ptr<http::RequestHandler> on_request(http::RequestHead,
                                                   http::ResponseStream& stream) noexcept override {
    stream.send_head(200, {}, true);
    struct Nothing final : http::RequestHandler {
      void on_data(std::string_view, bool) noexcept override {}
      void on_close(Errc) noexcept override {}
    };
    return std::make_unique<Nothing>();
  }
};

class Answer final : public http::ResponseStream {
 public:
  void send_head(int the_status, const http::HeaderList&, bool) noexcept override {
    status = the_status;
  }
  void send_data(std::string_view, bool) noexcept override {}
  void send_data(SharedBytes, bool) noexcept override {}
  void send_trailers(const http::HeaderList&) noexcept override {}
  void reset(Errc) noexcept override {}
  void consume(std::size_t) noexcept override {}
  [[nodiscard]] std::size_t unsent_bytes() const noexcept override { return 0; }
  [[nodiscard]] const http::PeerInfo& peer() const noexcept override { return info; }
  void close_connection_after() noexcept override {}
  http::PeerInfo info;
  int status = 0;
};

std::shared_ptr<auth::CertificateIdentity> identity(std::vector<std::string> groups) {
  auto made = std::make_shared<auth::CertificateIdentity>();
  made->valid = made->from_client_ca = true;
  made->common_name = "somebody";
  made->organizations = std::move(groups);
  return made;
}

int ask(const std::string& token, std::shared_ptr<auth::CertificateIdentity> who,
        const std::string& authorization = "", const std::string& target = "/metrics",
        const std::string& authority = "127.0.0.1:6480") {
  Yes yes;
  AdminGate gate(token, yes);
  Answer answer;
  answer.info.identity = std::shared_ptr<const auth::CertificateIdentity>(std::move(who));
  http::RequestHead head;
  head.method = "GET";
  head.target = target;
  head.authority = authority;
  if (!authorization.empty()) {
    head.headers.add("authorization", authorization);
  }
  const auto handler = gate.on_request(std::move(head), answer);
  return answer.status;
}

TEST(AdminGate, SE164_OnlyAdministratorsCertificates_AreLetIn) {
  EXPECT_EQ(ask("", identity({"system:kcp:admin"})), 200);
  EXPECT_EQ(ask("", identity({"a", "system:masters"})), 200);
  EXPECT_EQ(ask("", identity({})), 403);
  EXPECT_EQ(ask("", identity({"system:kcp:adminx", "system:authenticated"})), 403);
  auto other = identity({"system:masters"});
  other->from_client_ca = false;  // of the request-header CA
  EXPECT_EQ(ask("", other), 403);
  auto expired = identity({"system:masters"});
  expired->valid = false;
  EXPECT_EQ(ask("", expired), 401);
  EXPECT_EQ(ask("", nullptr), 401);
}

TEST(AdminGate, SE164_TheTokenOfTheFile_IsLetIn) {
  EXPECT_EQ(ask("s3cret", nullptr, "Bearer s3cret"), 200);
  EXPECT_EQ(ask("s3cret", identity({}), "bearer s3cret"), 200);
  for (const char* wrong :
       {"Bearer s3cre", "Bearer s3crets", "Bearer ", "Basic s3cret", "s3cret"}) {
    EXPECT_EQ(ask("s3cret", nullptr, wrong), 401) << wrong;
  }
  EXPECT_EQ(ask("", nullptr, "Bearer "), 401);
}

TEST(AdminGate, OP703_TheConsole_IsAtLoopbackOnly) {
  const auto at = [](const std::string& authority, const std::string& target = "/ui/") {
    return ask("", identity({"system:masters"}), "", target, authority);
  };
  for (const char* good :
       {"127.0.0.1:1", "127.9.9.9", "localhost:8", "LOCALHOST", "[::1]:80", "[::1]"}) {
    EXPECT_EQ(at(good), 200) << good;
  }
  for (const char* bad : {"", "evil.test", "127.0.0.1.evil.test", "localhost.evil.test:1",
                          "[::2]:1", "[::1]evil", "[::1", "10.0.0.1"}) {
    EXPECT_EQ(at(bad), 421) << bad;
    EXPECT_EQ(at(bad, "/ui/api/v1/shards"), 421) << bad;
    EXPECT_EQ(at(bad, "/metrics"), 200) << bad;
  }
}

TEST(AdminGate, OP704_EverybodyGetsThePage_AndNothingElse) {
  for (const char* open : {"/ui", "/ui/", "/ui/app-1.js"}) {
    EXPECT_EQ(ask("s3cret", nullptr, "", open), 200) << open;
  }
  for (const char* closed : {"/ui/api/v1/shards", "/ui/api/x", "/uix", "/"}) {
    EXPECT_EQ(ask("s3cret", nullptr, "", closed), 401) << closed;
  }
  EXPECT_EQ(ask("s3cret", nullptr, "Bearer s3cret", "/ui/api/v1/shards"), 200);
}

}  // namespace
}  // namespace kintsugi::proxy
