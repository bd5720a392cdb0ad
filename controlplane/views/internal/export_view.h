#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/server.h"
#include "controlplane/views/internal/export_kinds.h"
#include "controlplane/views/internal/export_rights.h"

namespace kintsugi::controlplane {

/// Makes one label selector's matchLabels true of an object that is written through a claim.
/// @error kForbidden one of them has another value, or the object does not match the rest of the
///        selector (TP-065, TP-066)
[[nodiscard]] Expected<void> fit_claim(const PermissionClaim& claim,
                                       const apiserver::ResourceDef& def, krm::Json& object);

/// The virtual workspace of one APIExport. Threads: one loop.
class ExportView final : public apiserver::View, private apiserver::Registry {
 public:
  ExportView(ExportKindSources kinds, ExportRightsSources rights, ExportRef ref)
      : sources_(kinds),
        bindings_(rights.bindings),
        rights_(rights, ref, offered_),
        ref_(std::move(ref)) {}

  /// Reads the export and its schemas again; watches of what changed or is gone end.
  void reload(apiserver::ApiServer& server, const krm::Json& api_export);
  /// Serves nothing from now on.
  void close(apiserver::ApiServer& server);

  [[nodiscard]] const ExportRef& ref() const noexcept { return ref_; }
  /// Whether it claims anything under this identity, or any.
  [[nodiscard]] bool claims_identity(std::string_view identity) const noexcept;
  [[nodiscard]] bool claims_others() const noexcept;
  /// Whether it claims something of an export that lives in this cluster.
  [[nodiscard]] bool claims_from(std::string_view cluster) const;
  /// Whether it is of this export, or has kinds from there.
  [[nodiscard]] bool is_made_of(const ExportRef& owner) const noexcept;

  // View
  [[nodiscard]] const apiserver::Registry& registry() const override { return *this; }
  [[nodiscard]] auth::Authorizer& authorizer() override { return rights_; }
  [[nodiscard]] std::string_view rights_cluster() const override { return ref_.cluster; }
  [[nodiscard]] krm::Selector visible(std::string_view cluster,
                                      const apiserver::ResourceDef& def) const override;
  [[nodiscard]] bool prepares(const apiserver::ResourceDef& def) const override;
  [[nodiscard]] Expected<void> prepare(const apiserver::WriteContext& context,
                                       const apiserver::ResourceDef& def, krm::Json& object,
                                       const krm::Json* old) const override;
  /// Oneself, and extras that say who that was.
  [[nodiscard]] std::optional<auth::UserInfo> acts_as(
      const auth::Attributes& attributes) const override;

 private:
  // Registry
  [[nodiscard]] apiserver::ResourcePtr find(std::string_view cluster, std::string_view group,
                                            std::string_view resource) const override;
  [[nodiscard]] std::vector<apiserver::ResourcePtr> all(std::string_view cluster) const override;
  [[nodiscard]] std::uint64_t generation(std::string_view) const override { return generation_; }
  [[nodiscard]] bool ready(std::string_view) const override { return true; }

  [[nodiscard]] const ExportKind* kind_of(std::string_view group,
                                          std::string_view plural) const noexcept;
  void replace(apiserver::ApiServer& server, std::vector<ExportKind> kinds);

  ExportKindSources sources_;
  const BindingIndex& bindings_;
  ExportRights rights_;
  ExportRef ref_;
  std::vector<PermissionClaim> offered_;
  std::vector<ExportKind> kinds_;
  std::uint64_t generation_ = 1;
};

}  // namespace kintsugi::controlplane
