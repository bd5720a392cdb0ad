#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "http/handler.h"
#include "krm/json.h"
#include "net/x509_maker.h"
#include "server/internal/join_tokens.h"
#include "server/internal/pki.h"

namespace kintsugi::server {

/// One certificate of a role, and what it is called below `pki/`.
struct JoinCertificate {
  std::string use;   ///< "serving", "client", "request-header": whose key is asked for
  std::string ca;    ///< of Pki::authorities()
  std::string file;  ///< without ".crt"
  net::CertificateRequest request;
};
/// All that the bearer of a token gets.
[[nodiscard]] std::vector<JoinCertificate> certificates_of(const JoinToken& token);

/// Answers who joins with a token (SE-147); off unless `up --join-bind` says where.
///   GET  /join/v1/authority  the serving CA (PEM), which the joiner compares with his pin
///   POST /join/v1  {"token": …, "requests": {"serving": PKCS #10, "client": …, …}} →
///        {"role", "name", "root", "proxy", "authorities": {name: PEM},
///         "certificates": {use: {"file", "pem"}}}
/// Bounds: 64 KiB of body, five tries a minute of an address (429), 1,024 addresses. A try uses its
/// token up even if it is refused for its requests. Threads: its loop; it signs there.
class JoinService final : public http::Handler {
 public:
  struct Params {
    std::string pki;                           ///< folder
    std::function<std::string()> root, proxy;  ///< URLs
    std::function<void(std::string)> audit;    ///< a line for each try
    std::function<std::int64_t()> now;         ///< [s since 1970]; empty: the wall clock
  };
  explicit JoinService(Params params);
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      http::RequestHead head, http::ResponseStream& stream) noexcept override;

  /// One try. @returns what is answered. @error kTooManyRequests, kBadRequest, kForbidden, kIo.
  [[nodiscard]] Expected<krm::Json> join(const std::string& address, std::string_view body);

 private:
  class Collector;
  struct Tries {
    std::int64_t minute = 0;
    int count = 0;
  };
  [[nodiscard]] bool may_try(const std::string& address);
  [[nodiscard]] Expected<krm::Json> issue(const krm::Json& asked, JoinToken& taken);
  void tell(const std::string& address, std::string_view body, const JoinToken& token,
            const Expected<krm::Json>& result);

  const Params params_;
  const Pki pki_;
  const JoinTokens tokens_;
  std::map<std::string, Tries> tries_;
};

}  // namespace kintsugi::server
