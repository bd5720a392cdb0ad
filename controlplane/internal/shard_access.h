#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "auth/authenticators.h"
#include "auth/authorizer.h"
#include "controlplane/clusters/cluster_index.h"
#include "krm/annotations.h"

/// Who may come in: the rules of a shard around RBAC and credentials.
namespace kintsugi::controlplane {

/// Whether nobody like this user may do this to the status of a system kind, whatever RBAC says and
/// however he asks (KK-060, KK-101, KK-311). Deep reviews are no exception.
[[nodiscard]] bool is_systems_status(const auth::Attributes& attributes) noexcept;

/// Whether the role of a certificate of our own processes (auth/own_roles.h) holds this:
/// shards/own_rights.h alone says so, whatever phase, role or binding there is (SE-148). nullopt:
/// the user has none.
[[nodiscard]] std::optional<bool> decided_by_role(const auth::Attributes& attributes) noexcept;

/// Proxies and other shards are judged first (decided_by_role), system:masters goes by `inner`
/// alone. Statuses that are the system's are denied next (is_systems_status), and clusters
/// `system:*` (KK-305). Before a logical cluster is Ready, and when they lack the groups that it
/// requires, only administrators get in (AM-488, AM-491); everybody may ask for their home
/// workspace; then `inner` decides. Only the phase matters for ServiceAccounts; nothing of it for
/// reviews of rights alone (Attributes::deep) but that.
class PhaseAuthorizer final : public auth::Authorizer {
 public:
  PhaseAuthorizer(const ClusterIndex& index, auth::Authorizer& inner)
      : index_(index), inner_(inner) {}
  /// Which logical clusters have just left this shard: nobody is told that there is nothing of that
  /// name, as long as not everybody knows where it went.
  void use(std::function<bool(std::string_view cluster)> has_just_left) {
    has_just_left_ = std::move(has_just_left);
  }
  void authorize(const auth::Attributes& attributes, Done done) override;

 private:
  const ClusterIndex& index_;
  auth::Authorizer& inner_;
  std::function<bool(std::string_view)> has_just_left_;
};

/// Whether somebody in `groups` fulfils an annotation krm::kRequiredGroupsAnnotation: "a,b;c" means
/// (a and b) or c; "" asks nothing.
[[nodiscard]] bool has_required_groups(std::string_view required, const auth::UserInfo& user);

/// No anonymous requests, but for health and version outside of clusters (AM-475), or where
/// strangers are told what kcp tells them: nobody is system:anonymous then (KK-330). Groups
/// system:kintsugi:* are a certificate's alone: asserted by headers or by tokens they are dropped.
class ShardAuthenticator final : public auth::Authenticator {
 public:
  explicit ShardAuthenticator(auth::RequestAuthenticator::Params params, bool as_kcp = false);
  void authenticate(const http::RequestHead& head, const auth::BearerPtr& token,
                    const http::PeerInfo& peer, std::string_view cluster, Done done) override;

 private:
  auth::RequestAuthenticator strict_;
  auth::RequestAuthenticator open_;
};

}  // namespace kintsugi::controlplane
