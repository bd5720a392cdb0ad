#include <algorithm>
#include <utility>

#include "apiserver/internal/apply_request.h"
#include "apiserver/internal/decode.h"
#include "apiserver/internal/encode.h"
#include "apiserver/internal/handlers.h"
#include "apiserver/internal/pipeline.h"
#include "apiserver/internal/respond.h"
#include "apiserver/internal/scale.h"
#include "apiserver/internal/server_impl.h"
#include "apiserver/internal/write_op.h"
#include "apiserver/internal/write_request.h"
#include "krm/go_value.h"
#include "krm/json_patch.h"
#include "krm/merge_patch.h"
#include "krm/status.h"
#include "krm/strategic_merge.h"
#include "krm/strict.h"

namespace kintsugi::apiserver::internal {
namespace {

/// What was stored, after the webhook has brought it to the version of the request.
void send_converted(const RequestPtr& request, const WriteOp& op, const WriteResult& result) {
  Expected<krm::Json> object = op.kind->decode(result.stored, result.revision);
  if (!object) {
    send_error(*request, object.error());
    return;
  }
  request->server.conversions().convert_one(
      op.cluster, op.kind, std::move(*object),
      [request, kind = op.kind, status = result.status,
       scaled = op.subresource == "scale"](Expected<krm::Json> converted) {
        Expected<krm::Json> shown =
            converted && scaled ? scale_of(*kind, *converted) : std::move(converted);
        if (!shown) {
          send_error(*request, shown.error());
          return;
        }
        const Expected<IncludeObject> include =
            parse_include_object(request->info.query.get("includeObject"));
        const ObjectEncoder encoder(kind, request->form,
                                    include ? *include : IncludeObject::kMetadata);
        send_json(*request, status, encoder.object_text(*shown));
      });
}

void send_result(Request& request, const WriteOp& op, const WriteResult& result) {
  if (request.is_gone()) {
    return;
  }
  if (result.is_status) {
    request.form.shape = Shape::kObject;
    send_json(request, result.status, result.json.dump());
    return;
  }
  const Expected<IncludeObject> include =
      parse_include_object(request.info.query.get("includeObject"));
  const ObjectEncoder encoder(op.kind, request.form, include ? *include : IncludeObject::kMetadata);
  if (result.stored.empty()) {
    send_json(request, result.status, encoder.object_text(result.json));
    return;
  }
  std::string text;
  Expected<void> done;
  if (op.subresource == "scale") {
    const Expected<krm::Json> object = op.kind->decode(result.stored, result.revision);
    const Expected<krm::Json> scale =
        object ? scale_of(*op.kind, *object) : fail(object.error().clone());
    if (!scale) {
      send_error(request, scale.error());
      return;
    }
    text = encoder.object_text(*scale);
  } else {
    done = encoder.append_object(text, result.stored, result.revision);
  }
  if (!done) {
    send_error(request, done.error());
    return;
  }
  send_json(request, result.status, std::move(text));
}

bool read_options(const RequestPtr& request, std::string_view kind, WriteOptions& options) {
  Expected<WriteOptions> parsed = parse_write_options(request->info.query, kind, false);
  if (!parsed) {
    send_error(*request, parsed.error());
    return false;
  }
  options = std::move(*parsed);
  return true;
}

/// Body types of create and update; 415 with an answer.
bool accept_body_type(const RequestPtr& request, const Target& target, BodyType& type) {
  type = body_type(request->header("content-type"), true);
  const bool known = type == BodyType::kJson || type == BodyType::kYaml ||
                     (type == BodyType::kProtobuf && target.kind->def->builtin);
  if (!known) {
    send_error(*request, unsupported_body(*target.kind));
  }
  return known;
}

/// A Scale body, checked no further than its syntax.
Expected<krm::Json> read_scale(const ServedKind& kind, BodyType type, std::string_view body) {
  Expected<ParsedBody> parsed = parse_body(kind, type, body);
  if (!parsed) {
    return fail(std::move(parsed.error()));
  }
  return std::move(parsed->json);
}

/// What PUT asks for.
Expected<void> read_replacement(WriteOp& op, BodyType type, std::string_view body) {
  auto& update = std::get<Update>(op.write);
  if (op.subresource == "scale") {
    Expected<krm::Json> scale = read_scale(*op.kind, type, body);
    if (!scale) {
      return fail(std::move(scale.error()));
    }
    update.unconditional = true;
    update.change = [kind = op.kind, scale = std::move(*scale)](const krm::Json& current) {
      return with_scale(*kind, current, scale);
    };
    return {};
  }
  Expected<krm::Json> object =
      decode_object(*op.kind, type, body, op.options.validation, op.warnings);
  if (!object) {
    return fail(std::move(object.error()));
  }
  update.change = [object = std::move(*object)](const krm::Json&) -> Expected<krm::Json> {
    return object;
  };
  return {};
}

/// What a patch makes of an object. `shown` gets what a refusal of the result shows, if that is not
/// the result itself.
using PatchDocument = std::function<Expected<krm::Json>(const krm::Json& view, std::string& shown)>;

Expected<PatchDocument> read_strategic_patch(const ServedKind& kind, std::string_view body,
                                             std::vector<std::string>& faults) {
  krm::Json::ParseReport report;
  Expected<krm::Json> patch = krm::parse_strategic_merge(body, &report);
  if (!patch) {
    return fail(std::move(patch.error()));
  }
  faults = krm::strict_warnings(report.duplicate_fields, {});
  return PatchDocument([schema = kind.version->schema, patch = std::move(*patch)](
                           const krm::Json& view, std::string& shown) -> Expected<krm::Json> {
    krm::Json rest = patch;
    Expected<krm::Json> patched = krm::apply_strategic_merge(*schema, view, rest);
    if (patched) {
      shown = krm::go_value_text(rest);
      for (const std::string_view own : {"apiVersion", "kind"}) {
        patched->erase(own);  // the type is that of the path, whatever a patch says
      }
    }
    return patched;
  });
}

/// Reads the patch document. `faults` are what strict validation says about it.
Expected<PatchDocument> read_patch(const ServedKind& kind, BodyType type, std::string_view body,
                                   std::vector<std::string>& faults) {
  if (type == BodyType::kStrategicPatch) {
    return read_strategic_patch(kind, body, faults);
  }
  if (type == BodyType::kJsonPatch) {
    Expected<krm::JsonPatch> patch = krm::JsonPatch::parse(body);
    if (!patch) {
      return fail(std::move(patch.error()));
    }
    faults = patch->strict_errors();
    return PatchDocument([patch = std::move(*patch)](const krm::Json& view, std::string&) {
      return patch.apply(view);
    });
  }
  krm::Json::ParseReport report;
  Expected<krm::Json> patch = krm::parse_merge_patch(body, &report);
  if (!patch) {
    return fail(std::move(patch.error()));
  }
  faults = krm::strict_warnings(report.duplicate_fields, {});
  return PatchDocument(
      [patch = std::move(*patch)](const krm::Json& view, std::string&) -> Expected<krm::Json> {
        return krm::apply_merge_patch(view, patch);
      });
}

Change patch_change(WriteOp& op, PatchDocument patch, std::vector<std::string> faults) {
  if (op.subresource == "scale") {
    return [kind = op.kind, patch = std::move(patch)](const krm::Json& current) {
      std::string shown;
      return patch(scale_to_change(*kind, current), shown)
          .and_then([&](krm::Json patched) -> Expected<krm::Json> {
            if (Expected<void> fine = check_scale_types(patched); !fine) {
              return fail(krm::invalid("", "", "",
                                       {krm::field_invalid("patch", krm::Json(patched.dump()),
                                                           fine.error().message())}));
            }
            return with_scale(*kind, current, patched);
          });
    };
  }
  return [raw = &op, patch = std::move(patch),
          faults = std::move(faults)](const krm::Json& current) -> Expected<krm::Json> {
    std::string shown;
    Expected<krm::Json> patched = patch(current, shown);
    if (!patched) {
      return patched;
    }
    raw->warnings.clear();  // of an attempt before
    return decode_patched(*raw->kind, std::move(*patched), faults, raw->options.validation,
                          raw->warnings, shown, [&patch, &current] {
                            std::string same;
                            return patch(current, same);
                          });
  };
}

/// Kubernetes names apply patches twice, kcp's virtual workspaces once.
Error unsupported_patch(const ServedKind& kind, bool in_view) {
  if (kind.def->builtin) {
    return Error(Errc::kUnsupportedMediaType, "415: Unsupported Media Type");
  }
  std::string text =
      "the body of the request was in an unknown format - accepted media types include: "
      "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
  return Error(Errc::kUnsupportedMediaType,
               in_view ? text : text + ", application/apply-patch+yaml");
}

}  // namespace

void pass_notes(Request& request, WriteOp& op) {
  for (std::string& text : std::exchange(op.notes.warnings, {})) {
    request.warn(std::move(text));
  }
  for (auto& note : std::exchange(op.notes.annotations, {})) {
    request.annotations.push_back(std::move(note));
  }
}

AskCreate ask_create(const RequestPtr& request) {
  return [request](std::function<void()> allowed) {
    auth::Attributes attributes = attributes_of(*request);
    attributes.verb = "create";
    authorize(request, std::move(attributes), std::move(allowed));
  };
}

WriteOpPtr make_write_op(const RequestPtr& request, const Target& target, Write what) {
  auto op = std::make_shared<WriteOp>(request->server, std::move(what));
  op->request = request;
  op->kind = target.kind;
  op->view = request->view;
  op->cluster = request->cluster;
  op->ns = target.ns;
  op->name = target.name;
  op->subresource = target.subresource;
  op->user = request->user;
  op->done = [request, raw = op.get()](Expected<WriteResult> result) {
    for (std::string& text : raw->warnings) {
      request->warn(std::move(text));
    }
    raw->warnings.clear();
    pass_notes(*request, *raw);
    if (!result && raw->notes.status) {
      send_status(*request, krm::http_status(result.error()), *raw->notes.status);
    } else if (!result) {
      send_error(*request, result.error());
    } else if (!result->stored.empty() && raw->kind->needs_webhook(result->stored)) {
      send_converted(request, *raw, *result);
    } else {
      send_result(*request, *raw, *result);
    }
  };
  return op;
}

void handle_create(const RequestPtr& request, const Target& target) {
  WriteOptions options;
  BodyType type = BodyType::kOther;
  if (!negotiate_form(*request, *target.kind, false) || !accept_body_type(request, target, type) ||
      !read_options(request, "CreateOptions", options)) {
    return;
  }
  const WriteOpPtr op = make_write_op(request, target, Create{});
  op->manager = field_manager(options, request->header("user-agent"));
  op->options = std::move(options);
  with_body(request, [request, op, type] {
    Expected<krm::Json> object =
        decode_object(*op->kind, type, request->body, op->options.validation, op->warnings);
    request->body = std::string();
    if (!object) {
      op->refuse(std::move(object.error()));
      return;
    }
    std::get<Create>(op->write).object = std::move(*object);
    run_write(op);
  });
}

void handle_update(const RequestPtr& request, const Target& target) {
  WriteOptions options;
  BodyType type = BodyType::kOther;
  if (!negotiate_form(*request, *target.kind, false) || !accept_body_type(request, target, type) ||
      !read_options(request, "UpdateOptions", options)) {
    return;
  }
  const ResourceDef& def = *target.kind->def;
  const WriteOpPtr op = make_write_op(
      request, target,
      Update{{}, def.unconditional_update, def.create_on_update, ask_create(request)});
  op->manager = field_manager(options, request->header("user-agent"));
  op->options = std::move(options);
  with_body(request, [request, op, type] {
    Expected<void> made = read_replacement(*op, type, request->body);
    request->body = std::string();
    if (!made) {
      op->refuse(std::move(made.error()));
      return;
    }
    run_write(op);
  });
}

void handle_patch(const RequestPtr& request, const Target& target) {
  if (!negotiate_form(*request, *target.kind, false)) {
    return;
  }
  // Unlike the types of other bodies, those of patches are told apart by case.
  const std::string_view given = request->header("content-type");
  const std::string_view essence = given.substr(0, given.find(';'));
  const bool lower =
      std::none_of(essence.begin(), essence.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  const BodyType type = lower ? body_type(given, false) : BodyType::kOther;
  if (type == BodyType::kApplyPatch) {
    handle_apply(request, target);
    return;
  }
  const bool strategic = type == BodyType::kStrategicPatch && target.kind->def->builtin;
  if (type != BodyType::kJsonPatch && type != BodyType::kMergePatch && !strategic) {
    send_error(*request, unsupported_patch(*target.kind, request->view != nullptr));
    return;
  }
  WriteOptions options;
  if (!read_options(request, "PatchOptions", options)) {
    return;
  }
  const WriteOpPtr op = make_write_op(request, target, Patch{});
  op->manager = field_manager(options, request->header("user-agent"));
  op->options = std::move(options);
  with_body(request, [request, op, type] {
    std::vector<std::string> faults;
    Expected<PatchDocument> patch = read_patch(*op->kind, type, request->body, faults);
    request->body = std::string();
    Change& change = std::get<Patch>(op->write).change;
    if (!patch) {  // whether the object is there comes first
      change = [why = std::make_shared<Error>(std::move(patch.error()))](const krm::Json&) {
        return Expected<krm::Json>(fail(why->clone()));
      };
    } else {
      change = patch_change(*op, std::move(*patch), std::move(faults));
    }
    run_write(op);
  });
}

}  // namespace kintsugi::apiserver::internal
