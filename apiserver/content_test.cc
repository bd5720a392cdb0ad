#include <gtest/gtest.h>

#include "apiserver/testing/fake_server.h"
#include "kinds/builtin_kinds.h"
#include "krm/protobuf.h"
#include "krm/protobuf_wire.h"
#include "krm/types/builtin_types.h"

/// In what form objects come and go (AM-076 to AM-101).
namespace kintsugi::apiserver {
namespace {

using krm::Json;
using testing::config_map;
using testing::Exchange;
using testing::FakeServer;

constexpr const char* kMaps = "/api/v1/namespaces/t1/configmaps";
constexpr const char* kMap = "/api/v1/namespaces/t1/configmaps/a";
constexpr const char* kWidgets = "/apis/ex.io/v1/namespaces/t1/widgets";
constexpr const char* kProtobuf = "application/vnd.kubernetes.protobuf";
constexpr const char* kTable = "application/json;as=Table;v=v1;g=meta.k8s.io";

std::vector<ResourcePtr> kinds() {
  std::vector<ResourcePtr> all = kinds::builtin_kinds();
  all.push_back(testing::widget_kind());
  return all;
}

class Content : public ::testing::Test {
 protected:
  Content() : server(kinds(), "lc") {
    Json ns = Json::object();
    ns.make({"metadata", "name"}) = "t1";
    EXPECT_EQ(server.send("POST", "/api/v1/namespaces", ns).status(), 201);
    EXPECT_EQ(server.send("POST", kMaps, config_map("a", {{"x", "1"}})).status(), 201);
    EXPECT_EQ(server.send("POST", kMaps, config_map("b")).status(), 201);
    Json widget = Json::object({{"apiVersion", "ex.io/v1"}, {"kind", "Widget"}});
    widget.make({"metadata", "name"}) = "w";
    EXPECT_EQ(server.send("POST", kWidgets, widget).status(), 201);
  }
  Exchange get(const std::string& target, const std::string& accept) {
    return server.send("GET", target, std::string_view(), {{"accept", accept}});
  }
  static Json decoded(const Exchange& answer) {
    EXPECT_EQ(answer.header("content-type"), kProtobuf);
    const auto object = krm::decode_protobuf(answer.body());
    EXPECT_TRUE(object);
    return object ? *object : Json();
  }
  static std::string cells(const Json& table) {
    std::string out;
    for (const Json& row : table.find("rows")->items()) {
      out += std::string(row.find("cells")->items().front().as_string()) + ' ';
    }
    return out;
  }

  FakeServer server;
};

TEST_F(Content, WhenAM076JsonOrAnythingIsAccepted_IsJson) {
  for (const char* accept : {"", "*/*", "application/json", "application/json;charset=utf-8",
                             "application/foo, */*", "text/html, application/json;q=0.5"}) {
    Exchange answer = get(kMap, accept);
    EXPECT_EQ(answer.status(), 200) << accept;
    EXPECT_EQ(answer.header("content-type"), "application/json") << accept;
  }
}

TEST_F(Content, WhenAM077WeightsAreGiven_TheyDecide) {
  EXPECT_EQ(get(kMap, "text/html, application/json;q=0.5").header("content-type"),
            "application/json");
  EXPECT_EQ(get(kMap, "application/json;q=0.1, application/yaml;q=0.9").header("content-type"),
            "application/yaml");
}

// OpenAPI documents take a subtype for all; the reference refuses it for objects.
TEST_F(Content, WhenAM079AnyApplicationTypeIsAccepted_ObjectsAreNot) {
  const std::string widget = std::string(kWidgets) + "/w";
  for (const std::string& path : {std::string(kMap), std::string(kMaps), widget}) {
    EXPECT_EQ(get(path, "application/*").status(), 406) << path;
    Exchange answer = get(path, "application/*, application/json;q=0.1");
    EXPECT_EQ(answer.status(), 200) << path;
    EXPECT_EQ(answer.header("content-type"), "application/json") << path;
  }
  EXPECT_EQ(get("/openapi/v3", "application/*").status(), 200);
}

TEST_F(Content, WhenAM080NothingFits_IsNotAcceptable) {
  for (const char* accept : {"text/plain", "application/cbor", "application/cbor-seq"}) {
    EXPECT_EQ(get(kMap, accept).status(), 406) << accept;
    EXPECT_EQ(get(std::string(kWidgets) + "/w", accept).status(), 406) << accept;
  }
}

TEST_F(Content, WhenAM081BodiesAreOfAnotherType_IsUnsupported) {
  for (const char* type : {"application/cbor", "text/plain"}) {
    EXPECT_EQ(server.send("POST", kMaps, config_map("c"), {{"content-type", type}}).status(), 415)
        << type;
  }
}

TEST_F(Content, WhenAM082ProtobufIsSent_StoresWhatJsonWould) {
  const Json map = Json::object({{"apiVersion", "v1"},
                                 {"kind", "ConfigMap"},
                                 {"metadata", Json::object({{"name", "p"}})},
                                 {"data", Json::object({{"k", "v"}})}});
  const std::optional<std::string> body = krm::encode_protobuf(map);
  ASSERT_TRUE(body);
  Exchange made = server.send("POST", kMaps, std::string_view(*body),
                              {{"content-type", kProtobuf}, {"accept", "application/json"}});
  EXPECT_EQ(made.status(), 201);
  EXPECT_EQ(made.json().text({"data", "k"}), "v");
  const Json options = Json::object({{"apiVersion", "v1"}, {"kind", "DeleteOptions"}});
  Exchange gone =
      server.send("DELETE", std::string(kMaps) + "/p",
                  std::string_view(krm::encode_protobuf(options).value_or(std::string())),
                  {{"content-type", kProtobuf}});
  EXPECT_EQ(gone.status(), 200);
}

TEST_F(Content, WhenAM083ACustomKindIsSentAsProtobuf_SaysWhatFits) {
  Exchange answer =
      server.send("POST", kWidgets, std::string_view("k8s"), {{"content-type", kProtobuf}});
  EXPECT_EQ(answer.status(), 415);
  const std::string message(answer.json().text({"message"}));
  EXPECT_NE(message.find("application/json, application/yaml"), std::string::npos) << message;
}

TEST_F(Content, WhenAM084ACustomKindIsAskedAsProtobuf_JsonIsTheOtherChoice) {
  const std::string widget = std::string(kWidgets) + "/w";
  EXPECT_EQ(get(widget, kProtobuf).status(), 406);
  EXPECT_EQ(get(widget, std::string(kProtobuf) + ",application/json").header("content-type"),
            "application/json");
}

TEST_F(Content, WhenProtobufIsPreferred_BuiltinKindsComeSo) {
  const std::string accept = std::string(kProtobuf) + ", */*";
  const Json map = decoded(get(kMap, accept));
  EXPECT_EQ(map.text({"kind"}), "ConfigMap");
  EXPECT_EQ(map.text({"data", "x"}), "1");
  EXPECT_FALSE(map.text({"metadata", "resourceVersion"}).empty());
  const Json list = decoded(get(kMaps, accept));
  EXPECT_EQ(list.text({"kind"}), "ConfigMapList");
  EXPECT_EQ(list.find("items")->size(), 2U);
  EXPECT_FALSE(list.text({"metadata", "resourceVersion"}).empty());
  Exchange made = server.send("POST", kMaps, config_map("c"), {{"accept", accept}});
  EXPECT_EQ(made.status(), 201);
  EXPECT_EQ(decoded(made).text({"metadata", "name"}), "c");
  Exchange absent = get(std::string(kMaps) + "/none", accept);
  EXPECT_EQ(absent.status(), 404);
  EXPECT_EQ(decoded(absent).text({"reason"}), "NotFound");
}

TEST_F(Content, WhenAKindIsBuiltin_HasAProtobufForm) {
  for (const ResourcePtr& def : kinds::builtin_kinds()) {
    for (const ResourceVersion& version : def->versions) {
      EXPECT_NE(krm::builtin_schema(def->api_version(version.name), def->kind), nullptr)
          << def->api_version(version.name) << ' ' << def->kind;
    }
  }
}

TEST_F(Content, WhenAM085TablesAreAsked_BothVersionsLookAlike) {
  for (const char* version : {"v1", "v1beta1"}) {
    const Json table =
        get(kMaps, "application/json;as=Table;g=meta.k8s.io;v=" + std::string(version)).json();
    EXPECT_EQ(table.text({"kind"}), "Table");
    EXPECT_EQ(table.text({"apiVersion"}), "meta.k8s.io/" + std::string(version));
    EXPECT_FALSE(table.text({"metadata", "resourceVersion"}).empty());
    const Json& column = table.find("columnDefinitions")->items().front();
    for (const char* member : {"name", "type", "format", "description", "priority"}) {
      EXPECT_NE(column.find(member), nullptr) << member;
    }
    EXPECT_EQ(cells(table), "a b ");
    EXPECT_EQ(table.find("rows")->items().front().text({"object", "apiVersion"}),
              "meta.k8s.io/" + std::string(version));
  }
}

TEST_F(Content, WhenAM086ATableIsAPage_SaysHowToGoOn) {
  const Json table = get(std::string(kMaps) + "?limit=1", kTable).json();
  EXPECT_EQ(cells(table), "a ");
  EXPECT_EQ(table.at({"metadata", "remainingItemCount"})->as_integer(), 1);
  const std::string next(table.text({"metadata", "continue"}));
  ASSERT_FALSE(next.empty());
  EXPECT_EQ(cells(get(std::string(kMaps) + "?limit=1&continue=" + next, kTable).json()), "b ");
}

TEST_F(Content, WhenAM087ObjectsAreAsked_RowsHaveThem) {
  const auto row_object = [&](const std::string& query) {
    const Json table = get(kMap + query, kTable).json();
    const Json* object = table.find("rows")->items().front().find("object");
    return object == nullptr ? Json() : *object;
  };
  EXPECT_EQ(row_object("").text({"kind"}), "PartialObjectMetadata");
  EXPECT_EQ(row_object("?includeObject=Metadata").find("data"), nullptr);
  EXPECT_EQ(row_object("?includeObject=Object").text({"data", "x"}), "1");
  EXPECT_TRUE(row_object("?includeObject=None").is_null());
}

TEST_F(Content, WhenAM088IncludeObjectIsUnknown_IsRefused) {
  Exchange answer = get(std::string(kMap) + "?includeObject=Foo", kTable);
  EXPECT_EQ(answer.status(), 400);
  EXPECT_EQ(answer.json().text({"message"}),
            "Unable to convert to Table as requested: includeObject: Invalid value: \"Foo\": must "
            "be 'Metadata', 'Object', 'None', or empty");
}

TEST_F(Content, WhenAM089TheFormIsUnknown_IsNotAcceptable) {
  for (const char* accept : {"application/json;as=Table;v=v9;g=meta.k8s.io",
                             "application/json;as=Foo;v=v1;g=meta.k8s.io",
                             "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io"}) {
    EXPECT_EQ(get(kMap, accept).status(), 406) << accept;
  }
}

TEST_F(Content, WhenAM090KubectlAsks_GetsTheFirstTable) {
  const Json table = get(kMaps, std::string(kTable) +
                                    ",application/json;as=Table;v=v1beta1;g=meta.k8s.io,"
                                    "application/json")
                         .json();
  EXPECT_EQ(table.text({"apiVersion"}), "meta.k8s.io/v1");
}

TEST_F(Content, WhenAM091AYamlTableIsAsked_IsYaml) {
  Exchange answer = get(kMap, "application/yaml;as=Table;v=v1;g=meta.k8s.io");
  EXPECT_EQ(answer.header("content-type"), "application/yaml");
  EXPECT_NE(answer.body().find("\nkind: Table\n"), std::string::npos);
}

TEST_F(Content, WhenAM093MetadataOfAListIsAsked_ItemsSayTheirKind) {
  const Json list =
      get(kMaps, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io").json();
  EXPECT_EQ(list.text({"kind"}), "PartialObjectMetadataList");
  ASSERT_EQ(list.find("items")->size(), 2U);
  const Json& item = list.find("items")->items().front();
  EXPECT_EQ(item.text({"kind"}), "PartialObjectMetadata");
  EXPECT_EQ(item.text({"metadata", "name"}), "a");
  EXPECT_EQ(item.find("data"), nullptr);
}

TEST_F(Content, WhenMetadataIsAskedAsProtobuf_AlsoCustomKindsHaveIt) {
  const std::string one =
      std::string(kProtobuf) + ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";
  const std::string many =
      std::string(kProtobuf) + ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";
  for (const char* collection : {kMaps, kWidgets}) {
    const Json list = decoded(get(collection, many));
    EXPECT_EQ(list.text({"kind"}), "PartialObjectMetadataList");
    EXPECT_EQ(list.text({"apiVersion"}), "meta.k8s.io/v1");
    ASSERT_NE(list.find("items"), nullptr);
    EXPECT_FALSE(list.find("items")->items().front().text({"metadata", "name"}).empty());
  }
  const Json widget = decoded(get(std::string(kWidgets) + "/w", one));
  EXPECT_EQ(widget.text({"kind"}), "PartialObjectMetadata");
  EXPECT_EQ(widget.text({"metadata", "name"}), "w");
}

TEST_F(Content, WhenAM094ShapeAndObjectDiffer_SaysWhich) {
  EXPECT_EQ(get(kMap, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
                .json()
                .text({"message"}),
            "you requested PartialObjectMetadataList, but the requested object is not a list "
            "(*core.ConfigMap)");
  EXPECT_EQ(get(kMaps, "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
                .json()
                .text({"message"}),
            "you requested PartialObjectMetadata, but the requested object is a list "
            "(*core.ConfigMapList)");
}

TEST_F(Content, WhenAM095ATableWouldBeAnError_IsAPlainStatus) {
  Exchange answer = get(std::string(kMaps) + "/none", kTable);
  EXPECT_EQ(answer.status(), 404);
  EXPECT_EQ(answer.json().text({"kind"}), "Status");
}

TEST_F(Content, WhenAM097PrettyIsNotTrue_IsOneLine) {
  for (const char* query : {"?pretty=0", "?pretty=x", ""}) {
    const std::string body = get(std::string(kMap) + query, "application/json").body();
    EXPECT_EQ(body.find("\n  "), std::string::npos) << query;
  }
}

TEST_F(Content, WhenAM099AWatchInYamlIsAsked_IsNotAcceptable) {
  Exchange answer = get(std::string(kMaps) + "?watch=true", "application/yaml");
  EXPECT_EQ(answer.status(), 406);
  EXPECT_NE(answer.body().find("only the following media types are accepted: "
                               "application/json;stream=watch"),
            std::string::npos);
}

TEST_F(Content, WhenAM100AWatchIsAskedAsJson_IsJson) {
  for (const char* accept : {"application/json", "application/json;stream=watch"}) {
    Exchange answer = get(std::string(kMaps) + "?watch=true", accept);
    EXPECT_EQ(answer.status(), 200);
    EXPECT_EQ(answer.header("content-type"), "application/json");
    EXPECT_EQ(answer.events().size(), 2U);
  }
}

/// Type and object of every frame of a protobuf watch.
std::vector<std::pair<std::string, Json>> frames(std::string_view bytes) {
  std::vector<std::pair<std::string, Json>> out;
  while (bytes.size() >= 4) {
    std::size_t size = 0;
    for (int i = 0; i < 4; ++i) {
      size = size * 256 + static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)]);
    }
    krm::WireReader reader(bytes.substr(4, size));
    krm::WireField field;
    std::pair<std::string, Json> event;
    while (reader.next(field)) {
      if (field.field == 1) {
        event.first = field.bytes;
        continue;
      }
      krm::WireReader inner(field.bytes);
      krm::WireField raw;
      EXPECT_TRUE(inner.next(raw));
      event.second = krm::decode_protobuf(raw.bytes).value_or(Json());
    }
    EXPECT_FALSE(reader.malformed());
    out.push_back(std::move(event));
    bytes.remove_prefix(std::min(bytes.size(), size + 4));
  }
  return out;
}

TEST_F(Content, WhenAM101AWatchPrefersProtobuf_FramesComeAndAreShared) {
  const std::string accept = std::string(kProtobuf) + ",application/json";
  Exchange first = get(std::string(kMaps) + "?watch=true", accept);
  Exchange second = get(std::string(kMaps) + "?watch=true", accept);
  EXPECT_EQ(first.header("content-type"), std::string(kProtobuf) + ";stream=watch");
  EXPECT_EQ(server.send("POST", kMaps, config_map("c")).status(), 201);
  server.settle();
  const auto events = frames(first.body());
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events.back().first, "ADDED");
  EXPECT_EQ(events.back().second.text({"kind"}), "ConfigMap");
  EXPECT_EQ(events.back().second.text({"metadata", "name"}), "c");
  ASSERT_FALSE(first.stream().shared_payloads.empty());
  ASSERT_FALSE(second.stream().shared_payloads.empty());
  EXPECT_EQ(first.stream().shared_payloads.back(), second.stream().shared_payloads.back());
}

TEST_F(Content, WhenAM101AWatchOfACustomKindPrefersProtobuf_IsJson) {
  EXPECT_EQ(get(std::string(kWidgets) + "?watch=true", std::string(kProtobuf) + ",application/json")
                .header("content-type"),
            "application/json");
  EXPECT_EQ(get(std::string(kWidgets) + "?watch=true", kProtobuf).status(), 406);
}

}  // namespace
}  // namespace kintsugi::apiserver
