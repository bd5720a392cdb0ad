#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "apiserver/resource.h"
#include "auth/authorizer.h"
#include "base/error.h"
#include "krm/json.h"
#include "krm/selector.h"

namespace kintsugi::apiserver {

/// A virtual workspace: another way to look at the objects of a server. It serves kinds of its own
/// choice, decides by itself who may do what, shows of each kind only objects with certain labels,
/// and may change or refuse what is written. Everything else (representations, lists, watches,
/// patches, admission of the kind) is as without it. A request gets its view from
/// ClusterTarget::view. Threads: one loop. Lifetime: requests and watches share it.
class View {
 public:
  virtual ~View() = default;

  /// What it serves, by logical cluster and for "*".
  [[nodiscard]] virtual const Registry& registry() const = 0;
  /// Asked in place of ServerParams::authorizer, with the cluster that the request addresses.
  [[nodiscard]] virtual auth::Authorizer& authorizer() = 0;
  /// The logical cluster whose RBAC decides: ApiServer::review_watches of it asks about the view's
  /// watches again. "": that of the request.
  [[nodiscard]] virtual std::string_view rights_cluster() const = 0;
  /// Of this kind only objects with such labels exist here. Empty: all.
  [[nodiscard]] virtual krm::Selector visible(std::string_view cluster,
                                              const ResourceDef& def) const = 0;
  /// By the name in the key of an object, the one that it is shown by. Of this kind only these
  /// exist here. Null: all, as they are named. For views that are only read.
  using Names = std::map<std::string, std::string, std::less<>>;
  [[nodiscard]] virtual std::shared_ptr<const Names> names(std::string_view /*cluster*/,
                                                           const ResourceDef& /*def*/) const {
    return nullptr;
  }
  /// Objects with such labels are known already when they become visible: a watch sees that as
  /// MODIFIED in place of ADDED. Empty: none.
  [[nodiscard]] virtual krm::Selector known(std::string_view /*cluster*/,
                                            const ResourceDef& /*def*/) const {
    return {};
  }
  /// False: prepare() has nothing to do with this kind and is not called.
  [[nodiscard]] virtual bool prepares(const ResourceDef& /*def*/) const { return true; }
  /// Changes or refuses what is about to be stored, in the storage version, after Hooks::prepare.
  /// `old` null on create. Not called for deletes.
  [[nodiscard]] virtual Expected<void> prepare(const WriteContext& context, const ResourceDef& def,
                                               krm::Json& object, const krm::Json* old) const = 0;
  /// Whether an error of its authorizer, no denial, is said as plain text rather than in a Status.
  [[nodiscard]] virtual bool is_plain(const Error& /*error*/) const { return false; }
  /// As whom an allowed request goes on: hooks, reviews and the audit log see this user, while the
  /// authorizer is asked about the one who came. nullopt: as oneself.
  [[nodiscard]] virtual std::optional<auth::UserInfo> acts_as(
      const auth::Attributes& /*attributes*/) const {
    return std::nullopt;
  }
};

}  // namespace kintsugi::apiserver
