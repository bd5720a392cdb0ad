#include <gtest/gtest.h>

#include "apiserver/continue_keys.h"
#include "apiserver/internal/continue_token.h"
#include "apiserver/keys.h"
#include "apiserver/stored_object.h"
#include "apiserver/testing/fake_server.h"
#include "base/strings.h"
#include "kinds/builtin_kinds.h"
#include "store/batches.h"

namespace kintsugi::apiserver {
namespace {

using testing::config_map;
using testing::Exchange;
using testing::FakeServer;

constexpr const char* kMaps = "/api/v1/namespaces/t1/configmaps";

class List : public ::testing::Test {
 protected:
  List() : server(kinds(), "lc") {
    krm::Json ns = krm::Json::object();
    ns.make({"metadata", "name"}) = "t1";
    EXPECT_EQ(server.send("POST", "/api/v1/namespaces", ns).status(), 201);
  }
  static std::vector<ResourcePtr> kinds() {
    std::vector<ResourcePtr> all = kinds::builtin_kinds();
    all.push_back(testing::widget_kind());
    return all;
  }
  void create(std::initializer_list<const char*> names) {
    for (const char* name : names) {
      ASSERT_EQ(server.send("POST", kMaps, config_map(name, {{"x", "1"}}, {{"n", name}})).status(),
                201);
    }
  }
  Exchange get(std::string_view query) {
    return server.send("GET", std::string(kMaps) + std::string(query));
  }
  static std::string names(const krm::Json& list) {
    std::string out;
    const krm::Json* items = list.find("items");
    for (const krm::Json& item : items == nullptr ? krm::Json::Array() : items->items()) {
      (out += item.text({"metadata", "name"})) += ' ';
    }
    return out;
  }
  static std::string message(const Exchange& exchange) {
    return std::string(exchange.json().text({"message"}));
  }

  FakeServer server;
};

TEST_F(List, WhenEmpty_ItemsIsAnEmptyListWithAVersion) {
  const krm::Json list = get("").json();
  EXPECT_EQ(list.text({"kind"}), "ConfigMapList");
  EXPECT_EQ(list.find("items")->dump(), "[]");
  EXPECT_EQ(list.text({"metadata", "resourceVersion"}), std::to_string(server.store().current()));
  EXPECT_EQ(list.at({"metadata", "continue"}), nullptr);
  const krm::Json widgets = server.send("GET", "/apis/ex.io/v1/widgets").json();
  EXPECT_EQ(widgets.find("metadata")->find("continue")->as_string(), "");
}

TEST_F(List, WhenItemsExist_BuiltinOnesCarryNoKind) {
  create({"b", "a"});
  const krm::Json list = get("").json();
  EXPECT_EQ(names(list), "a b ");
  EXPECT_EQ(list.find("items")->items()[0].find("kind"), nullptr);
  EXPECT_EQ(list.find("items")->items()[0].text({"data", "x"}), "1");
}

TEST_F(List, WhenAM251To257SelectorsAreGiven_FilterOrExplain) {
  create({"a", "b", "c"});
  EXPECT_EQ(names(get("?labelSelector=n%21%3Da").json()), "b c ");
  EXPECT_EQ(names(get("?fieldSelector=metadata.name%3Db").json()), "b ");
  EXPECT_EQ(names(get("?fieldSelector=metadata.name%21%3Db,metadata.namespace%3Dt1").json()),
            "a c ");
  EXPECT_EQ(
      message(get("?fieldSelector=a.b%3Dc")),
      "\"a.b\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"");
  EXPECT_EQ(get("?labelSelector=a%20b").status(), 400);
  EXPECT_EQ(get("?fieldSelector=metadata.name").status(), 400);
}

TEST_F(List, WhenAM258FieldIsSelectable_Filters) {
  for (const char* color : {"red", "green"}) {
    krm::Json widget = krm::Json::object({{"apiVersion", "ex.io/v1"}, {"kind", "Widget"}});
    widget.make({"metadata", "name"}) = color;
    widget.make({"spec", "color"}) = color;
    ASSERT_EQ(server.send("POST", "/apis/ex.io/v1/namespaces/t1/widgets", widget).status(), 201);
  }
  EXPECT_EQ(
      names(server.send("GET", "/apis/ex.io/v1/widgets?fieldSelector=spec.color%3Dred").json()),
      "red ");
  Exchange refused = server.send("GET", "/apis/ex.io/v1/widgets?fieldSelector=spec.size%3D1");
  EXPECT_EQ(message(refused), "field label not supported: spec.size");
}

TEST_F(List, WhenAM276PagesAreWalked_AllShowTheFirstPagesState) {
  create({"a", "b", "c", "d", "e"});
  const krm::Json first = get("?limit=2").json();
  EXPECT_EQ(names(first), "a b ");
  EXPECT_EQ(first.at({"metadata", "remainingItemCount"})->as_integer(), 3);
  ASSERT_EQ(server.send("DELETE", std::string(kMaps) + "/d").status(), 200);
  create({"cc"});
  const std::string token(first.text({"metadata", "continue"}));
  const krm::Json second = get("?limit=2&continue=" + token).json();
  EXPECT_EQ(names(second), "c d ");
  EXPECT_EQ(second.text({"metadata", "resourceVersion"}),
            first.text({"metadata", "resourceVersion"}));
  const krm::Json last =
      get("?limit=2&continue=" + std::string(second.text({"metadata", "continue"}))).json();
  EXPECT_EQ(names(last), "e ");
  EXPECT_EQ(last.at({"metadata", "continue"}), nullptr);
  EXPECT_EQ(names(get("").json()), "a b c cc e ");
}

TEST_F(List, WhenAM283SelectorSkipsMost_PagesAreFull) {
  create({"a", "b", "c", "d", "e"});
  const krm::Json page = get("?limit=2&labelSelector=n%20in%20(a,c,e)").json();
  EXPECT_EQ(names(page), "a c ");
  EXPECT_EQ(page.at({"metadata", "remainingItemCount"}), nullptr);
  const std::string token(page.text({"metadata", "continue"}));
  const krm::Json rest = get("?limit=2&labelSelector=n%20in%20(a,c,e)&continue=" + token).json();
  EXPECT_EQ(names(rest), "e ");
  EXPECT_EQ(rest.at({"metadata", "continue"}), nullptr);
}

TEST_F(List, WhenAM277To281TokensAreBad_SaysWhy) {
  create({"a", "b"});
  const auto sealed = [](std::int64_t revision) {
    return internal::ContinueToken{revision, "lc/t1/a"}.encode(
        internal::keys_of_process(),
        auth::bound_to({"list", "user admin", "lc", "", "", "v1", "configmaps", "t1", "", ""}));
  };
  const std::string token = sealed(1);
  EXPECT_EQ(message(get("?resourceVersion=5&continue=" + token)),
            "specifying resource version is not allowed when using continue");
  EXPECT_TRUE(message(get("?continue=abc"))
                  .starts_with("invalid continue token: continue key is not valid: "));
  EXPECT_EQ(names(get("?continue=" + sealed(-1)).json()), "b ");
  EXPECT_EQ(get("?continue=" + sealed(99'999)).status(), 504);
}

TEST_F(List, SE166_WhoseListItIs_GoesOn_NobodyElses) {
  create({"a", "b", "c"});
  const std::string token(get("?limit=1").json().text({"metadata", "continue"}));
  for (const char* word : {"default", "t1", "configmaps", "admin"}) {
    EXPECT_EQ(base64url_decode(token).value_or(word).find(word), std::string::npos) << word;
  }
  const std::string maps = kMaps, more = "?limit=5&continue=" + token;
  const auto code = [&](const std::string& target, const char* user) {
    return server.send("GET", target, std::string_view(), {{"x-user", user}}).status();
  };
  EXPECT_EQ(code(maps + more, ""), 200);
  EXPECT_EQ(code(maps + more, "bob"), 400) << "another payer";
  EXPECT_EQ(code(maps + more + "&labelSelector=n%3Da", ""), 400);
  EXPECT_EQ(code(maps + more + "&fieldSelector=metadata.name%3Da", ""), 400);
  EXPECT_EQ(code("/api/v1/namespaces/t1/secrets" + more, ""), 400);
  EXPECT_EQ(code("/api/v1/namespaces/t2/configmaps" + more, ""), 400);
  EXPECT_EQ(code("/api/v1/configmaps" + more, ""), 400);
  EXPECT_EQ(code("/clusters/other" + maps + more, ""), 400);
  seal_continue_tokens(server.server(), {{9, Secret::copy_of("another secret of this server")}});
  EXPECT_EQ(code(maps + more, ""), 410) << "its key is gone";
  EXPECT_EQ(code(maps + "?limit=5&continue=" +
                     std::string(get("?limit=1").json().text({"metadata", "continue"})),
                 ""),
            200);
}

TEST_F(List, WhenAM279TokenIsTooOld_OffersAnotherThatWorks) {
  create({"a", "b", "c"});
  const krm::Json first = get("?limit=1").json();
  create({"d"});
  server.store().compact(server.store().current());
  Exchange expired = get("?limit=1&continue=" + std::string(first.text({"metadata", "continue"})));
  EXPECT_EQ(expired.status(), 410);
  EXPECT_EQ(expired.json().text({"reason"}), "Expired");
  EXPECT_TRUE(message(expired).starts_with(
      "The provided continue parameter is too old to display a consistent list result."));
  const std::string offered(expired.json().text({"metadata", "continue"}));
  EXPECT_EQ(names(get("?limit=9&continue=" + offered).json()), "b c d ");
}

TEST_F(List, WhenAM263To271VersionsAreAsked_FollowsTheMatrix) {
  create({"a"});
  const std::string old = std::to_string(server.store().current());
  create({"b"});
  EXPECT_EQ(names(get("?resourceVersion=0").json()), "a b ");
  EXPECT_EQ(names(get("?resourceVersion=" + old).json()), "a b ");
  EXPECT_EQ(names(get("?resourceVersion=" + old + "&resourceVersionMatch=NotOlderThan").json()),
            "a b ");
  const krm::Json exact = get("?resourceVersion=" + old + "&resourceVersionMatch=Exact").json();
  EXPECT_EQ(names(exact), "a ");
  EXPECT_EQ(exact.text({"metadata", "resourceVersion"}), old);
  EXPECT_EQ(names(get("?limit=5&resourceVersion=" + old).json()), "a ");
  Exchange future = get("?resourceVersion=99999999");
  EXPECT_EQ(future.status(), 504);
  EXPECT_EQ(message(future), "Timeout: Too large resource version: 99999999, current: " +
                                 std::to_string(server.store().current()));
  EXPECT_EQ(future.header("retry-after"), "1");
  EXPECT_EQ(server.send("GET", std::string(kMaps) + "/a?resourceVersion=99999999").status(), 504);
  EXPECT_EQ(server.send("GET", std::string(kMaps) + "/a?resourceVersion=abc").status(), 500);
  server.store().compact(server.store().current());
  Exchange gone = get("?resourceVersion=" + old + "&resourceVersionMatch=Exact");
  EXPECT_EQ(gone.status(), 410);
  EXPECT_EQ(message(gone), "The resourceVersion for the provided list is too old.");
}

TEST_F(List, WhenAM068ListIsLarge_IsStreamedInChunksAndWaitsForTheReader) {
  const std::string filler(4'000, 'x');
  for (int i = 0; i < 400; ++i) {
    krm::Json object = config_map("m" + std::to_string(1000 + i), {{"f", krm::Json(filler)}});
    ASSERT_EQ(server.send("POST", kMaps, object).status(), 201);
  }
  Exchange whole = server.send("GET", kMaps);
  ASSERT_TRUE(server.run_until([&] { return whole.stream().ended; }));
  EXPECT_FALSE(whole.stream().headers.contains("content-length"));
  EXPECT_EQ(whole.json().find("items")->size(), 400U);
  EXPECT_GT(whole.stream().data_calls, 4U);

  Exchange page = server.send("GET", std::string(kMaps) + "?limit=300");
  ASSERT_TRUE(server.run_until([&] { return page.stream().ended; }));
  EXPECT_EQ(page.json().find("items")->size(), 300U);
  EXPECT_EQ(page.json().at({"metadata", "remainingItemCount"})->as_integer(), 100);
  EXPECT_FALSE(page.json().text({"metadata", "continue"}).empty());

  http::RequestHead head;
  head.method = "GET";
  head.target = kMaps;
  Exchange slow(server.server(), std::move(head), "");
  slow.stream().stuck = true;
  server.settle();
  EXPECT_LT(slow.body().size(), 700'000U);
  EXPECT_FALSE(slow.stream().ended);
  slow.stream().stuck = false;
  slow.handler().on_drained();
  ASSERT_TRUE(server.run_until([&] { return slow.stream().ended; }));
  EXPECT_EQ(slow.json().find("items")->size(), 400U);
}

TEST_F(List, SE005_WhatFollowsAPageIsExactWhileObjectsComeAndGo) {
  const auto put = [&](int first, int last, store::EventType type) {
    std::vector<store::Op> ops;
    for (int i = first; i < last; ++i) {
      const std::string name = "m" + std::to_string(i);
      const krm::Json object = config_map(name, {{"x", "1"}});
      store::Op op;
      op.type = type;
      op.key = *object_key("configmaps", "lc", "t1", name);
      op.value = encode_stored(object);
      ops.push_back(std::move(op));
    }
    while (!ops.empty()) {
      ASSERT_TRUE(server.store().commit_wait(store::take_batch(ops, server.store().limits())));
    }
  };
  const auto page = [&](const std::string& query) {
    Exchange got = get("?limit=10" + query);
    EXPECT_TRUE(server.run_until([&] { return got.stream().ended; }));
    return got.json();
  };
  const auto remaining = [](const krm::Json& list) {
    const krm::Json* count = list.at({"metadata", "remainingItemCount"});
    return count == nullptr ? -1 : count->as_integer();
  };
  const auto rest_of = [&](const krm::Json& list) {
    return page("&continue=" + std::string(list.text({"metadata", "continue"})));
  };
  put(10'000, 15'000, store::EventType::kPut);
  const krm::Json first = page("");
  EXPECT_EQ(remaining(first), 4'990);
  EXPECT_EQ(remaining(page("")), 4'990);
  EXPECT_EQ(remaining(rest_of(first)), 4'980);
  put(20'000, 20'003, store::EventType::kPut);
  put(10'001, 10'002, store::EventType::kPut);
  put(10'000, 10'001, store::EventType::kDelete);
  const krm::Json later = page("");
  EXPECT_EQ(remaining(later), 4'992);
  EXPECT_EQ(remaining(rest_of(later)), 4'982);
  EXPECT_EQ(remaining(rest_of(rest_of(first))), 4'970) << "as it was";
  const std::string old(first.text({"metadata", "resourceVersion"}));
  EXPECT_EQ(remaining(page("&resourceVersion=" + old)), 4'990);
  Exchange all = server.send("GET", "/clusters/*/api/v1/configmaps?limit=1");
  ASSERT_TRUE(server.run_until([&] { return all.stream().ended; }));
  EXPECT_EQ(remaining(all.json()), 5'001);
}

TEST_F(List, WhenAM098GzipIsAccepted_LargeBodiesAreCompressed) {
  ASSERT_EQ(
      server.send("POST", kMaps, config_map("big", {{"f", std::string(200'000, 'x')}})).status(),
      201);
  create({"small"});
  const testing::Fields gzip = {{"accept-encoding", "gzip"}};
  Exchange big = server.send("GET", std::string(kMaps) + "/big", std::string_view(), gzip);
  EXPECT_EQ(big.header("content-encoding"), "gzip");
  EXPECT_EQ(big.header("vary"), "Accept-Encoding");
  EXPECT_LT(big.body().size(), 10'000U);
  EXPECT_TRUE(big.body().starts_with("\x1f\x8b"));
  Exchange small = server.send("GET", std::string(kMaps) + "/small", std::string_view(), gzip);
  EXPECT_FALSE(small.stream().headers.contains("content-encoding"));
}

TEST_F(List, WhenAM477WildcardIsListed_AllClustersComeInOrder) {
  for (const char* lc : {"b", "a"}) {
    krm::Json ns = krm::Json::object();
    ns.make({"metadata", "name"}) = "n";
    ASSERT_EQ(
        server.send("POST", std::string("/clusters/") + lc + "/api/v1/namespaces", ns).status(),
        201);
  }
  const krm::Json all = server.send("GET", "/clusters/*/api/v1/namespaces").json();
  EXPECT_EQ(names(all), "n n t1 ");
  EXPECT_EQ(all.find("items")->items()[0].text({"metadata", "annotations", "kcp.io/cluster"}), "a");
  Exchange get = server.send("GET", "/clusters/*/api/v1/namespaces/n");
  EXPECT_EQ(get.status(), 405);
  EXPECT_EQ(message(get),
            "get is not supported on resources of kind \"namespaces\" in the `*` logical cluster");
}

}  // namespace
}  // namespace kintsugi::apiserver
