#include "controlplane/views/internal/export_view.h"

#include <algorithm>
#include <utility>

#include "krm/status.h"

namespace kintsugi::controlplane {

using krm::Json;

namespace {

constexpr std::string_view kOriginalName = "experimental.authorization.kcp.io/original-username";
constexpr std::string_view kOriginalGroups = "experimental.authorization.kcp.io/original-groups";

Error refused(const apiserver::ResourceDef& def, const Json& object, std::string_view text) {
  return krm::forbidden(def.group, def.plural, object.text({"metadata", "name"}), text);
}

}  // namespace

Expected<void> fit_claim(const PermissionClaim& claim, const apiserver::ResourceDef& def,
                         Json& object) {
  if (claim.selector.empty()) {
    return {};
  }
  if (claim.match_labels.is_object()) {
    for (const krm::JsonMember& member : claim.match_labels.members()) {
      const std::string_view wanted = member.value.as_string();
      Json& label = object.make({"metadata", "labels", member.key});
      if (label.is_null()) {
        label = wanted;
      } else if (label.as_string() != wanted) {
        return fail(refused(def, object,
                            "protected label " + std::string(member.key) + " must have value " +
                                std::string(wanted)));
      }
    }
  }
  const Json* labels = object.at({"metadata", "labels"});
  if (!claim.selector.matches(labels == nullptr ? Json() : *labels)) {
    return fail(refused(def, object, "object does not match required labels"));
  }
  return {};
}

void ExportView::reload(apiserver::ApiServer& server, const Json& api_export) {
  offered_ = parse_claims(api_export.at({"spec", "permissionClaims"}));
  replace(server, export_kinds(sources_, ref_, api_export, kinds_));
}

void ExportView::close(apiserver::ApiServer& server) {
  offered_.clear();
  replace(server, {});
}

void ExportView::replace(apiserver::ApiServer& server, std::vector<ExportKind> kinds) {
  const std::vector<ExportKind> before = std::exchange(kinds_, std::move(kinds));
  const auto is_kept = [&](const ExportKind& old) {
    const ExportKind* now = kind_of(old.def->group, old.def->plural);
    return now != nullptr && now->def == old.def && now->visible == old.visible;
  };
  bool changed = before.size() != kinds_.size();
  std::vector<apiserver::ResourcePtr> ending;
  for (const ExportKind& old : before) {
    if (!is_kept(old)) {
      changed = true;
      ending.push_back(old.def);
    }
  }
  if (!changed) {
    return;
  }
  ++generation_;
  for (const apiserver::ResourcePtr& def : ending) {
    server.end_watches(*this, def->group, def->plural);
  }
}

bool ExportView::claims_identity(std::string_view identity) const noexcept {
  return std::any_of(offered_.begin(), offered_.end(), [identity](const PermissionClaim& claim) {
    return !claim.identity.empty() && claim.identity == identity;
  });
}

bool ExportView::claims_others() const noexcept {
  return std::any_of(offered_.begin(), offered_.end(),
                     [](const PermissionClaim& claim) { return !claim.identity.empty(); });
}

bool ExportView::claims_from(std::string_view cluster) const {
  return std::any_of(offered_.begin(), offered_.end(), [&](const PermissionClaim& claim) {
    if (claim.identity.empty()) {
      return false;
    }
    const std::vector<ExportRef> owners = sources_.catalog.exports_with_identity(claim.identity);
    return std::any_of(owners.begin(), owners.end(),
                       [&](const ExportRef& owner) { return owner.cluster == cluster; });
  });
}

bool ExportView::is_made_of(const ExportRef& owner) const noexcept {
  return owner == ref_ || std::any_of(kinds_.begin(), kinds_.end(),
                                      [&](const ExportKind& kind) { return kind.owner == owner; });
}

const ExportKind* ExportView::kind_of(std::string_view group,
                                      std::string_view plural) const noexcept {
  const auto found = std::find_if(kinds_.begin(), kinds_.end(), [&](const ExportKind& kind) {
    return kind.def->plural == plural && kind.def->group == group;
  });
  return found == kinds_.end() ? nullptr : &*found;
}

krm::Selector ExportView::visible(std::string_view, const apiserver::ResourceDef& def) const {
  const ExportKind* kind = kind_of(def.group, def.plural);
  return kind == nullptr ? krm::Selector() : kind->visible;
}

bool ExportView::prepares(const apiserver::ResourceDef& def) const {
  const ExportKind* kind = kind_of(def.group, def.plural);
  return kind != nullptr && kind->claim;
}

Expected<void> ExportView::prepare(const apiserver::WriteContext& context,
                                   const apiserver::ResourceDef& def, Json& object,
                                   const Json*) const {
  const BindingInfo* binding = bindings_.find(context.cluster, ref_);
  const PermissionClaim* claim =
      binding == nullptr ? nullptr
                         : binding->claim_on(def.group, def.plural, def.identity, sources_.in_root);
  if (claim == nullptr) {
    return fail(refused(def, object, "no claim on the resource is accepted"));
  }
  return fit_claim(*claim, def, object);
}

std::optional<auth::UserInfo> ExportView::acts_as(const auth::Attributes& attributes) const {
  if (!attributes.is_resource || attributes.cluster == "*") {
    return std::nullopt;
  }
  auth::UserInfo user = attributes.user;
  std::erase_if(user.extra, [](const auto& entry) {
    return entry.first == kOriginalName || entry.first == kOriginalGroups;
  });
  user.extra.emplace_back(kOriginalName, std::vector<std::string>{attributes.user.name});
  user.extra.emplace_back(kOriginalGroups, attributes.user.groups);
  return user;
}

apiserver::ResourcePtr ExportView::find(std::string_view, std::string_view group,
                                        std::string_view resource) const {
  const ExportKind* kind = kind_of(group, resource);
  return kind == nullptr ? nullptr : kind->def;
}

std::vector<apiserver::ResourcePtr> ExportView::all(std::string_view) const {
  std::vector<apiserver::ResourcePtr> out;
  out.reserve(kinds_.size());
  for (const ExportKind& kind : kinds_) {
    out.push_back(kind.def);
  }
  return out;
}

}  // namespace kintsugi::controlplane
