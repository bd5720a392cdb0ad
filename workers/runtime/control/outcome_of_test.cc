#include "workers/runtime/control/outcome_of.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

ApiAnswer answer(int status, std::string_view body) {
  ApiAnswer out;
  out.status = status;
  out.body = *krm::Json::parse(body);
  return out;
}

TEST(OutcomeOf, S13_A404ThatNamesTheObjectIsItsEnd) {
  const ApiAnswer gone = answer(404, R"({"kind":"Status","reason":"NotFound","code":404,
      "details":{"name":"a","group":"g","kind":"things"}})");
  EXPECT_TRUE(gone.says_missing());
  EXPECT_EQ(outcome_of(gone, RequestKind::kUpdate).kind, Outcome::Kind::kDone);
  EXPECT_EQ(outcome_of(gone, RequestKind::kDelete).kind, Outcome::Kind::kDone);
}

/// Of a proxy that has just begun, and of a type that is not served.
TEST(OutcomeOf, S13_A404ThatNamesNoneSaysNothingOfTheObject) {
  for (const std::string_view body :
       {R"({"kind":"Status","reason":"NotFound","code":404,"message":"not found"})",
        R"({"kind":"Status","reason":"NotFound","code":404,"details":{}})", R"(null)"}) {
    EXPECT_FALSE(answer(404, body).says_missing()) << body;
    for (const RequestKind kind :
         {RequestKind::kUpdate, RequestKind::kDelete, RequestKind::kRead, RequestKind::kCreate}) {
      EXPECT_EQ(outcome_of(answer(404, body), kind).kind, Outcome::Kind::kError) << body;
    }
  }
}

}  // namespace
}  // namespace kintsugi::workers
