#include "apiserver/admission.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "apiserver/internal/decode.h"
#include "apiserver/internal/reviews.h"
#include "apiserver/internal/scale.h"
#include "apiserver/internal/server_impl.h"
#include "apiserver/internal/write_op.h"
#include "apiserver/stored_object.h"
#include "krm/go_text.h"
#include "krm/status.h"

namespace kintsugi::apiserver::internal {
namespace {

using krm::Json;

/// The members of a collection are admitted without their names: a refusal has none (AM-192).
Error without_name(Error error, const WriteOp& op) {
  const auto* deletion = std::get_if<Delete>(&op.write);
  if (deletion == nullptr || !deletion->of_collection) {
    return error;
  }
  const std::string named = krm::go_quote(op.name) + " is forbidden: ";
  const std::size_t at = error.message().find(named);
  if (error.code() == Errc::kForbidden && at != std::string_view::npos) {
    error.edit().name = "Unknown";
    error.edit().message.replace(at, named.size(), "\"Unknown\" is forbidden: ");
  }
  return error;
}

/// One that asks elsewhere about a write (Hooks::admit, Hooks::approve).
void ask(const WriteOpPtr& op, const decltype(Hooks::admit)& hook, const Json* object,
         const Json* old, std::function<void()> next) {
  if (!hook || op->skip_admission) {
    next();
    return;
  }
  hook(op->context(), object, old, [op, next = std::move(next)](Expected<void> allowed) {
    if (!allowed) {
      op->refuse(without_name(std::move(allowed.error()), *op));
      return;
    }
    next();
  });
}

/// What the resource is served by: as this loop knows it, or, when that has turned out to be old,
/// as it is stored.
Expected<void> check_served(WriteOp& op) {
  std::optional<ServedBy> by = op.server.registry().served_by(op.cluster, *op.kind->def);
  if (!by) {
    return fail(krm::path_not_found());
  }
  if (by->key.empty()) {
    return {};
  }
  if (op.commit_attempts > 0) {
    const Expected<store::Entry> stored = op.server.store().get(by->key);
    if (!stored) {
      return fail(stored.error().code() == Errc::kNotFound ? krm::path_not_found()
                                                           : stored.error().clone());
    }
    const Expected<Json> object = decode_stored(stored->value.view(), "", "", stored->modified);
    by->revision = stored->modified;
    by->terminating = object && object->at({"metadata", "deletionTimestamp"}) != nullptr;
  }
  if (by->terminating) {
    return fail(kind_terminates(op));
  }
  op.rests_on.push_back(store::unchanged(std::move(by->key), by->revision));
  return {};
}

using Steps = std::vector<std::unique_ptr<AdmissionStep>>;

void review_from(const WriteOpPtr& op, std::size_t first, const Review& review,
                 const std::function<void()>& next) {
  const Steps& steps = op->server.params().admission;
  for (std::size_t i = first; i < steps.size(); ++i) {
    if (!steps[i]->concerns(*op)) {
      continue;
    }
    steps[i]->review(op, review, [op, i, review, next](Expected<void> allowed) {
      if (!allowed) {
        op->refuse(std::move(allowed.error()));
        return;
      }
      review_from(op, i + 1, review, next);
    });
    return;
  }
  next();
}

std::shared_ptr<const Json> scale_shown(const ServedKind& kind, const Json* object) {
  if (object == nullptr) {
    return nullptr;
  }
  Expected<Json> scale = scale_of(kind, *object);
  return scale ? std::make_shared<const Json>(std::move(*scale)) : nullptr;
}

}  // namespace

Review review_of(const WriteOpPtr& op, const Json* object, const Json* old) {
  Review out;
  out.operation = object == nullptr ? Operation::kDelete
                  : old == nullptr  ? Operation::kCreate
                                    : Operation::kUpdate;
  const auto* deletion = std::get_if<Delete>(&op->write);
  out.name = deletion != nullptr && deletion->of_collection ? std::string() : op->name;
  const ServedKind& kind = *op->kind;
  if (op->subresource == "scale") {
    out.kind = {std::string(kScaleGroup), "v1", "Scale"};
    out.has_one_form = true;
    out.object = scale_shown(kind, object);
    out.old = scale_shown(kind, old);
    return out;
  }
  out.kind = {kind.def->group, kind.version->name, kind.def->kind};
  // The operation owns them, and has others only when this attempt is over.
  out.object = object == nullptr ? nullptr : std::shared_ptr<const Json>(op, object);
  out.old = old == nullptr ? nullptr : std::shared_ptr<const Json>(op, old);
  return out;
}

void WriteOp::convert(Json copy, ServedKindPtr to,
                      std::function<void(Expected<krm::Json>)> converted_to) {
  const ServedKind& written = written_as == nullptr ? *kind : *written_as;
  if (!written.is_custom()) {
    to->from_storage(copy);
  } else if (copy.text({"apiVersion"}) != to->api_version) {
    if (written.def->webhook != nullptr) {
      server.conversions().convert_one(cluster, to, std::move(copy), std::move(converted_to));
      return;
    }
    written.to_storage(copy);
    to->from_storage(copy);
  }
  converted_to(std::move(copy));
}

void WriteOp::take_back(Json changed, ServedKindPtr from,
                        std::function<void(Expected<krm::Json>)> taken) {
  const std::string api_version(changed.text({"apiVersion"}));
  const std::string kind_name(changed.text({"kind"}));
  if (!changed.is_object() || api_version != from->api_version || kind_name != from->def->kind) {
    taken(fail(krm::bad_request("no kind " + krm::go_quote(from->def->kind) + " of version " +
                                krm::go_quote(from->api_version) + " any more")));
    return;
  }
  std::vector<std::string> unknown;
  if (Expected<void> shaped = shape_object(*from, changed, unknown); !shaped) {
    taken(fail(krm::bad_request(std::string(shaped.error().message()))));
    return;
  }
  changed["apiVersion"] = from->api_version;
  changed["kind"] = from->def->kind;
  if (!kind->is_custom()) {
    from->to_storage(changed);
  } else if (from->api_version != kind->api_version) {
    if (kind->def->webhook != nullptr) {
      server.conversions().convert_one(cluster, kind, std::move(changed), std::move(taken));
      return;
    }
    from->to_storage(changed);
    kind->from_storage(changed);
  }
  taken(std::move(changed));
}

Error kind_terminates(const WriteOp& op) {
  const ResourceDef& def = *op.kind->def;
  return krm::forbidden(def.group, def.plural, op.name,
                        "create not allowed while custom resource definition is terminating");
}

void admit(const WriteOpPtr& op, const Json* object, const Json* old, std::function<void()> next) {
  ask(op, op->kind->def->hooks.admit, object, old, std::move(next));
}

Expected<void> check_new(WriteOp& op) {
  op.rests_on.clear();
  if (Expected<void> served = check_served(op); !served) {
    return served;
  }
  for (const auto& step : op.server.params().admission) {
    Expected<std::vector<store::Op>> allowed = step->check_new(op);
    if (!allowed) {
      return fail(std::move(allowed.error()));
    }
    std::move(allowed->begin(), allowed->end(), std::back_inserter(op.rests_on));
  }
  return {};
}

void approve(const WriteOpPtr& op, const Json* object, const Json* old,
             std::function<void()> next) {
  if (!op->refusal) {
    op->refuse(std::move(op->refusal.error()));
    return;
  }
  ask(op, op->kind->def->hooks.approve, object, old, [op, object, old, next = std::move(next)] {
    review_all(
        op, [&] { return review_of(op, object, old); }, next);
  });
}

void review_all(const WriteOpPtr& op, const std::function<Review()>& review,
                const std::function<void()>& next) {
  const Steps& steps = op->server.params().admission;
  const bool any = std::any_of(steps.begin(), steps.end(),
                               [&op](const auto& step) { return step->concerns(*op); });
  if (any) {
    review_from(op, 0, review(), next);
  } else {
    next();
  }
}

}  // namespace kintsugi::apiserver::internal
