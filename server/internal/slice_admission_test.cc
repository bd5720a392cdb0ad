#include "server/internal/slice_admission.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "krm/status.h"

namespace kintsugi::server {
namespace {

using krm::Json;

class NoObjects final : public apiserver::ObjectReader {
 public:
  std::optional<Json> get(std::string_view, std::string_view, std::string_view, std::string_view,
                          std::string_view) const override {
    return std::nullopt;
  }
  void list(std::string_view, std::string_view, std::string_view, std::string_view,
            const std::function<bool(const Json&)>&) const override {}
};

Json slice(std::string_view spec, std::string_view metadata = R"({"name":"s"})") {
  auto object = Json::parse(R"({"metadata":)" + std::string(metadata) + R"(,"spec":)" +
                            std::string(spec) + "}");
  EXPECT_TRUE(object) << spec;
  return object ? std::move(*object) : Json();
}

const char* const kHere = R"({"export":{"path":"root:org","name":"here"}})";
const char* const kThere = R"({"export":{"path":"root:org:workspaceName","name":"someExport"}})";

/// Admission with somebody who answers questions about `bind`.
struct Admission : ::testing::Test {
  /// "ok", or the message of the refusal.
  std::string admit(const Json* object, const Json* old, std::string_view subresource = "",
                    bool generated = false) {
    const apiserver::WriteContext context{user,        "ws1", old == nullptr ? "create" : "update",
                                          subresource, false, reader,
                                          warnings,    false, generated};
    std::string said;
    admit_slice(
        [this](proxy::BindCheck::Question question, std::function<void(Expected<void>)> done) {
          asked = std::move(question);
          done(refusal ? Expected<void>(fail(refusal->clone())) : Expected<void>());
        },
        regions, context, object, old,
        [&](Expected<void> result) {
          said = result ? "ok" : std::string(result.error().message());
        });
    return said;
  }
  std::string create(const Json& object) { return admit(&object, nullptr); }

  NoObjects reader;
  endpointslice::Regions regions;
  auth::UserInfo user;
  std::vector<std::string> warnings;
  std::optional<Error> refusal;
  std::optional<proxy::BindCheck::Question> asked;
};

TEST_F(Admission, TP043_WhenTheExportChanges_BindIsNeededAsOnCreate) {
  const Json old = slice(kHere), now = slice(kThere);
  EXPECT_EQ(admit(&now, &old), "ok");
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->path, "root:org:workspaceName");
  EXPECT_EQ(asked->name, "someExport");
  EXPECT_EQ(asked->slice_name, "s");
  EXPECT_EQ(asked->cluster, "ws1");
  for (const char* why : {"no opinion", "denied", "error"}) {
    refusal.emplace(Errc::kForbidden, why);
    EXPECT_EQ(admit(&now, &old), why);
  }
  EXPECT_TRUE(changes_export(&now, &old));
}

TEST_F(Admission, TP043_WhatDoesNotChangeTheExportNeedsNoRight) {
  refusal.emplace(Errc::kForbidden, "denied");
  const Json old = slice(kHere);
  Json now = old;
  now["spec"]["partition"] = "p";
  now["metadata"]["labels"]["a"] = "b";
  EXPECT_EQ(admit(&now, &old), "ok");
  EXPECT_FALSE(changes_export(&now, &old));
  const Json other = slice(kThere);
  EXPECT_EQ(admit(&other, &old, "status"), "ok") << "status never changes the spec";
  EXPECT_EQ(admit(nullptr, &old), "ok") << "deletes";
  EXPECT_FALSE(asked);
  // One field of the reference is enough.
  for (const char* spec :
       {R"({"export":{"path":"root","name":"here"}})",
        R"({"export":{"path":"root:org","name":"x"}})", R"({"export":{"name":"here"}})"}) {
    const Json changed = slice(spec);
    EXPECT_EQ(admit(&changed, &old), "denied") << spec;
  }
  // What had no export before is like new.
  const Json bare = slice("{}");
  EXPECT_EQ(admit(&old, &bare), "denied");
}

TEST_F(Admission, TP040_TP042_OnCreateAsksWithTheNameOrWhatItBeginsWith) {
  EXPECT_EQ(create(slice(kThere)), "ok");
  EXPECT_EQ(asked->slice_name, "s");
  Json generated = slice(kThere, R"({"generateName":"early-","name":"early-x7k2p"})");
  EXPECT_EQ(admit(&generated, nullptr, "", true), "ok");
  EXPECT_EQ(asked->slice_name, "early-") << "the client never saw the other one";
  EXPECT_EQ(admit(&generated, nullptr), "ok");
  EXPECT_EQ(asked->slice_name, "early-x7k2p") << "a name of its own";
  generated["metadata"].erase("name");
  EXPECT_EQ(create(generated), "ok");
  EXPECT_EQ(asked->slice_name, "early-");
  asked.reset();
  // The schema refuses some of them before; it knows nothing of an object without spec (KK-132).
  for (const char* spec : {R"({"export":{"name":""}})", "{}", R"({"export":{}})",
                           R"({"export":{"path":"root"}})", "null"}) {
    EXPECT_EQ(create(slice(spec)),
              "apiexportendpointslices.apis.kcp.io \"s\" is forbidden: [spec.export.name: Required "
              "value]")
        << spec;
  }
  EXPECT_FALSE(asked);
}

TEST_F(Admission, TP117_UnknownAnnotationValuesWarn) {
  const Json object =
      slice(kThere, R"({"name":"s","annotations":{"kintsugi.dev/consumers":"perhaps"}})");
  EXPECT_EQ(create(object), "ok");
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings.front().find("kintsugi.dev/consumers"), std::string::npos);
}

}  // namespace
}  // namespace kintsugi::server
