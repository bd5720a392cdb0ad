#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apiserver/controllers/controller.h"
#include "base/strings.h"
#include "base/time.h"
#include "krm/status.h"

/// For tests of controllers only: a server and registry in memory that keep the rules that
/// controllers rely on (resourceVersion, uid preconditions, finalizers, subresources).
namespace kintsugi::apiserver {

class TestingServer final : public ApiServer, public ObjectReader, public Registry {
 public:
  explicit TestingServer(net::Loop& loop) : loop_(loop) {}

  // What the test sets up.
  void serve(std::string_view group, std::string_view plural, std::string_view kind,
             bool namespaced = true) {
    auto definition = std::make_shared<ResourceDef>();
    definition->group = group;
    definition->plural = plural;
    definition->kind = kind;
    definition->namespaced = namespaced;
    definition->versions.emplace_back();
    definition->versions.back().name = "v1";
    definitions.push_back(definition);
    ++generation_;
  }
  void serve_usual() {
    serve("", "namespaces", "Namespace", false);
    serve("", "configmaps", "ConfigMap");
    serve("", "secrets", "Secret");
    serve("", "serviceaccounts", "ServiceAccount");
    serve("", "resourcequotas", "ResourceQuota");
    serve("", "events", "Event");
    serve("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", false);
    serve("rbac.authorization.k8s.io", "clusterroles", "ClusterRole", false);
  }

  /// Stores at once, as if a client had written; returns the uid.
  std::string put(const ObjectKey& key, const char* text = "{}") {
    return put(key, std::string(text));
  }
  std::string put(const ObjectKey& key, const std::string& text) {
    Expected<krm::Json> parsed = krm::Json::parse(text);
    EXPECT_TRUE(parsed) << text;
    return put(key, std::move(*parsed));
  }
  std::string put(const ObjectKey& key, krm::Json object) {
    krm::Json& meta = object["metadata"];
    meta["name"] = key.name;
    if (!key.ns.empty()) {
      meta["namespace"] = key.ns;
    }
    meta.make({"annotations", "kcp.io/cluster"}) = key.cluster;
    const auto present = objects.find(key.pack());
    meta["uid"] = present != objects.end() ? uid_of(present->second) : random_uuid();
    if (meta.find("creationTimestamp") == nullptr) {
      meta["creationTimestamp"] = rfc3339(unix_seconds());
    }
    for (const ResourcePtr& definition : definitions) {
      if (definition->plural == key.resource && definition->group == key.group) {
        object["kind"] = definition->kind;
        object["apiVersion"] = key.group.empty() ? "v1" : key.group + "/v1";
      }
    }
    const std::string uid = uid_of(object);
    store(key, std::move(object));
    return uid;
  }
  /// DELETE of a client; propagation "" (background), "Foreground" or "Orphan".
  void erase(const ObjectKey& key, std::string_view propagation = "") {
    const auto found = objects.find(key.pack());
    ASSERT_NE(found, objects.end()) << key.pack();
    krm::Json object = found->second;
    if (!propagation.empty()) {
      object.make({"metadata", "finalizers"})
          .push_back(krm::Json(propagation == "Orphan" ? "orphan" : "foregroundDeletion"));
    }
    mark_deleted(key, std::move(object));
  }
  [[nodiscard]] const krm::Json* find(const ObjectKey& key) const {
    const auto found = objects.find(key.pack());
    return found == objects.end() ? nullptr : &found->second;
  }
  /// Runs the loop until the controller rests.
  void run(const Controller& controller) {
    int quiet = 0;
    run_until([&] {
      quiet = controller.busy() == 0 ? quiet + 1 : 0;
      return quiet > 8;
    });
  }
  void run_until(const std::function<bool()>& condition) {
    bool done = false;
    std::function<void()> look = [&] {
      done = condition();
      if (done) {
        loop_.stop();
      } else {
        loop_.post(look);
      }
    };
    loop_.post(look);
    net::Timer limit(loop_);
    limit.start(seconds(20), [&] { loop_.stop(); });
    loop_.run();
    EXPECT_TRUE(done) << "the loop did not come to rest";
  }

  // ObjectReader
  std::optional<krm::Json> get(std::string_view cluster, std::string_view group,
                               std::string_view resource, std::string_view ns,
                               std::string_view name) const override {
    const krm::Json* found = find({std::string(cluster), std::string(group), std::string(resource),
                                   std::string(ns), std::string(name)});
    return found == nullptr ? std::nullopt : std::optional<krm::Json>(*found);
  }
  void list(std::string_view cluster, std::string_view group, std::string_view resource,
            std::string_view ns,
            const std::function<bool(const krm::Json&)>& visit) const override {
    for (const auto& [text, object] : objects) {
      const ObjectKey key = ObjectKey::unpack(text);
      if ((cluster == "*" || key.cluster == cluster) && key.group == group &&
          key.resource == resource && (ns.empty() || key.ns == ns) && !visit(object)) {
        return;
      }
    }
  }

  // Registry
  ResourcePtr find(std::string_view, std::string_view group,
                   std::string_view resource) const override {
    for (const ResourcePtr& definition : definitions) {
      if (definition->group == group && definition->plural == resource) {
        return definition;
      }
    }
    return nullptr;
  }
  std::vector<ResourcePtr> all(std::string_view) const override { return definitions; }
  std::uint64_t generation(std::string_view) const override { return generation_; }
  bool ready(std::string_view) const override { return is_ready; }

  // ApiServer
  const ObjectReader& reader() const override { return *this; }
  void write(WriteRequest request, std::function<void(Expected<krm::Json>)> done) override {
    ++writes;
    auto shared = std::make_shared<WriteRequest>(std::move(request));
    loop_.post([this, shared, done = std::move(done)] { done(apply(*shared)); });
  }
  std::shared_ptr<void> on_change(std::string_view group, std::string_view resource,
                                  std::function<void(const Change&)> listener) override {
    auto entry = std::make_shared<Listener>();
    entry->group = group;
    entry->resource = resource;
    entry->call = std::move(listener);
    listeners_.push_back(entry);
    return entry;
  }
  Expected<Counted> count(std::string_view cluster, std::string_view resource,
                          std::string_view ns) const override {
    ++counts;
    Counted out{0, revision_};
    const std::size_t dot = resource.find('.');
    const std::string_view group =
        dot == std::string_view::npos ? std::string_view() : resource.substr(dot + 1);
    list(cluster, group, resource.substr(0, dot), ns, [&out](const krm::Json&) {
      ++out.objects;
      return true;
    });
    return out;
  }
  void start_drain() override {}
  void end_watches(const View&, std::string_view, std::string_view) override {}
  void end_watches(std::string_view, std::string_view, std::string_view) override {}
  void review_watches(std::string_view) override {}
  void review_all_watches() override {}
  void end_unproven() override {}
  Stats stats() const override { return {}; }
  std::unique_ptr<http::RequestHandler> on_request(http::RequestHead,
                                                   http::ResponseStream&) noexcept override {
    return nullptr;
  }

  std::map<std::string, krm::Json> objects;
  std::vector<ResourcePtr> definitions;
  bool is_ready = true;
  int writes = 0;
  mutable int counts = 0;

 private:
  struct Listener {
    std::string group, resource;
    std::function<void(const Change&)> call;
  };

  static bool held(const ObjectKey& key, const krm::Json& object) {
    const auto any = [&](std::initializer_list<std::string_view> path) {
      const krm::Json* list = object.at(path);
      return list != nullptr && list->size() > 0;
    };
    return any({"metadata", "finalizers"}) ||
           (key.resource == "namespaces" && any({"spec", "finalizers"}));
  }

  void store(const ObjectKey& key, krm::Json object) {
    object.make({"metadata", "resourceVersion"}) = std::to_string(++revision_);
    auto change = std::make_shared<Change>();
    const auto old = objects.find(key.pack());
    if (old != objects.end()) {
      change->previous = std::make_shared<const krm::Json>(old->second);
    }
    if (is_deleted(object) && !held(key, object)) {
      objects.erase(key.pack());
    } else {
      change->object = std::make_shared<const krm::Json>(object);
      objects.insert_or_assign(key.pack(), std::move(object));
    }
    announce(key, change);
  }
  void mark_deleted(const ObjectKey& key, krm::Json object) {
    object.make({"metadata", "deletionTimestamp"}) = rfc3339(unix_seconds());
    if (key.resource == "namespaces") {
      object.make({"status", "phase"}) = "Terminating";
    }
    store(key, std::move(object));
  }
  void announce(const ObjectKey& key, const std::shared_ptr<Change>& change) {
    change->cluster = key.cluster;
    change->group = key.group;
    change->resource = key.resource;
    change->ns = key.ns;
    change->name = key.name;
    change->revision = revision_;
    loop_.post([this, change] {
      for (const std::weak_ptr<Listener>& weak : std::vector(listeners_)) {
        const std::shared_ptr<Listener> listener = weak.lock();
        if (listener && (listener->resource.empty() || (listener->group == change->group &&
                                                        listener->resource == change->resource))) {
          listener->call(*change);
        }
      }
    });
  }

  Expected<krm::Json> apply(WriteRequest& request) {
    const ObjectKey key{request.cluster, request.group, request.resource, request.ns, request.name};
    const auto found = objects.find(key.pack());
    if (auto* create = std::get_if<CreateObject>(&request.what)) {
      if (found != objects.end()) {
        return fail(krm::already_exists(key.group, key.resource, key.name));
      }
      put(key, create->object);
      return create->object;
    }
    if (found == objects.end()) {
      return fail(krm::not_found(key.group, key.resource, key.name));
    }
    krm::Json present = found->second;
    if (const auto* gone = std::get_if<DeleteObject>(&request.what)) {
      if (!gone->expected_uid.empty() && gone->expected_uid != uid_of(present)) {
        return fail(Errc::kConflict);
      }
      mark_deleted(key, std::move(present));
      return krm::Json::object();
    }
    auto& update = std::get<UpdateObject>(request.what);
    if (update.object.text({"metadata", "resourceVersion"}) !=
        present.text({"metadata", "resourceVersion"})) {
      return fail(krm::modified(key.group, key.resource, key.name));
    }
    krm::Json next = std::move(update.object);
    const auto keep = [&](krm::Json& target, const krm::Json& source, const char* member) {
      if (const krm::Json* value = source.find(member)) {
        target[member] = *value;
      } else {
        target.erase(member);
      }
    };
    if (update.subresource == "status") {
      krm::Json target = present;
      keep(target, next, "status");
      next = std::move(target);
    } else if (update.subresource == "finalize") {
      krm::Json target = present;
      keep(target["spec"], next["spec"], "finalizers");
      next = std::move(target);
    } else {
      keep(next, present, "status");
    }
    store(key, next);
    return next;
  }

  net::Loop& loop_;
  std::uint64_t revision_ = 0;
  std::uint64_t generation_ = 1;
  std::vector<std::weak_ptr<Listener>> listeners_;
};

/// A loop, a server and keys of cluster "c".
class ControllerTest : public ::testing::Test {
 protected:
  ControllerTest() { server_.serve_usual(); }
  ControllerContext context() { return {loop_, server_, server_}; }
  static ObjectKey config_map(const char* name, const char* ns = "t1", const char* cluster = "c") {
    return {cluster, "", "configmaps", ns, name};
  }
  static ObjectKey ns_key(const char* name, const char* cluster = "c") {
    return {cluster, "", "namespaces", "", name};
  }
  net::Loop loop_{"test"};
  TestingServer server_{loop_};
};

}  // namespace kintsugi::apiserver
