#include <algorithm>
#include <utility>

#include "apiserver/internal/reviews.h"
#include "apiserver/internal/scale.h"
#include "apiserver/internal/server_impl.h"
#include "apiserver/internal/write_op.h"
#include "krm/managed_fields.h"

namespace kintsugi::apiserver::internal {
namespace {

using krm::Json;
using Steps = std::vector<std::unique_ptr<AdmissionStep>>;
using Done = std::function<void(Changed)>;

bool is_mutated(const WriteOp& op) {
  const Steps& steps = op.server.params().admission;
  return std::any_of(steps.begin(), steps.end(),
                     [&op](const auto& step) { return step->may_change(op); });
}

/// The steps from one on. @param changed  by those before
void mutate_from(const WriteOpPtr& op, std::size_t first, Review review, Changed changed,
                 const Done& done) {
  const Steps& steps = op->server.params().admission;
  for (std::size_t i = first; i < steps.size(); ++i) {
    if (!steps[i]->may_change(*op)) {
      continue;
    }
    steps[i]->mutate(op, review, [op, i, review, changed, done](Expected<Changed> made) {
      if (!made) {
        op->refuse(std::move(made.error()));
        return;
      }
      Review seen = review;
      if (*made != nullptr) {
        seen.object = *made;
      }
      mutate_from(op, i + 1, std::move(seen), *made == nullptr ? changed : std::move(*made), done);
    });
    return;
  }
  done(std::move(changed));
}

/// The whole object with what has become of the part that was shown.
Expected<Json> whole(const WriteOp& op, Json shown) {
  return op.subresource == "scale" ? with_scale(*op.kind, *op.object, shown)
                                   : Expected<Json>(std::move(shown));
}

}  // namespace

void keep_managed_fields(WriteOp& op, const Json& before, Json& changed) {
  const Json* was = before.at({"metadata", "managedFields"});
  const Json* is = changed.at({"metadata", "managedFields"});
  if (is != nullptr && was != nullptr && *is == *was) {
    return;
  }
  if (is != nullptr) {
    const Expected<krm::ManagedFields> parsed = krm::parse_managed_fields(*is);
    if (parsed) {
      return;
    }
    op.notes.warnings.push_back(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by "
        "an outdated mutating admission controller; please fix your requests: " +
        std::string(parsed.error().message()));
  }
  if (was != nullptr) {
    changed["metadata"]["managedFields"] = *was;
  } else {
    changed["metadata"].erase("managedFields");
  }
}

void mutate(const WriteOpPtr& op, const Json* object, const Json* old, std::function<void()> next) {
  op->notes = {};
  if (!is_mutated(*op)) {
    next();
    return;
  }
  const bool creates = old == nullptr;
  mutate_from(op, 0, review_of(op, object, old), nullptr,
              [op, creates, next = std::move(next)](const Changed& changed) {
                if (changed == nullptr || op->object == nullptr) {
                  next();
                  return;
                }
                Expected<Json> made = whole(*op, *changed);
                Expected<void> accepted = made ? creates ? accept_new(*op, std::move(*made))
                                                         : accept_update(*op, std::move(*made))
                                               : fail(std::move(made.error()));
                if (!accepted) {
                  op->refuse(std::move(accepted.error()));
                  return;
                }
                // Whoever judged the object before has to judge what has become of it.
                admit(op, op->object.get(), op->old.get(), next);
              });
}

void review_subresource(const WriteOpPtr& op, const ResourceDef::ExtraSubresource& extra,
                        std::shared_ptr<Json> body, std::function<void()> next) {
  const auto shown = [op, &extra, body] {
    Json object = *body;
    object["apiVersion"] = extra.group.empty() ? extra.version : extra.group + "/" + extra.version;
    object["kind"] = extra.kind;
    Review review;
    review.operation = Operation::kCreate;
    review.name = op->name;
    review.kind = {extra.group, extra.version, extra.kind};
    review.has_one_form = true;
    review.object = std::make_shared<const Json>(std::move(object));
    return review;
  };
  op->notes = {};
  const auto validate = [op, shown, next = std::move(next)] { review_all(op, shown, next); };
  if (!is_mutated(*op)) {
    validate();
    return;
  }
  mutate_from(op, 0, shown(), nullptr, [body, validate](const Changed& changed) {
    if (changed != nullptr) {
      *body = *changed;
    }
    validate();
  });
}

}  // namespace kintsugi::apiserver::internal
