#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "http/headers.h"
#include "krm/json.h"
#include "net/loop.h"
#include "net/upstream.h"
#include "server/kubeconfig.h"

namespace kintsugi::cmd {

/// An API server as a command of a user sees it: one request after the other, each waits for its
/// answer. Threads: the one that made it.
class ApiClient {
 public:
  /// @param base what stands before "/clusters/…" or "/api…"; credentials and CA are those of
  ///        `access`. @error kConfig the URL, a certificate or a key is not usable.
  [[nodiscard]] static Expected<std::unique_ptr<ApiClient>> make(const server::KubeAccess& access,
                                                                 const std::string& base);

  /// The JSON of an answer below 300. Answers 429 and 503 that name a Retry-After are waited for
  /// and asked again until `limit`.
  /// @error the Kubernetes reason as Errc with the server's message; kUnauthorized, kRefused,
  ///        kUnreachable, kTls, kDeadline with a text that names the server.
  [[nodiscard]] Expected<krm::Json> send(const std::string& method, const std::string& target,
                                         const krm::Json& body = {});
  /// All items of a list, page by page, as send() gets each. @param target  without a query
  /// @param labels  a selector; "": all
  [[nodiscard]] Expected<std::vector<krm::Json>> list(const std::string& target,
                                                      std::string_view labels = {});
  struct Page {
    int status = 0;  ///< HTTP
    std::string body;
  };
  /// A GET, whatever is answered, once. @error as send()
  [[nodiscard]] Expected<Page> page(const std::string& target, Duration patience);
  /// Sleeps.
  void pause(Duration length);
  [[nodiscard]] TimePoint now() const { return Clock::now(); }
  void set_limit(Duration limit) noexcept { limit_ = limit; }

 private:
  ApiClient() : loop_("client") {}
  [[nodiscard]] Expected<net::FetchResponse> exchange(const std::string& method,
                                                      const std::string& target,
                                                      const std::string& body, Duration patience);
  [[nodiscard]] Error unreachable(const Error& cause) const;

  net::Loop loop_;
  std::string server_;
  Secret authorization_;
  Duration limit_ = seconds(60);
  std::unique_ptr<net::Upstream> upstream_;
};

}  // namespace kintsugi::cmd
