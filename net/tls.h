#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/secret.h"

// OpenSSL's own types, so that its headers stay out of ours.
struct ssl_ctx_st;

namespace kintsugi::net {

class RevocationLists;

/// Files or PEM texts of one TLS endpoint. Text wins over a file.
struct TlsParams {
  std::string certificate_file, key_file, ca_file;
  std::string certificate_pem, ca_pem;
  Secret key_pem;                            ///< not kept by a TlsContext
  std::vector<std::string> client_ca_files;  ///< server: names sent in the certificate request;
                                             ///< nothing is verified by net
  bool request_client_certificate =
      false;                 ///< server: ask, accept any or none; auth/ verifies (FP-079)
  bool verify_peer = true;   ///< client
  std::string server_name;   ///< client: SNI and verification name, default the host of the URL
  std::string ciphersuites;  ///< TLS 1.3 suites, empty: library order with AES-128-GCM first
  bool http2 = true;         ///< ALPN h2 before http/1.1
  /// Client: where the server's chain is looked up once it is verified; null: nowhere.
  std::shared_ptr<const RevocationLists> revocations = {};
};

/// A loaded SSL_CTX. Immutable but for renew(); replaced as a whole on reload. Threads: any;
/// connections keep a reference.
class TlsContext {
 public:
  /// @error kConfig names the file and the cause.
  [[nodiscard]] static Expected<std::shared_ptr<TlsContext>> server(const TlsParams& params);
  [[nodiscard]] static Expected<std::shared_ptr<TlsContext>> client(const TlsParams& params);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  [[nodiscard]] ssl_ctx_st* native() const noexcept { return used_.load(); }
  /// Connections made from now on, by all who have this, are as `next` says; it lives on with this.
  /// One thread at a time.
  void renew(std::shared_ptr<TlsContext> next);
  [[nodiscard]] const TlsParams& params() const noexcept { return params_; }

 private:
  TlsContext(ssl_ctx_st* context, TlsParams params)
      : context_(context), used_(context), params_(std::move(params)) {}
  ssl_ctx_st* const context_;
  std::atomic<ssl_ctx_st*> used_;
  std::vector<std::shared_ptr<TlsContext>> renewed_;  // others may be in the middle of using one
  TlsParams params_;
};

}  // namespace kintsugi::net
