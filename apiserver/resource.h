#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/user.h"
#include "base/error.h"
#include "krm/json.h"
#include "krm/schema.h"

/// How a kind is described to the API server: data tables plus a few plain functions.
namespace kintsugi::cel {
class RuleSet;
}

namespace kintsugi::apiserver {

struct Column {
  std::string name;
  std::string type = "string";  ///< string, integer, number, boolean, date
  std::string format;
  std::string description;
  int priority = 0;
  std::string json_path;  ///< ".spec.baseURL"; used unless `cell` is set
  krm::Json (*cell)(const krm::Json& object) = nullptr;
};

struct ScalePaths {
  std::string spec_replicas, status_replicas,
      label_selector;  ///< ".spec.replicas"; "" = no scale subresource
};

struct ResourceVersion {
  std::string name;  ///< "v1"
  bool served = true;
  bool storage = true;
  bool deprecated = false;
  std::string deprecation_warning;
  krm::SchemaPtr schema;  ///< whole object with apiVersion, kind, metadata; null: free form
  std::shared_ptr<const cel::RuleSet> rules;  ///< x-kubernetes-validations; null: none
  /// Of the schema's text in a CustomResourceDefinition: objects that were written under another
  /// one are pruned and defaulted when they are read (AM-394). 0: never.
  std::uint64_t schema_digest = 0;
  std::vector<Column> columns;  ///< after the leading Name column
  bool status = false;          ///< has a /status subresource
  ScalePaths scale;
  std::vector<std::string> selectable_fields;  ///< ".spec.color"
  /// Rewrites an object of the storage version to this one and back; null: only apiVersion differs.
  void (*from_storage)(krm::Json& object) = nullptr;
  void (*to_storage)(krm::Json& object) = nullptr;
};

/// Read access of hooks to the committed state, same loop, synchronous.
class ObjectReader {
 public:
  virtual ~ObjectReader() = default;
  /// Object with apiVersion, kind and resourceVersion; nullopt when absent.
  [[nodiscard]] virtual std::optional<krm::Json> get(std::string_view cluster,
                                                     std::string_view group,
                                                     std::string_view resource, std::string_view ns,
                                                     std::string_view name) const = 0;
  /// Every object of a resource; cluster "*" = all clusters, ns "" = all namespaces. Return false
  /// to stop.
  virtual void list(std::string_view cluster, std::string_view group, std::string_view resource,
                    std::string_view ns,
                    const std::function<bool(const krm::Json&)>& visit) const = 0;
};

/// What a hook knows about the request.
struct WriteContext {
  const auth::UserInfo& user;
  std::string_view cluster;
  std::string_view verb;  ///< create, update, patch, delete
  std::string_view subresource;
  bool dry_run = false;
  const ObjectReader& reader;
  std::vector<std::string>& warnings;  ///< become Warning: 299 headers
  bool deep_review = false;            ///< a review of rights without that to enter the cluster
  bool generated_name = false;         ///< create: the server made the name out of generateName
};

/// Behaviour of a kind beyond its schema. All optional. They run on the loop and must not block.
struct Hooks {
  /// Fills what Kubernetes fills while it decodes a kind (SetDefaults): before ownership of fields
  /// is recorded, on create, update and every patch, in the storage version. Idempotent. `prepare`
  /// does it again, so that leaving it out only moves ownership.
  std::function<void(krm::Json& object)> defaults;
  /// Fills system fields and defaults that a schema cannot say; `old` is null on create.
  /// All hooks see objects of the storage version, with apiVersion and kind. With verb "delete" it
  /// sees the object as it would be marked for deletion (deletionTimestamp and propagation
  /// finalizers set); finalizers that are there afterwards hold the object, else it goes.
  std::function<void(const WriteContext&, krm::Json& object, const krm::Json* old)> prepare;
  /// Appends causes for 422.
  std::function<void(const WriteContext&, const krm::Json& object, const krm::Json* old,
                     std::vector<Cause>&)>
      validate;
  /// Admission that may have to ask elsewhere; runs after prepare, before validate. Calls done
  /// exactly once. `old` null on create; `object` null on delete.
  using AdmitDone = std::function<void(Expected<void>)>;
  std::function<void(const WriteContext&, const krm::Json* object, const krm::Json* old,
                     AdmitDone done)>
      admit;
  /// Validating admission: like `admit`, but after `validate`, on what will be stored, so that a
  /// fault of the schema is told first. Runs on deletes too, after `admit`.
  std::function<void(const WriteContext&, const krm::Json* object, const krm::Json* old,
                     AdmitDone done)>
      approve;
  /// Answers get of names that are not stored but computed ("~", a user's home workspace), with an
  /// object of the storage version. Returns false, and forgets `done`, for every other name; else
  /// calls `done` exactly once. kTooManyRequests is sent as text with Retry-After, as kcp does.
  using GetDone = std::function<void(Expected<krm::Json>)>;
  std::function<bool(const auth::UserInfo& user, std::string_view cluster, std::string_view name,
                     const GetDone& done)>
      computed;
  /// Answers create of kinds that are never stored (reviews): returns the object to send back.
  using CreateDone = std::function<void(Expected<krm::Json>)>;
  std::function<void(const WriteContext&, krm::Json object, CreateDone done)> answer;
  /// Whole Table rows in place of Name + columns (Event).
  std::function<krm::Json(const krm::Json& object)> row;
};

/// Conversion of custom objects by rules of their own, or else by a webhook (AM-399).
struct ConversionWebhook {
  /// Set: nothing is asked elsewhere. @returns the object in version `to`, with its own metadata
  /// but labels and annotations, not pruned. @param spent grows by what it cost [cost units].
  /// @error any  its message tells why
  std::function<Expected<krm::Json>(const krm::Json& object, const ResourceVersion& to,
                                    std::uint64_t& spent)>
      rules;
  std::string url;        ///< "": `service`
  std::string service;    ///< "namespace/name"; there are no services here, so this always fails
  std::string ca_bundle;  ///< PEM; "": the roots of the system
  std::vector<std::string> review_versions;  ///< in order of preference
};

enum class NameRule : std::uint8_t { kSubdomain, kLabel, kPathSegment, kNone };

/// One resource (group + plural) with all its versions.
struct ResourceDef {
  std::string group, plural, singular, kind, list_kind;
  std::vector<std::string> short_names, categories;
  bool namespaced = true;
  /// Typed kind: list items carry no kind, bodies may be protobuf, strategic merge patch is served,
  /// decoding is strict about types.
  bool builtin = false;
  std::vector<std::string> verbs = {"create", "delete", "deletecollection", "get",
                                    "list",   "patch",  "update",           "watch"};
  NameRule name_rule = NameRule::kSubdomain;
  bool unconditional_update = false;  ///< PUT without resourceVersion
  bool create_on_update = false;      ///< PUT of an absent object creates
  bool generation = false;            ///< metadata.generation is kept
  bool virtual_create_only = false;   ///< reviews: only `answer`, nothing stored
  /// Writes of /status take the metadata too (Namespace, ResourceQuota, definitions).
  bool status_metadata = false;
  bool spec_finalizers = false;     ///< Namespace: spec.finalizers hold a deleted object too
  bool has_namespace_field = true;  ///< not Namespace: metadata.namespace is a field selector
  bool null_empty_table = false;    ///< definitions: rows of an empty Table are null
  /// Definitions: metadata is checked by the rules of custom kinds although it is a typed one.
  bool general_metadata = false;
  /// Definitions: version that discovery's storage hash is made of. "": the storage version.
  std::string hashed_version;
  bool delete_answers_object = false;  ///< Namespace: DELETE answers with the object, never Status
  /// All definitions of a name together, each with its own versions: Registry::find_any_identity.
  bool of_any_definition = false;
  /// Another view of the objects stored by the resource of this group with the same plural
  /// (events.k8s.io shows core events): its versions convert by from_storage and to_storage.
  std::optional<std::string> stored_under_group;
  /// Of a resource that comes from an APIBinding: the identity hash of its APIExport. Objects of
  /// one resource under different identities have nothing to do with each other (AM-503). "": none.
  std::string identity;
  /// Subresources besides status and scale: name, kind, group/version where they differ, verbs,
  /// handler by `answer`.
  struct ExtraSubresource {
    std::string name, kind, group, version;
    std::vector<std::string> verbs;  ///< get, create, update, patch
    /// Answers create (POST) and whatever else is in verbs. Null: get, update and patch go to the
    /// object itself through the ordinary pipeline; WriteContext::subresource tells `prepare`,
    /// which decides what may change (namespaces/finalize).
    std::function<void(const WriteContext&, std::string_view ns, std::string_view name,
                       krm::Json body, Hooks::CreateDone)>
        answer;
  };
  std::vector<ExtraSubresource> subresources;
  std::vector<ResourceVersion> versions;  ///< in order of preference
  /// The definition is being deleted: nothing is created any more (AM-385).
  bool terminating = false;
  /// Custom kinds: null: versions differ in apiVersion and in what their schemas prune.
  std::shared_ptr<const ConversionWebhook> webhook;
  /// Field selectors beside metadata.name and metadata.namespace: label and how to read it.
  struct FieldLabel {
    std::string label;
    std::string json_path;
  };
  std::vector<FieldLabel> field_labels;
  Hooks hooks;

  [[nodiscard]] const ResourceVersion* version(std::string_view name) const noexcept;
  [[nodiscard]] const ResourceVersion& storage_version() const noexcept;
  [[nodiscard]] bool has_verb(std::string_view verb) const noexcept;
  /// "configmaps", "widgets.ex.io"
  [[nodiscard]] std::string qualified_name() const;
  /// "v1", "ex.io/v1"
  [[nodiscard]] std::string api_version(std::string_view version_name) const;
};
using ResourcePtr = std::shared_ptr<const ResourceDef>;

/// The stored object by which a resource is served in a cluster (its definition, or what binds it).
struct ServedBy {
  std::string key;             ///< of the store; "": none, it is served as long as the server is
  std::uint64_t revision = 0;  ///< at which the registry has seen it
  bool terminating = false;    ///< as ResourceDef has it
};

/// Which resources a logical cluster serves. One instance per loop.
class Registry {
 public:
  virtual ~Registry() = default;
  /// @param resource  plural, or "<plural>:<identity hash>" for that of one APIExport: in a cluster
  ///                  that has bound it, or in "*".
  [[nodiscard]] virtual ResourcePtr find(std::string_view cluster, std::string_view group,
                                         std::string_view resource) const = 0;
  /// The resource in "*" under whatever identity, or of whatever definition, for metadata alone
  /// (AM-479): its identity is kAnyIdentity or it is `of_any_definition`, its versions are those of
  /// all. Null: there is none.
  [[nodiscard]] virtual ResourcePtr find_any_identity(std::string_view group,
                                                      std::string_view resource) const {
    static_cast<void>(group);
    static_cast<void>(resource);
    return nullptr;
  }
  /// Everything served in the cluster, in discovery order (core first, then groups by name as
  /// discovery shows them).
  [[nodiscard]] virtual std::vector<ResourcePtr> all(std::string_view cluster) const = 0;
  /// Changes whenever all(cluster) would; part of discovery ETags and caches.
  [[nodiscard]] virtual std::uint64_t generation(std::string_view cluster) const = 0;
  /// By what the resource, as find() gave it, is served there. nullopt: it is not, any more.
  [[nodiscard]] virtual std::optional<ServedBy> served_by(std::string_view cluster,
                                                          const ResourceDef& def) const {
    static_cast<void>(cluster);
    static_cast<void>(def);
    return ServedBy();
  }
  /// False while definitions are still being loaded: unknown paths answer 503, not 404 (AM-034).
  [[nodiscard]] virtual bool ready(std::string_view cluster) const = 0;
  /// The group version is served, if not here, then in some other cluster: discovery of it answers
  /// with an empty list, as the reference does for the groups of bound APIs.
  [[nodiscard]] virtual bool is_known_elsewhere(std::string_view group,
                                                std::string_view version) const {
    static_cast<void>(group);
    static_cast<void>(version);
    return false;
  }
};

}  // namespace kintsugi::apiserver
