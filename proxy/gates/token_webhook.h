#pragma once

#include <memory>
#include <string>
#include <vector>

#include "auth/authenticators.h"
#include "base/secret.h"
#include "base/strings.h"
#include "net/loop.h"
#include "net/upstream.h"

namespace kintsugi::proxy {

struct TokenWebhookConfig {
  net::UpstreamParams server;
  Secret authorization;        ///< of the proxy itself, "": a client certificate or nothing
  std::string version = "v1";  ///< of authentication.k8s.io: "v1" or "v1beta1"
  Duration cache = seconds(120);
  Duration timeout = seconds(30);
  std::size_t max_entries = 16'384;
};

/// Shows bearer tokens to another server, by TokenReview. Verdicts are believed for `cache`, both
/// ways; equal tokens that wait share one question. Threads: one loop.
class TokenWebhook final : public auth::TokenAuthenticator {
 public:
  TokenWebhook(net::Loop& loop, TokenWebhookConfig config);
  ~TokenWebhook() override;
  /// nullopt: the server does not know the token. @error kUnavailable it cannot be asked now.
  void authenticate_token(const auth::BearerPtr& token, const std::vector<std::string>& audiences,
                          std::string_view cluster, Done done) override;

 private:
  struct Entry;
  void finish(const std::string& key, const Expected<net::FetchResponse>& answer);

  net::Loop& loop_;
  TokenWebhookConfig config_;
  std::string path_;  ///< of the server's URL: reviews go to it as it is
  std::unique_ptr<net::Upstream> server_;
  StringMap<std::unique_ptr<Entry>> entries_;  ///< by SHA-256 of token and audiences
};

}  // namespace kintsugi::proxy
