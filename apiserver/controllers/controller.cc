#include "apiserver/controllers/controller.h"

#include <algorithm>
#include <vector>

#include "base/log.h"
#include "base/strings.h"
#include "base/time.h"

namespace kintsugi::apiserver {

using krm::Json;

std::string ObjectKey::pack() const {
  // None of the parts may hold a '/'.
  return cluster + "/" + group + "/" + resource + "/" + ns + "/" + name;
}

ObjectKey ObjectKey::unpack(std::string_view text) {
  const std::vector<std::string_view> parts = split(text, '/');
  if (parts.size() != 5) {
    return {};
  }
  return {std::string(parts[0]), std::string(parts[1]), std::string(parts[2]),
          std::string(parts[3]), std::string(parts[4])};
}

ControllerBase::ControllerBase(const ControllerContext& context, const char* manager,
                               std::size_t parallel)
    : context_(context),
      queue_(
          context.loop,
          [this](const std::string& key, Finished finished) { process(key, std::move(finished)); },
          parallel),
      manager_(manager) {}

std::optional<Json> ControllerBase::get(const ObjectKey& key) const {
  return reader().get(key.cluster, key.group, key.resource, key.ns, key.name);
}

void ControllerBase::follow(std::string_view group, std::string_view resource,
                            std::function<void(const ApiServer::Change&)> listener) {
  subscriptions_.push_back(context_.server.on_change(group, resource, std::move(listener)));
}

namespace {

/// A controller's own write: admission is for others.
ApiServer::WriteRequest request_of(const ObjectKey& key, const std::string& manager,
                                   decltype(ApiServer::WriteRequest::what) what) {
  ApiServer::WriteRequest request;
  request.cluster = key.cluster;
  request.group = key.group;
  request.resource = key.resource;
  request.ns = key.ns;
  request.name = key.name;
  request.what = std::move(what);
  request.manager = manager;
  request.skip_admission = true;
  return request;
}

std::string describe(const ApiServer::WriteRequest& request) {
  constexpr const char* kVerbs[] = {"create ", "update ",
                                    "delete "};  // in the order of the variant
  return kVerbs[request.what.index()] + request.cluster + " " + request.resource + " " +
         request.ns + "/" + request.name;
}

}  // namespace

void ControllerBase::send(ApiServer::WriteRequest request, WriteDone done) {
  std::string what = describe(request);
  request.fence = context_.fence;
  context_.server.write(std::move(request), [alive = alive_.weak(), done = std::move(done),
                                             what = std::move(what),
                                             manager = manager_](Expected<Json> result) {
    // Lost races are the daily bread; anything else would be retried in silence for ever.
    if (!result && result.error().code() != Errc::kNotFound &&
        result.error().code() != Errc::kConflict && result.error().code() != Errc::kAlreadyExists) {
      log_warn("controller write failed",
               {{"controller", manager}, {"write", what}, {"errc", result.error().to_string()}});
    }
    if (alive) {
      done(std::move(result));
    }
  });
}

void ControllerBase::create(const ObjectKey& key, Json object, WriteDone done) {
  send(request_of(key, manager_, ApiServer::CreateObject{std::move(object)}), std::move(done));
}

/// Says on the object why nothing more happens to it.
void ControllerBase::stall(const ObjectKey& key) {
  log_warn("an object is written again and again; it rests until somebody changes it",
           {{"controller", manager_}, {"object", key.pack()}});
  std::optional<Json> object = get(key);
  if (!object || !set_condition(*object, "Stalled", "True", "WriteLoop",
                                manager_ + " came to the same state again and again; a change of "
                                           "the spec wakes it")) {
    return;
  }
  send(request_of(key, manager_, ApiServer::UpdateObject{std::move(*object), "status"}),
       [](const Expected<Json>&) {});
}

void ControllerBase::settle_status(const ObjectKey& key, const Json& before, Json now,
                                   Finished finished) {
  if (now == before) {
    finished(true);
    return;
  }
  update(key, "status", std::move(now),
         [finished = std::move(finished)](const Expected<Json>& stored) {
           finished(stored.has_value());
         });
}

void ControllerBase::update(const ObjectKey& key, std::string subresource, Json object,
                            WriteDone done) {
  const std::string place = key.pack();
  const WriteGuard::Verdict verdict = counts_others()
                                          ? WriteGuard::Verdict::kWrite
                                          : guard_.ask(place, object, context_.loop.now());
  if (verdict != WriteGuard::Verdict::kWrite) {
    if (guard_.rests_newly(place)) {
      stall(key);
    }
    context_.loop.post([alive = alive_.weak(), done = std::move(done)] {
      if (alive) {
        done(fail(Errc::kConflict, "written too often"));
      }
    });
    return;
  }
  const Json* stalled = subresource == "status" ? find_condition(object, "Stalled") : nullptr;
  if (stalled != nullptr && stalled->text({"reason"}) == "WriteLoop" && !guard_.rests(place)) {
    set_condition(object, "Stalled", "False", "Moving", "");
  }
  send(
      request_of(key, manager_, ApiServer::UpdateObject{std::move(object), std::move(subresource)}),
      std::move(done));
}

void ControllerBase::remove(const ObjectKey& key, std::string uid, WriteDone done) {
  send(request_of(key, manager_, ApiServer::DeleteObject{std::move(uid)}), std::move(done));
}

void ControllerBase::remove_in_cascade(std::string_view work, const ObjectKey& key, std::string uid,
                                       WriteDone done, std::function<bool()> still_due) {
  auto held = std::make_shared<WriteDone>(std::move(done));
  const auto go = [this, alive = alive_.weak(), key, uid, held, still_due = std::move(still_due)] {
    if (!alive) {
      return;
    }
    if (still_due && !still_due()) {
      (*held)(fail(Errc::kConflict, "it is not to be deleted any more"));
    } else {
      remove(key, uid, std::move(*held));
    }
  };
  if (context_.cascades->enter(key.cluster, go)) {
    remove(key, std::move(uid), std::move(*held));
  } else {
    queue_.park(work);
  }
}

bool is_deleted(const Json& object) {
  return !object.text({"metadata", "deletionTimestamp"}).empty();
}

store::Revision revision_of(const krm::Json& object) {
  return parse_decimal(object.text({"metadata", "resourceVersion"})).value_or(0);
}

std::string uid_of(const Json& object) { return std::string(object.text({"metadata", "uid"})); }

bool has_finalizer(const Json& object, std::string_view finalizer) {
  const Json* list = object.at({"metadata", "finalizers"});
  return list != nullptr &&
         std::any_of(list->items().begin(), list->items().end(),
                     [&](const Json& item) { return item.as_string() == finalizer; });
}

bool drop_finalizer(Json& object, std::string_view finalizer) {
  Json* list = object.at({"metadata", "finalizers"});
  if (list == nullptr || !list->is_array()) {
    return false;
  }
  Json::Array& items = list->edit_items();
  const auto kept = std::remove_if(items.begin(), items.end(),
                                   [&](const Json& item) { return item.as_string() == finalizer; });
  const bool found = kept != items.end();
  items.erase(kept, items.end());
  if (items.empty()) {
    object.at({"metadata"})->erase("finalizers");
  }
  return found;
}

const Json* find_condition(const Json& object, std::string_view type) {
  if (const Json* conditions = object.at({"status", "conditions"})) {
    for (const Json& condition : conditions->items()) {
      if (condition.text({"type"}) == type) {
        return &condition;
      }
    }
  }
  return nullptr;
}

bool set_condition(Json& object, std::string_view type, std::string_view status,
                   std::string_view reason, std::string_view message) {
  Json& conditions = object.make({"status", "conditions"});
  Json* found = nullptr;
  for (Json& condition : conditions.edit_items()) {
    if (condition.text({"type"}) == type) {
      found = &condition;
    }
  }
  if (found == nullptr) {
    conditions.push_back(Json::object({{"type", Json(type)}}));
    found = &conditions.edit_items().back();
  }
  if (found->text({"status"}) == status && found->text({"reason"}) == reason &&
      found->text({"message"}) == message) {
    return false;
  }
  if (found->text({"status"}) != status) {
    (*found)["lastTransitionTime"] = rfc3339(unix_seconds());
  }
  (*found)["status"] = status;
  (*found)["reason"] = reason;
  (*found)["message"] = message;
  return true;
}

bool is_gone(const Expected<Json>& deleted) {
  return deleted || deleted.error().code() == Errc::kNotFound ||
         deleted.error().code() == Errc::kConflict;
}

}  // namespace kintsugi::apiserver
