#include "controlplane/admission/migration_admission.h"

#include <string>
#include <utility>

#include "auth/own_roles.h"
#include "controlplane/admission/privileges.h"
#include "controlplane/internal/names.h"
#include "controlplane/moves/move_steps.h"
#include "krm/go_text.h"
#include "krm/status.h"

namespace kintsugi::controlplane {

using krm::Json;

namespace {

Error wrong_destination(const Json& object, std::string_view why) {
  const Json shard(object.text({"spec", "destinationShard"}));
  return krm::invalid(kMigrationGroup, "LogicalClusterMigration", object.text({"metadata", "name"}),
                      {krm::field_invalid("spec.destinationShard", shard, why)});
}

}  // namespace

void approve_migration(const RootView* root, const RefusesCluster& refuses,
                       const apiserver::WriteContext& context, const Json* object, const Json* old,
                       apiserver::Hooks::AdmitDone done) {
  if (object == nullptr || old != nullptr || !context.subresource.empty()) {
    done({});
    return;
  }
  const std::string_view name = object->text({"metadata", "name"});
  const std::string_view cluster = object->text({"spec", "logicalCluster"});
  const auto refuse = [&](std::string_view text) {
    done(fail(krm::forbidden(kMigrationGroup, kMigrations, name, text)));
  };
  if (!has_any(context.user, kSystem | kAdmin)) {
    refuse("only system privileged users can move logical clusters");
    return;
  }
  if (context.cluster != kRootCluster) {
    refuse("logical clusters are moved by objects in root");
    return;
  }
  if (!can_move(cluster)) {
    refuse("spec.logicalCluster: Invalid value: " + krm::go_quote(cluster) +
           ": root and system clusters cannot be moved");
    return;
  }
  std::string other;
  context.reader.list(context.cluster, kMigrationGroup, kMigrations, "", [&](const Json& one) {
    const std::string_view phase = one.text({"status", "phase"});
    if (one.text({"spec", "logicalCluster"}) == cluster && phase != "Completed" &&
        phase != "Failed" && one.text({"metadata", "name"}) != name) {
      other = one.text({"metadata", "name"});
    }
    return other.empty();
  });
  if (!other.empty()) {
    done(fail(krm::conflict(kMigrationGroup, kMigrations, name,
                            "the logical cluster is being moved by " + krm::go_quote(other))));
    return;
  }
  const std::string to(object->text({"spec", "destinationShard"}));
  if (root == nullptr || !root->synced()) {
    done({});
    return;
  }
  if (root->shard(to) == nullptr) {
    done(fail(wrong_destination(*object, "there is no such Shard")));
    return;
  }
  refuses(to, std::string(cluster),
          [object = *object, done = std::move(done)](std::string_view why) {
            if (why.empty()) {
              done({});
            } else {
              done(fail(wrong_destination(object, why)));
            }
          });
}

bool is_denied_migration(const auth::Attributes& attributes) noexcept {
  return attributes.is_resource && attributes.group == kMigrationGroup &&
         (!has_any(attributes.user, kSystem | kAdmin) || attributes.resource == kClusterDumps);
}

Error denied_dump() {
  ErrorDetail detail;
  detail.message =
      "logicalclusterdumps.migration.kcp.io is forbidden: user is not in group "
      "system:kcp:external-logical-cluster-admin";
  detail.kind = kClusterDumps;
  detail.group = kMigrationGroup;
  return Error(Errc::kForbidden, std::move(detail));
}

}  // namespace kintsugi::controlplane
