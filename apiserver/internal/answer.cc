#include <utility>

#include "apiserver/internal/decode.h"
#include "apiserver/internal/handlers.h"
#include "apiserver/internal/pipeline.h"
#include "apiserver/internal/respond.h"
#include "apiserver/internal/server_impl.h"
#include "apiserver/internal/write_request.h"
#include "auth/own_roles.h"
#include "krm/protobuf.h"
#include "krm/status.h"

namespace kintsugi::apiserver::internal {
namespace {

/// `done` of hooks that make the answer themselves.
Hooks::CreateDone answer_with(const RequestPtr& request, const WriteOpPtr& op, int status) {
  return [request, op, status](Expected<krm::Json> object) {
    for (const std::string& text : op->warnings) {
      request->warn(text);
    }
    pass_notes(*request, *op);
    op->done = nullptr;
    if (!object) {
      send_error(*request, object.error());
      return;
    }
    send_json(*request, status, object->dump());
  };
}

/// Only a proxy, which is system:masters at kcp's shards, may leave out the check of workspace
/// access (T-13).
bool asks_deep(const Request& request, const auth::UserInfo& user) {
  return request.head.headers.get("x-kcp-internal-deep-subjectaccessreview") == "true" &&
         (user.in_group(auth::kGroupMasters) || user.in_group(auth::kGroupOwnProxy));
}

void answer_review(const RequestPtr& request, const WriteOpPtr& op, krm::Json object) {
  const ResourceDef& def = *op->kind->def;
  if (def.namespaced) {
    krm::Json& metadata = object["metadata"];
    const std::string_view given = metadata.text({"namespace"});
    if (!given.empty() && given != op->ns) {
      send_error(*request, krm::bad_request("the namespace of the provided object does not match "
                                            "the namespace sent on the request"));
      return;
    }
    metadata["namespace"] = op->ns;
  }
  if (def.hooks.prepare) {
    def.hooks.prepare(op->context(), object, nullptr);
  }
  std::vector<Cause> causes;
  if (def.hooks.validate) {
    def.hooks.validate(op->context(), object, nullptr, causes);
  }
  if (!causes.empty()) {
    send_error(*request, krm::invalid(def.group, def.kind, "", std::move(causes)));
    return;
  }
  static_cast<void>(op->context());
  op->hook_context->deep_review = asks_deep(*request, op->user);
  def.hooks.answer(*op->hook_context, std::move(object), answer_with(request, op, 201));
}

void answer_subresource(const RequestPtr& request, const Target& target, const WriteOpPtr& op,
                        BodyType type) {
  const bool has_body = request->head.method != "GET";
  krm::Json body;
  if (has_body && type == BodyType::kProtobuf) {
    const std::string version = target.extra->group.empty()
                                    ? target.extra->version
                                    : target.extra->group + "/" + target.extra->version;
    Expected<krm::Json> decoded = krm::decode_protobuf(request->body, version, target.extra->kind);
    if (!decoded) {
      send_error(*request, decoded.error());
      return;
    }
    body = std::move(*decoded);
  } else if (has_body) {
    Expected<ParsedBody> parsed = parse_body(*target.kind, type, request->body);
    if (!parsed) {
      send_error(*request, parsed.error());
      return;
    }
    body = std::move(parsed->json);
  }
  const int status = request->head.method == "POST" ? 201 : 200;
  const auto shown = std::make_shared<krm::Json>(std::move(body));
  const auto answer = [request, extra = target.extra, op, status, shown] {
    extra->answer(op->context(), op->ns, op->name, std::move(*shown),
                  answer_with(request, op, status));
  };
  if (status == 201) {
    review_subresource(op, *target.extra, shown, answer);
  } else {
    answer();
  }
}

}  // namespace

void handle_answer(const RequestPtr& request, const Target& target) {
  if (!negotiate_form(*request, *target.kind, false)) {
    return;
  }
  const BodyType type = body_type(request->header("content-type"), true);
  const bool has_body = request->head.method != "GET";
  if (has_body && type != BodyType::kJson && type != BodyType::kYaml &&
      (type != BodyType::kProtobuf || !target.kind->def->builtin)) {
    send_error(*request, unsupported_body(*target.kind));
    return;
  }
  Expected<WriteOptions> options = parse_write_options(request->info.query, "CreateOptions", false);
  if (!options) {
    send_error(*request, options.error());
    return;
  }
  const WriteOpPtr op = make_write_op(request, target, Create{});
  op->options = std::move(*options);
  with_body(request, [request, target, op, type] {
    if (target.extra != nullptr) {
      answer_subresource(request, target, op, type);
      return;
    }
    Expected<krm::Json> object =
        decode_object(*op->kind, type, request->body, op->options.validation, op->warnings);
    if (!object) {
      send_error(*request, object.error());
      return;
    }
    answer_review(request, op, std::move(*object));
  });
}

}  // namespace kintsugi::apiserver::internal
