#include <utility>

#include "apiserver/internal/decode.h"
#include "apiserver/internal/server_impl.h"
#include "apiserver/internal/write_op.h"
#include "krm/status.h"

namespace kintsugi::apiserver::internal {
namespace {

/// Who controllers are towards hooks.
auth::UserInfo system_user() {
  auth::UserInfo user;
  user.name = "system:apiserver";
  user.groups = {std::string(auth::kGroupMasters), std::string(auth::kGroupAuthenticated)};
  return user;
}

/// The version that the object says, else the storage version.
ServedKindPtr kind_of(const ResourcePtr& def, const krm::Json& object) {
  const std::string_view api_version = object.text({"apiVersion"});
  const std::size_t slash = api_version.find('/');
  const ResourceVersion* version =
      def->version(slash == std::string_view::npos ? api_version : api_version.substr(slash + 1));
  return make_served_kind(def, version);
}

/// The object as it would come from a client.
Expected<krm::Json> shaped(WriteOp& op, const ResourcePtr& def, krm::Json object) {
  op.kind = kind_of(def, object);
  std::vector<std::string> unknown;
  if (Expected<void> done = shape_object(*op.kind, object, unknown); !done) {
    return fail(std::move(done.error()));
  }
  object["apiVersion"] = op.kind->api_version;
  object["kind"] = def->kind;
  return object;
}

Expected<void> understand(WriteOp& op, const ResourcePtr& def, ApiServer::CreateObject what) {
  return shaped(op, def, std::move(what.object)).map([&](krm::Json object) {
    op.write = Create{std::move(object), what.keep_identity};
  });
}

Expected<void> understand(WriteOp& op, const ResourcePtr& def, ApiServer::UpdateObject what) {
  op.subresource = std::move(what.subresource);
  return shaped(op, def, std::move(what.object)).map([&op](krm::Json object) {
    object.make({"metadata", "name"}) = op.name;
    Update update;
    update.change = [object = std::move(object)](const krm::Json&) -> Expected<krm::Json> {
      return object;
    };
    update.unconditional = true;
    op.write = std::move(update);
  });
}

Expected<void> understand(WriteOp& op, const ResourcePtr& def, ApiServer::DeleteObject what) {
  op.kind = make_served_kind(def, nullptr);
  Delete deletion;
  deletion.options.precondition_uid = std::move(what.expected_uid);
  op.write = std::move(deletion);
  return {};
}

Expected<krm::Json> decoded(const WriteOp& op, const WriteResult& result) {
  if (result.stored.empty()) {
    return result.json;
  }
  return op.kind->decode(result.stored, result.revision);
}

}  // namespace

void Server::write(WriteRequest request, std::function<void(Expected<krm::Json>)> done) {
  const ResourcePtr def = params_.registry.find(request.cluster, request.group, request.resource);
  const auto later = [this, done = std::move(done)](Expected<krm::Json> result) {
    auto kept = std::make_shared<Expected<krm::Json>>(std::move(result));
    loop().post([alive = std::weak_ptr<Server*>(alive_), kept, done] {
      if (!alive.expired()) {
        done(std::move(*kept));
      }
    });
  };
  if (def == nullptr) {
    later(fail(krm::path_not_found()));
    return;
  }
  auto op = std::make_shared<WriteOp>(*this, Write());
  op->cluster = std::move(request.cluster);
  op->ns = def->namespaced ? std::move(request.ns) : std::string();
  op->name = std::move(request.name);
  op->user = system_user();
  op->manager = std::move(request.manager);
  op->skip_admission = request.skip_admission;
  op->fence = std::move(request.fence);
  op->done = [raw = op.get(), later](Expected<WriteResult> result) {
    later(result ? decoded(*raw, *result) : Expected<krm::Json>(fail(std::move(result.error()))));
  };
  Expected<void> understood = std::visit(
      [&op, &def](auto& what) { return understand(*op, def, std::move(what)); }, request.what);
  if (!understood) {
    op->refuse(std::move(understood.error()));
    return;
  }
  run_write(op);
}

}  // namespace kintsugi::apiserver::internal
