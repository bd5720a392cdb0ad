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
        const std::string& authorization = "") {
  Yes yes;
  AdminGate gate(token, yes);
  Answer answer;
  answer.info.identity = std::shared_ptr<const auth::CertificateIdentity>(std::move(who));
  http::RequestHead head;
  head.method = "GET";
  head.target = "/metrics";
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

}  // namespace
}  // namespace kintsugi::proxy
