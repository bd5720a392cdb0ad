#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "auth/authorizer.h"
#include "auth/request_header.h"
#include "http/handler.h"
#include "proxy/routing/mapping.h"
#include "proxy/routing/request.h"
#include "topology/snapshot.h"

namespace kintsugi::proxy {

/// What a request passes before it is sent to a server or served: who asks and on whose behalf,
/// rights to a path in root, the marks of the way. Threads: its loop.
class Admission {
 public:
  using Answer = std::unique_ptr<http::RequestHandler>;
  using Then = std::function<Answer(Request)>;
  struct Params {
    std::shared_ptr<topology::SnapshotView> view;
    auth::Authorizer& authorizer;
    auth::RequestHeaderConfig identity_headers;  ///< that shards read
    std::function<bool()> trusted;  ///< it is known whom shards take the proxy for; empty: yes
    std::string via;                ///< of this process
    std::uint64_t& stripped;        ///< identity headers that were taken away
  };
  explicit Admission(Params params) : params_(std::move(params)) {}

  /// E5 when the certificate does not hold, 403 or 400 for what nobody may impersonate; else strips
  /// and stamps. nullptr: go on.
  /// @param entry  whose header names count; null: those of shards.
  /// @param leads_to  where else than its target says the request goes; "": nowhere
  [[nodiscard]] Answer identify(Request& request, http::ResponseStream& stream,
                                const MappingEntry* entry = nullptr,
                                std::string_view leads_to = {}) const;
  /// The answer to a request that passed here more than kMostPasses times, as its Via tells: URLs
  /// of mounts may name workspaces behind this very proxy. nullptr: it did not.
  [[nodiscard]] Answer refuse_loop(const http::RequestHead& head, http::ResponseStream& stream,
                                   std::size_t most = kMostPasses) const;
  /// The same for what is asked of several servers: each pass would be one by the number of them
  /// (T104).
  [[nodiscard]] Answer refuse_return(const http::RequestHead& head,
                                     http::ResponseStream& stream) const {
    return refuse_loop(head, stream, 0);
  }
  static constexpr std::size_t kMostPasses = 8;
  void add_forwarding_headers(http::RequestHead& head, const http::PeerInfo& peer) const;
  /// `then` once the caller may use `path` in root.
  [[nodiscard]] Answer with_right_to(Request&& request, http::ResponseStream& stream,
                                     std::string path, Then then,
                                     std::optional<auth::UserInfo> who = {}) const;
  /// `then` once the caller may do what `attributes` say; the user is filled in.
  [[nodiscard]] Answer with_right(Request&& request, http::ResponseStream& stream,
                                  auth::Attributes attributes, Then then,
                                  std::optional<auth::UserInfo> who = {}) const;
  [[nodiscard]] const auth::RequestHeaderConfig& identity_headers() const noexcept {
    return params_.identity_headers;
  }

 private:
  Params params_;
};

}  // namespace kintsugi::proxy
