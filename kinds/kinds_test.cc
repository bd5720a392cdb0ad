#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kinds/builtin_kinds.h"
#include "kinds/common.h"
#include "krm/strict.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;
using Texts = std::vector<std::string>;

class NoObjects final : public apiserver::ObjectReader {
 public:
  std::optional<Json> get(std::string_view, std::string_view, std::string_view, std::string_view,
                          std::string_view) const override {
    return std::nullopt;
  }
  void list(std::string_view, std::string_view, std::string_view, std::string_view,
            const std::function<bool(const Json&)>&) const override {}
};

Json parse(std::string_view text) {
  auto json = Json::parse(text);
  EXPECT_TRUE(json.has_value()) << text;
  return json ? *json : Json();
}

apiserver::ResourcePtr kind_of(std::string_view group, std::string_view plural) {
  for (const apiserver::ResourcePtr& each : builtin_kinds()) {
    if (each->group == group && each->plural == plural) {
      return each;
    }
  }
  ADD_FAILURE() << group << "/" << plural;
  return nullptr;
}

/// Runs the hooks of a kind as a request would.
struct KindRun {
  explicit KindRun(apiserver::ResourcePtr resource) : def(std::move(resource)) {}

  Json prepare(std::string_view verb, Json object, const Json* old = nullptr,
               std::string_view subresource = {}) {
    const apiserver::WriteContext context{user, "root", verb, subresource, false, reader, warnings};
    if (def->hooks.prepare) {
      def->hooks.prepare(context, object, old);
    }
    return object;
  }
  Texts faults(const Json& object, const Json* old = nullptr, std::string_view subresource = {}) {
    const apiserver::WriteContext context{
        user, "root", old == nullptr ? "create" : "update", subresource, false, reader, warnings};
    std::vector<Cause> causes;
    if (def->hooks.validate) {
      def->hooks.validate(context, object, old, causes);
    }
    Texts out;
    for (const Cause& cause : causes) {
      out.push_back(cause.field + ": " + cause.message);
    }
    return out;
  }

  apiserver::ResourcePtr def;
  auth::UserInfo user;
  NoObjects reader;
  std::vector<std::string> warnings;
};

TEST(BuiltinKinds, WhenListed_HaveSchemasAndNames) {
  const auto all = builtin_kinds();
  EXPECT_EQ(all.size(), 19U);
  for (const apiserver::ResourcePtr& each : all) {
    ASSERT_EQ(each->versions.size(), 1U) << each->kind;
    EXPECT_NE(each->versions[0].schema, nullptr) << each->kind;
    EXPECT_TRUE(each->builtin);
    EXPECT_EQ(each->list_kind, each->kind + "List");
  }
  EXPECT_TRUE(kind_of("", "namespaces")->spec_finalizers);
  EXPECT_FALSE(kind_of("", "namespaces")->has_verb("deletecollection"));
  EXPECT_FALSE(kind_of("coordination.k8s.io", "leases")->unconditional_update);
}

TEST(ConfigMapKind, AM320_WhenKeysAreMalformed_EachIsReported) {
  KindRun run(kind_of("", "configmaps"));
  EXPECT_EQ(run.faults(parse(R"({"data":{".":"v","k":"v"},"binaryData":{"k":"AAE="}})")),
            (Texts{"data[.]: Invalid value: \".\": must not be '.'",
                   "data[k]: Invalid value: \"k\": duplicate of key present in binaryData"}));
}

TEST(ConfigMapKind, AM319_WhenImmutable_DataStays) {
  KindRun run(kind_of("", "configmaps"));
  const Json old = parse(R"({"immutable":true,"data":{"a":"1"}})");
  EXPECT_EQ(run.faults(parse(R"({"data":{"a":"2"}})"), &old),
            (Texts{"immutable: Forbidden: field is immutable when `immutable` is set",
                   "data: Forbidden: field is immutable when `immutable` is set"}));
  EXPECT_EQ(
      run.faults(parse(R"({"immutable":true,"data":{"a":"1"},"metadata":{"labels":{}}})"), &old),
      Texts{});
}

TEST(ConfigMapKind, AM061_WhenTextAndBytesAreTooLongTogether_IsReported) {
  KindRun run(kind_of("", "configmaps"));
  const auto object = [](std::size_t text, std::string_view base64) {
    Json out = Json::object();
    out.make({"data", "k"}) = std::string(text, 'x');
    out.make({"binaryData", "b"}) = std::string(base64);
    return out;
  };
  EXPECT_EQ(run.faults(object(1'048'575, "eA==")), Texts{});
  EXPECT_EQ(run.faults(object(1'048'574, "eHg=")), Texts{});
  const Texts fault{"[]: Too long: may not be more than 1048576 bytes"};
  EXPECT_EQ(run.faults(object(1'048'576, "eA==")), fault);
  EXPECT_EQ(run.faults(object(1'048'574, "eHh4")), fault);
}

TEST(SecretKind, AM061_WhenBytesAreTooLong_PaddingDoesNotCount) {
  KindRun run(kind_of("", "secrets"));
  const auto object = [](std::string_view last) {
    Json out = parse(R"({"type":"Opaque"})");
    out.make({"data", "a"}) = std::string(1'398'100, 'A');  // 1,048,575 bytes
    out.make({"data", "b"}) = std::string(last);
    return out;
  };
  EXPECT_EQ(run.faults(object("eA==")), Texts{});
  EXPECT_EQ(run.faults(object("eHg=")),
            Texts{"data: Too long: may not be more than 1048576 bytes"});
}

TEST(SecretKind, AM317_WhenStringDataIsSent_BecomesData) {
  KindRun run(kind_of("", "secrets"));
  EXPECT_EQ(run.prepare("create", parse(R"({"data":{"a":"MQ=="},"stringData":{"b":"v"}})")).dump(),
            R"({"data":{"a":"MQ==","b":"dg=="},"type":"Opaque"})");
  const Json old = parse(R"({"type":"Opaque"})");
  EXPECT_EQ(run.faults(parse(R"({"type":"example.test/other"})"), &old),
            Texts{"type: Invalid value: \"example.test/other\": field is immutable"});
}

TEST(SecretKind, AM318_WhenTypesNeedKeys_TheyAreRequired) {
  KindRun run(kind_of("", "secrets"));
  EXPECT_EQ(run.faults(parse(R"({"type":"kubernetes.io/tls"})")),
            (Texts{"data[tls.crt]: Required value", "data[tls.key]: Required value"}));
  EXPECT_EQ(run.faults(parse(R"({"type":"kubernetes.io/basic-auth"})")),
            (Texts{"data[username]: Required value", "data[password]: Required value"}));
  EXPECT_EQ(run.faults(parse(R"({"type":"kubernetes.io/service-account-token"})")),
            Texts{"metadata.annotations[kubernetes.io/service-account.name]: Required value"});
  EXPECT_EQ(run.faults(parse(R"({"type":"kubernetes.io/dockerconfigjson",
                                 "data":{".dockerconfigjson":"e2JhZA=="}})")),
            Texts{"data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": invalid "
                  "character 'b' looking for beginning of object key string"});
}

TEST(NamespaceKind, AM328_WhenCreated_HasLabelFinalizerAndPhase) {
  KindRun run(kind_of("", "namespaces"));
  EXPECT_EQ(run.prepare("create", parse(R"({"metadata":{"name":"n"}})")).dump(),
            R"({"metadata":{"labels":{"kubernetes.io/metadata.name":"n"},"name":"n"},)"
            R"("spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}})");
}

TEST(NamespaceKind, AM329_WhenReplaced_KeepsLabelAndFinalizers) {
  KindRun run(kind_of("", "namespaces"));
  const Json old = run.prepare("create", parse(R"({"metadata":{"name":"n"}})"));
  EXPECT_EQ(
      run.prepare("update",
                  parse(R"({"metadata":{"name":"n","labels":{"kubernetes.io/metadata.name":"x"}},
                                  "spec":{"finalizers":[]}})"),
                  &old),
      old);
  EXPECT_EQ(run.prepare("update", parse(R"({"metadata":{"name":"n"},"spec":{}})"), &old, "finalize")
                .find("spec")
                ->dump(),
            "{}");
}

TEST(NamespaceKind, AM333_WhenSystemNamespaceIsDeleted_IsForbidden) {
  KindRun run(kind_of("", "namespaces"));
  const apiserver::WriteContext context{run.user, "root",     "delete",    "",
                                        false,    run.reader, run.warnings};
  const auto answer = [&](std::string_view name) {
    const Json old = Json::object({{"metadata", Json::object({{"name", Json(name)}})}});
    std::string text = "not called";
    run.def->hooks.admit(context, nullptr, &old, [&](Expected<void> done) {
      text = done ? "allowed" : std::string(done.error().message());
    });
    return text;
  };
  EXPECT_EQ(answer("default"),
            "namespaces \"default\" is forbidden: this namespace may not be "
            "deleted");
  EXPECT_EQ(answer("t1"), "allowed");
  const Json gone =
      run.prepare("delete", parse(R"({"metadata":{"name":"n","deletionGracePeriodSeconds":0}})"));
  EXPECT_EQ(gone.text({"status", "phase"}), "Terminating");
  EXPECT_EQ(gone.at({"metadata", "deletionGracePeriodSeconds"}), nullptr);
}

TEST(LeaseKind, AM321_WhenNumbersAreOff_SaysSo) {
  KindRun run(kind_of("coordination.k8s.io", "leases"));
  EXPECT_EQ(run.faults(parse(R"({"spec":{"leaseDurationSeconds":0,"leaseTransitions":-1}})")),
            (Texts{"spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                   "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to "
                   "0"}));
}

TEST(EventKind, AM324_WhenNamespacesDiffer_IsRefused) {
  KindRun run(kind_of("", "events"));
  EXPECT_EQ(run.faults(parse(R"({"metadata":{"namespace":"a"},
                                 "involvedObject":{"namespace":"other"}})")),
            Texts{"involvedObject.namespace: Invalid value: \"other\": does not match "
                  "event.namespace"});
  EXPECT_EQ(run.faults(parse(R"({"metadata":{"namespace":"default"},"involvedObject":{}})")),
            Texts{});
}

TEST(EventKind, AM325_WhenModernEventIsIncomplete_IsRefused) {
  KindRun run(kind_of("events.k8s.io", "events"));
  const Texts found = run.faults(parse(R"({"metadata":{"namespace":"default"}})"));
  EXPECT_EQ(found,
            (Texts{"eventTime: Required value", "type: Invalid value: \"\": has invalid value: "}));
}

TEST(EventKind, AM324_WhenModern_InvolvedObjectMayBeElsewhere) {
  KindRun run(kind_of("", "events"));
  EXPECT_EQ(run.faults(parse(R"({"metadata":{"namespace":"a"},"eventTime":"2020-01-01T00:00:00Z",
      "involvedObject":{"namespace":"other"},"reportingComponent":"c","reportingInstance":"i",
      "action":"act","reason":"r"})")),
            Texts{});
}

constexpr std::string_view kModernEvent = R"({"metadata":{"namespace":"default"},
    "eventTime":"2020-01-01T00:00:00.000000Z","involvedObject":{"kind":"Pod","name":"p"},
    "reportingComponent":"c","reportingInstance":"i","action":"act","reason":"r","type":"Normal"})";

TEST(EventKind, WhenCreated_MetadataComesAfterTheOldRules) {
  const auto found_after_metadata = [](std::string_view group, const Json& event) {
    const apiserver::ResourcePtr def = kind_of(group, "events");
    const auth::UserInfo user;
    const NoObjects reader;
    std::vector<std::string> warnings;
    const apiserver::WriteContext context{user, "root", "create", {}, false, reader, warnings};
    std::vector<Cause> causes = {{"R", "m", "metadata.name"}};
    def->hooks.validate(context, event, nullptr, causes);
    Texts out;
    for (const Cause& cause : causes) {
      out.push_back(cause.field);
    }
    return out;
  };
  const Json event = parse(R"({"metadata":{"namespace":"a"},"involvedObject":{}})");
  EXPECT_EQ(found_after_metadata("", event), Texts{"involvedObject.namespace"});
  EXPECT_EQ(found_after_metadata("events.k8s.io", event),
            (Texts{"involvedObject.namespace", "metadata.name", "eventTime", "type"}));
}

TEST(EventKind, AM325_WhenSeriesIsIncomplete_IsRefused) {
  KindRun run(kind_of("events.k8s.io", "events"));
  Json event = parse(kModernEvent);
  EXPECT_EQ(run.faults(event), Texts{});
  event["series"] = Json::object();
  EXPECT_EQ(run.faults(event), (Texts{"series.count: Invalid value: \"\": should be at least 2",
                                      "series.lastObservedTime: Required value"}));
}

TEST(EventKind, AM325_WhenChangedThroughTheNewGroup_OnlySeriesMayDiffer) {
  KindRun run(kind_of("events.k8s.io", "events"));
  const Json old = parse(kModernEvent);
  Json event = old;
  event["series"] = parse(R"({"count":2,"lastObservedTime":"2020-01-01T00:00:00.000000Z"})");
  EXPECT_EQ(run.faults(event, &old), Texts{});
  event["reason"] = "x";
  event["involvedObject"]["kind"] = "Node";
  event["related"] = parse(R"({"name":"q"})");
  EXPECT_EQ(
      run.faults(event, &old),
      (Texts{R"(involvedObject: Invalid value: {"Kind":"Node","Namespace":"","Name":"p","UID":"",)"
             R"("APIVersion":"","ResourceVersion":"","FieldPath":""}: field is immutable)",
             R"(reason: Invalid value: "x": field is immutable)",
             R"(related: Invalid value: {"Kind":"","Namespace":"","Name":"q","UID":"",)"
             R"("APIVersion":"","ResourceVersion":"","FieldPath":""}: field is immutable)"}));
  EXPECT_EQ(KindRun(kind_of("", "events")).faults(event, &old), Texts{});
}

TEST(SecretKind, WhenKeyPairIsUnusable_Warns) {
  KindRun run(kind_of("", "secrets"));
  EXPECT_EQ(run.faults(parse(R"({"type":"kubernetes.io/tls",
                                 "data":{"tls.crt":"dg==","tls.key":"dg=="}})")),
            Texts{});
  EXPECT_EQ(run.warnings, Texts{"tls: failed to find any PEM data in certificate input"});
}

TEST(ClusterRoleKind, WhenAggregationSelectsByBadValue_IsRefused) {
  KindRun run(kind_of("rbac.authorization.k8s.io", "clusterroles"));
  const Texts found = run.faults(parse(R"({"aggregationRule":{"clusterRoleSelectors":[
      {"matchExpressions":[{"key":"k","operator":"In","values":["-a"]}]}]}})"));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(
      found[0].starts_with("aggregationRule.clusterRoleSelectors[0].matchExpressions[0]."
                           "values[0]: Invalid value: \"-a\": a valid label"))
      << found[0];
  EXPECT_EQ(found[1],
            "aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label "
            "selector.");
}

TEST(EventKind, AM326_WhenReadThroughTheOtherGroup_FieldsAreRenamed) {
  const apiserver::ResourcePtr def = kind_of("events.k8s.io", "events");
  EXPECT_EQ(def->stored_under_group, "");
  Json event = parse(R"({"apiVersion":"v1","kind":"Event","count":2,"eventTime":null,
    "firstTimestamp":"2001-01-01T00:00:00Z","involvedObject":{"kind":"ConfigMap","name":"a"},
    "lastTimestamp":null,"message":"m","metadata":{"name":"e"},"reason":"R",
    "reportingComponent":"","reportingInstance":"","source":{"component":"c"},"type":"Normal"})");
  const Json before = event;
  def->versions[0].from_storage(event);
  EXPECT_EQ(event.dump(),
            R"({"apiVersion":"events.k8s.io/v1","deprecatedCount":2,)"
            R"("deprecatedFirstTimestamp":"2001-01-01T00:00:00Z","deprecatedLastTimestamp":null,)"
            R"("deprecatedSource":{"component":"c"},"eventTime":null,"kind":"Event",)"
            R"("metadata":{"name":"e"},"note":"m","reason":"R",)"
            R"("regarding":{"kind":"ConfigMap","name":"a"},"type":"Normal"})");
  const Json cells = def->hooks.row(event);
  def->versions[0].to_storage(event);
  EXPECT_EQ(event, before);
  EXPECT_EQ(cells, def->hooks.row(event));
  EXPECT_EQ(cells.items()[3].as_string(), "configmap/a");
  EXPECT_EQ(cells.items()[5].as_string(), "c");
  EXPECT_EQ(cells.items()[8].as_integer(), 2);
}

TEST(RbacKinds, WhenRulesAreIncomplete_AM441_SaysWhatIsMissing) {
  KindRun role(kind_of("rbac.authorization.k8s.io", "roles"));
  EXPECT_EQ(role.faults(parse(R"({"rules":[{}]})")),
            (Texts{"rules[0].verbs: Required value: verbs must contain at least one value",
                   "rules[0].apiGroups: Required value: resource rules must supply at least one "
                   "api group",
                   "rules[0].resources: Required value: resource rules must supply at least one "
                   "resource"}));
  EXPECT_EQ(
      role.faults(parse(R"({"rules":[{"verbs":["get"],"nonResourceURLs":["/x"]}]})")),
      Texts{"rules[0].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply "
            "to non-resource URLs"});
  EXPECT_EQ(role.faults(parse(R"({"rules":[{"verbs":["get"],"apiGroups":[""],
                "resources":["pods"],"nonResourceURLs":["/x"]}]})")),
            (Texts{"rules[0].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot "
                   "apply to non-resource URLs",
                   "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: rules cannot apply to both "
                   "regular resources and non-resource URLs"}));
  KindRun cluster(kind_of("rbac.authorization.k8s.io", "clusterroles"));
  EXPECT_EQ(cluster.faults(parse(R"({"rules":[{"verbs":["get"],"nonResourceURLs":["/x"]}]})")),
            Texts{});
}

TEST(RbacKinds, WhenBindingIsWritten_AM442_AM443_DefaultsAndChecks) {
  KindRun run(kind_of("rbac.authorization.k8s.io", "rolebindings"));
  const Json object = run.prepare("create", parse(R"({"roleRef":{"kind":"Role","name":"r"},
      "subjects":[{"kind":"User","name":"jane"},{"kind":"ServiceAccount","name":"s"}]})"));
  EXPECT_EQ(object.dump(),
            R"({"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"},)"
            R"("subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"jane"},)"
            R"({"kind":"ServiceAccount","name":"s"}]})");
  EXPECT_EQ(run.faults(object), Texts{});
  Json changed = object;
  changed.make({"roleRef", "name"}) = Json("other");
  EXPECT_EQ(run.faults(changed, &object),
            Texts{"roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":"
                  "\"Role\",\"Name\":\"other\"}: cannot change roleRef"});
  EXPECT_EQ(run.faults(parse(R"({"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role",
              "name":"r"},"subjects":[{"kind":"Alien","name":"a"}]})")),
            Texts{"subjects[0].kind: Unsupported value: \"Alien\": supported values: "
                  "\"ServiceAccount\", \"User\", \"Group\""});
  EXPECT_EQ(run.faults(run.prepare("create", parse(R"({"roleRef":{}})"))),
            (Texts{"roleRef.kind: Unsupported value: \"\": supported values: \"Role\", "
                   "\"ClusterRole\"",
                   "roleRef.name: Required value"}));
}

constexpr std::string_view kDefinition = R"({"apiVersion":"apiextensions.k8s.io/v1",
  "kind":"CustomResourceDefinition","metadata":{"name":"cogs.ex3.io"},"spec":{"group":"ex3.io",
  "scope":"Namespaced","names":{"plural":"cogs","kind":"Cog","shortNames":["cg"]},"versions":[
  {"name":"v1beta1","served":true,"storage":true,"deprecated":true,"schema":{"openAPIV3Schema":
    {"type":"object","properties":{"spec":{"type":"object","properties":{"a":{"type":"string"}}}}}},
    "subresources":{"status":{},"scale":{"specReplicasPath":".spec.n",
    "statusReplicasPath":".status.n"}},"selectableFields":[{"jsonPath":".spec.a"}]},
  {"name":"foo","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}},
  {"name":"v2","served":false,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}},
  {"name":"v10","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}},
    "additionalPrinterColumns":[{"name":"A","type":"string","jsonPath":".spec.a"}]}]}})";

TEST(DefinitionKind, AM379_WhenCreated_NamesAndStatusAreFilled) {
  KindRun run(kind_of("apiextensions.k8s.io", "customresourcedefinitions"));
  const Json crd = run.prepare("create", parse(kDefinition));
  EXPECT_EQ(crd.at({"spec", "names"})->dump(),
            R"({"kind":"Cog","listKind":"CogList","plural":"cogs","shortNames":["cg"],)"
            R"("singular":"cog"})");
  EXPECT_EQ(crd.at({"spec", "conversion"})->dump(), R"({"strategy":"None"})");
  EXPECT_EQ(crd.find("status")->dump(),
            R"({"acceptedNames":{"kind":"","plural":""},"conditions":null,)"
            R"("storedVersions":["v1beta1"]})");
  EXPECT_EQ(run.faults(crd), Texts{});
}

TEST(DefinitionKind, AM354_AM355_WhenNamesAreWrong_IsRefused) {
  KindRun run(kind_of("apiextensions.k8s.io", "customresourcedefinitions"));
  Json crd = run.prepare("create", parse(kDefinition));
  crd.make({"spec", "scope"}) = Json("Foo");
  crd.make({"metadata", "name"}) = Json("zz.ex3.io");
  EXPECT_EQ(run.faults(crd),
            (Texts{"metadata.name: Invalid value: \"zz.ex3.io\": must be "
                   "spec.names.plural+\".\"+spec.group",
                   "spec.scope: Unsupported value: \"Foo\": supported values: \"Cluster\", "
                   "\"Namespaced\""}));
}

TEST(DefinitionKind, AM356_WhenNoVersionIsStored_IsRefused) {
  KindRun run(kind_of("apiextensions.k8s.io", "customresourcedefinitions"));
  Json crd = parse(kDefinition);
  Json version = crd.at({"spec", "versions"})->items()[0];
  version["name"] = Json("v1");
  version["storage"] = Json(false);
  version.erase("deprecated");
  version.erase("selectableFields");
  version.erase("subresources");
  crd.make({"spec", "versions"}) = Json::array({version});
  EXPECT_EQ(run.faults(run.prepare("create", crd)),
            (Texts{"spec.versions: Invalid value: [{\"Name\":\"v1\",\"Served\":true,\"Storage\":"
                   "false,\"Deprecated\":false,\"DeprecationWarning\":null,\"Schema\":null,"
                   "\"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":"
                   "null}]: must have exactly one version marked as storage version",
                   "status.storedVersions: Invalid value: null: must have at least one stored "
                   "version"}));
}

TEST(DefinitionKind, AM377_AM378_WhenStorageMoves_OldVersionMustStay) {
  KindRun run(kind_of("apiextensions.k8s.io", "customresourcedefinitions"));
  const Json old = run.prepare("create", parse(kDefinition));
  Json moved = old;
  moved.at({"spec", "versions"})->edit_items()[0]["storage"] = Json(false);
  moved.at({"spec", "versions"})->edit_items()[3]["storage"] = Json(true);
  moved = run.prepare("update", moved, &old);
  EXPECT_EQ(moved.at({"status", "storedVersions"})->dump(), R"(["v1beta1","v10"])");
  EXPECT_EQ(run.faults(moved, &old), Texts{});
  auto& versions = moved.at({"spec", "versions"})->edit_items();
  versions.erase(versions.begin());
  const Texts found = run.faults(moved, &old);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(
      found[0].starts_with("status.storedVersions[0]: Invalid value: \"v1beta1\": missing "
                           "from spec.versions; v1beta1 was previously"));
}

TEST(DefinitionKind, AM385_WhenDeleted_IsHeldForCleanup) {
  KindRun run(kind_of("apiextensions.k8s.io", "customresourcedefinitions"));
  const Json crd = run.prepare("delete", parse(kDefinition));
  EXPECT_EQ(crd.at({"metadata", "finalizers"})->dump(),
            R"(["customresourcecleanup.apiextensions.k8s.io"])");
  EXPECT_EQ(crd.at({"status", "conditions"})->items()[0].text({"type"}), "Terminating");
}

TEST(ResourceFromDefinition, AM396_AM397_WhenRead_VersionsAreInOrderOfPreference) {
  const apiserver::ResourcePtr def = resource_from_crd(parse(kDefinition));
  ASSERT_NE(def, nullptr);
  Texts order;
  for (const apiserver::ResourceVersion& version : def->versions) {
    order.push_back(version.name);
  }
  EXPECT_EQ(order, (Texts{"v10", "v2", "v1beta1", "foo"}));
  EXPECT_EQ(def->singular, "cog");
  EXPECT_EQ(def->list_kind, "CogList");
  EXPECT_EQ(def->storage_version().name, "v1beta1");
  EXPECT_EQ(def->version("v1beta1")->deprecation_warning,
            "ex3.io/v1beta1 Cog is deprecated; use ex3.io/v10 Cog");
  EXPECT_TRUE(def->version("v1beta1")->status);
  EXPECT_EQ(def->version("v1beta1")->scale.spec_replicas, ".spec.n");
  EXPECT_EQ(def->version("v1beta1")->selectable_fields, Texts{".spec.a"});
  EXPECT_EQ(def->version("v10")->columns[0].description,
            "Custom resource definition column (in JSONPath format): .spec.a");
  EXPECT_EQ(def->version("foo")->columns[0].type, "date");
}

TEST(ResourceFromDefinition, WhenDefinitionIsIncomplete_IsNull) {
  EXPECT_EQ(resource_from_crd(parse("{}")), nullptr);
  Json crd = parse(kDefinition);
  crd.at({"spec", "versions"})->edit_items()[0]["storage"] = Json(false);
  EXPECT_EQ(resource_from_crd(crd), nullptr);
}

}  // namespace
}  // namespace kintsugi::kinds
