#include "controlplane/views/claim_labels.h"

#include <vector>

#include "controlplane/controllers/binding_status.h"
#include "controlplane/internal/names.h"
#include "krm/labels.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;
using Labels = std::map<std::string, std::string>;

const Json& labels_of(const Json& object) {
  static const Json kNone;
  const Json* labels = object.at({"metadata", "labels"});
  return labels == nullptr || !labels->is_object() ? kNone : *labels;
}

bool is_binding(const ClaimedResource& resource) {
  return resource.group == kApisGroup && resource.resource == kApiBindings;
}

/// What an older state of the bindings has left may be sent back.
bool is_left(const std::string& key, const Json& labels, const Json* old) {
  return old != nullptr && labels_of(*old).text({key}) == labels.text({key});
}

Error not_to_be_set(const apiserver::ResourceDef& def, const Json& object, const std::string& key) {
  return krm::forbidden(def.group, def.plural, object.text({"metadata", "name"}),
                        "metadata.labels[" + key + "]: Forbidden: must not be set");
}

/// Labels of this kind that the object has.
std::vector<std::string> present(const ClaimedResource& resource, const Json& labels) {
  std::vector<std::string> keys;
  if (labels.is_object()) {
    for (const krm::JsonMember& member : labels.members()) {
      const std::string_view key = member.key;
      if (key.starts_with(krm::kClaimedLabelPrefix) ||
          (is_binding(resource) && key == krm::kExportLabel)) {
        keys.emplace_back(key);
      }
    }
  }
  return keys;
}

}  // namespace

Labels claim_labels(const BindingIndex& bindings, const IdentityCheck& in_root,
                    std::string_view cluster, const ClaimedResource& resource, const Json& object) {
  Labels out;
  const Json& labels = labels_of(object);
  bindings.visit(cluster, [&](const BindingInfo& binding) {
    const PermissionClaim* claim =
        binding.target.cluster.empty()
            ? nullptr
            : binding.claim_on(resource.group, resource.resource, resource.identity, in_root);
    if (claim != nullptr && claim->selector.matches(labels)) {
      out.insert_or_assign(claim_label_key(binding.target), claim_label_value(*claim));
    }
  });
  if (is_binding(resource)) {
    const ExportRef target = bindings.target_of(cluster, object);
    if (!target.cluster.empty()) {
      out.emplace(claim_label_key(target), own_binding_label_value());
      out.emplace(krm::kExportLabel, export_label_value(target));
    }
  }
  return out;
}

bool has_claim_labels(const BindingIndex& bindings, const IdentityCheck& in_root,
                      std::string_view cluster, const ClaimedResource& resource,
                      const Json& object) {
  const Json& labels = labels_of(object);
  const std::vector<std::string> known = present(resource, labels);
  if (known.empty() && !bindings.has_claims(cluster) && !is_binding(resource)) {
    return true;
  }
  const Labels wanted = claim_labels(bindings, in_root, cluster, resource, object);
  if (wanted.size() != known.size()) {
    return false;
  }
  for (const auto& [key, value] : wanted) {
    if (labels.text({key}) != value) {
      return false;
    }
  }
  return true;
}

Expected<void> keep_claim_labels(const BindingIndex& bindings, const IdentityCheck& in_root,
                                 const apiserver::WriteContext& context,
                                 const apiserver::ResourceDef& def, Json& object) {
  const ClaimedResource resource{def.group, def.plural, def.identity};
  if (context.cluster.empty() || def.virtual_create_only ||
      has_claim_labels(bindings, in_root, context.cluster, resource, object)) {
    return {};
  }
  const Labels wanted = claim_labels(bindings, in_root, context.cluster, resource, object);
  Json& labels = object.make({"metadata", "labels"});
  for (const std::string& key : present(resource, labels)) {
    if (!wanted.contains(key)) {
      labels.erase(key);
    }
  }
  for (const auto& [key, value] : wanted) {
    labels[key] = value;
  }
  if (labels.size() == 0) {
    object.find("metadata")->erase("labels");
  }
  return {};
}

namespace {

class ClaimLabels final : public apiserver::AdmissionStep {
 public:
  ClaimLabels(const BindingIndex& bindings, const IdentityCheck& in_root)
      : bindings_(bindings), in_root_(in_root) {}
  Expected<void> prepare(const apiserver::WriteContext& context, const apiserver::ResourceDef& def,
                         krm::Json& object, const krm::Json* /*old*/) override {
    return keep_claim_labels(bindings_, in_root_, context, def, object);
  }

 private:
  const BindingIndex& bindings_;
  const IdentityCheck& in_root_;
};

}  // namespace

std::unique_ptr<apiserver::AdmissionStep> claim_labels_step(const BindingIndex& bindings,
                                                            const IdentityCheck& in_root) {
  return std::make_unique<ClaimLabels>(bindings, in_root);
}

Expected<void> refuse_claim_labels(const apiserver::ResourceDef& def, const Json& object,
                                   const Json* old) {
  const Json& labels = labels_of(object);
  for (const std::string& key : present({def.group, def.plural, def.identity}, labels)) {
    if (!is_left(key, labels, old)) {
      return fail(not_to_be_set(def, object, key));
    }
  }
  return {};
}

}  // namespace kintsugi::controlplane
