#include "controlplane/views/internal/export_kinds.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "controlplane/catalog/bound_schema.h"
#include "controlplane/catalog/conversion_rules.h"
#include "controlplane/catalog/virtual_resources.h"
#include "controlplane/controllers/binding_status.h"
#include "controlplane/internal/names.h"
#include "krm/labels.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::string_view kAuthorization = "authorization.k8s.io";
constexpr std::string_view kAuthentication = "authentication.k8s.io";

krm::Selector label_in(const std::string& key, const std::string& values) {
  Expected<krm::Selector> out = krm::Selector::parse(key + " in (" + values + ")");
  if (!out) {  // cannot be: made of letters and digits. Nothing is shown.
    out = krm::Selector::parse("none,!none");
  }
  return std::move(*out);
}

class Builder {
 public:
  Builder(const ExportKindSources& sources, const ExportRef& ref, const Json& api_export,
          const std::vector<ExportKind>& before)
      : sources_(sources), ref_(ref), export_(api_export), before_(before) {}

  std::vector<ExportKind> build() {
    const std::string identity(export_.text({"status", "identityHash"}));
    if (!identity.empty()) {
      add_own(identity);
      for (const PermissionClaim& claim : parse_claims(export_.at({"spec", "permissionClaims"}))) {
        add_claimed(claim);
      }
    }
    if (!has(kApisGroup, kApiBindings)) {
      add_bindings();
    }
    std::stable_sort(kinds_.begin(), kinds_.end(), [](const ExportKind& a, const ExportKind& b) {
      return a.def->group != b.def->group ? a.def->group < b.def->group
                                          : a.def->plural < b.def->plural;
    });
    return std::move(kinds_);
  }

 private:
  [[nodiscard]] bool has(std::string_view group, std::string_view plural) const {
    return std::any_of(kinds_.begin(), kinds_.end(), [&](const ExportKind& kind) {
      return kind.def->group == group && kind.def->plural == plural;
    });
  }

  /// Takes the definition of `before` where it is the same, else makes it.
  template <typename Make>
  void add(ExportKind kind, const Make& make) {
    const auto known = std::find_if(before_.begin(), before_.end(), [&](const ExportKind& one) {
      return one.fingerprint == kind.fingerprint;
    });
    kind.def = known != before_.end() ? known->def : make();
    if (kind.def != nullptr && !has(kind.def->group, kind.def->plural)) {
      kinds_.push_back(std::move(kind));
    }
  }

  /// A resource of the schema, which stands beside `kind.owner` under `kind.schema`.
  /// @param is_virtual  it can only be read (KK-203)
  void add_schema(ExportKind kind, const Json& schema, const std::string& identity,
                  bool is_virtual = false) {
    const std::optional<Json> conversion =
        sources_.catalog.get_conversion(kind.owner.cluster, kind.schema);
    if (const Json* rules = conversion ? conversion->find("spec") : nullptr) {
      kind.fingerprint += " " + rules->dump();
    }
    kind.fingerprint += is_virtual ? " virtual" : "";
    add(std::move(kind), [&]() -> apiserver::ResourcePtr {
      apiserver::ResourcePtr def = with_conversion(bound_resource(schema, identity), conversion);
      return is_virtual && def != nullptr ? only_for_reading(*def) : def;
    });
  }

  void add_own(const std::string& identity) {
    const Json* resources = export_.at({"spec", "resources"});
    for (const Json& resource : resources == nullptr ? Json::Array() : resources->items()) {
      const std::string name(resource.text({"schema"}));
      const std::optional<Json> schema = sources_.catalog.get_schema(ref_.cluster, name);
      if (!schema) {
        continue;
      }
      ExportKind kind;
      kind.owner = ref_;
      kind.schema = name;
      kind.fingerprint = "own " + std::string(schema->text({"metadata", "uid"})) + " " + identity;
      add_schema(std::move(kind), *schema, identity,
                 resource.at({"storage", "virtual"}) != nullptr);
    }
  }

  void add_claimed(const PermissionClaim& claim) {
    if (has(claim.group, claim.resource)) {
      return;
    }
    ExportKind kind;
    kind.claim = claim;
    std::string values = claim_label_value(claim);
    if (claim.group == kApisGroup && claim.resource == kApiBindings) {
      values += "," + own_binding_label_value();
    }
    kind.visible = label_in(claim_label_key(ref_), values);
    if (apiserver::ResourcePtr known = claimable(claim)) {
      kind.fingerprint = "fixed " + claim.group + " " + claim.resource + " " + claim.identity;
      add(std::move(kind), [&] { return without_own_answers(*known); });
    } else if (!claim.identity.empty()) {
      add_foreign(std::move(kind));
    }
  }

  /// A kind that every cluster has, null when nobody may claim it.
  [[nodiscard]] apiserver::ResourcePtr claimable(const PermissionClaim& claim) const {
    apiserver::ResourcePtr def = sources_.builtin.find("*", claim.group, claim.resource);
    if (def == nullptr) {
      return nullptr;
    }
    if (def->virtual_create_only) {
      const bool about_others =
          (def->group == kAuthorization && !def->plural.starts_with("self")) ||
          (def->group == kAuthentication && def->plural == "tokenreviews");
      return about_others ? def : nullptr;
    }
    const bool is_cluster = def->group == kCoreGroup && def->plural == kLogicalClusters;
    const bool is_open =
        claim.identity.empty() && (def->builtin || def->group == kApisGroup || is_cluster);
    const bool is_exported = !claim.identity.empty() && sources_.in_root &&
                             sources_.in_root(claim.group, claim.resource, claim.identity);
    return is_open || is_exported ? def : nullptr;
  }

  /// Tokens of ServiceAccounts and the like are not for others.
  static apiserver::ResourcePtr without_own_answers(const apiserver::ResourceDef& def) {
    auto copy = std::make_shared<apiserver::ResourceDef>(def);
    copy->subresources.clear();
    return copy;
  }

  /// An API of another export. Several of one identity are of one owner; the first by name counts.
  void add_foreign(ExportKind kind) {
    const PermissionClaim claim = *kind.claim;
    std::vector<ExportRef> owners = sources_.catalog.exports_with_identity(claim.identity);
    std::sort(owners.begin(), owners.end(), [](const ExportRef& a, const ExportRef& b) {
      return a.name != b.name ? a.name < b.name : a.cluster < b.cluster;
    });
    for (const ExportRef& owner : owners) {
      const std::optional<Json> other = sources_.catalog.get_export(owner);
      const Json* resources = other ? other->at({"spec", "resources"}) : nullptr;
      for (const Json& resource : resources == nullptr ? Json::Array() : resources->items()) {
        if (resource.text({"group"}) != claim.group || resource.text({"name"}) != claim.resource) {
          continue;
        }
        const std::string name(resource.text({"schema"}));
        const std::optional<Json> schema = sources_.catalog.get_schema(owner.cluster, name);
        if (!schema) {
          continue;
        }
        kind.owner = owner;
        kind.schema = name;
        kind.fingerprint =
            "claimed " + std::string(schema->text({"metadata", "uid"})) + " " + claim.identity;
        add_schema(std::move(kind), *schema, claim.identity);
        return;
      }
    }
  }

  void add_bindings() {
    const apiserver::ResourcePtr known = sources_.builtin.find("*", kApisGroup, kApiBindings);
    if (known == nullptr) {
      return;
    }
    ExportKind kind;
    kind.fingerprint = "bindings";
    kind.visible = label_in(std::string(krm::kExportLabel), export_label_value(ref_));
    add(std::move(kind), [&] {
      auto def = std::make_shared<apiserver::ResourceDef>(*known);
      def->verbs = {"get", "list", "watch"};
      // Once more beside that of the versions, as the reference lists it.
      def->subresources = {{"status", def->kind, "", "", {"get"}, {}}};
      return apiserver::ResourcePtr(std::move(def));
    });
  }

  const ExportKindSources& sources_;
  const ExportRef& ref_;
  const Json& export_;
  const std::vector<ExportKind>& before_;
  std::vector<ExportKind> kinds_;
};

}  // namespace

std::vector<ExportKind> export_kinds(const ExportKindSources& sources, const ExportRef& ref,
                                     const Json& api_export,
                                     const std::vector<ExportKind>& before) {
  return Builder(sources, ref, api_export, before).build();
}

}  // namespace kintsugi::controlplane
