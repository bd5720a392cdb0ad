#include "proxy/path.h"

#include <gtest/gtest.h>

namespace kintsugi::proxy {
namespace {

TEST(JudgePath, FP107_EscapesThatHideSeparatorsAreMalformed) {
  EXPECT_EQ(judge_path("/clusters/root/a%2Fb"), PathVerdict::kClean);
  EXPECT_EQ(judge_path("/clusters/root/..%2F..%2Fclusters%2Fone/api"), PathVerdict::kMalformed);
  EXPECT_EQ(judge_path("/clusters/root/%2e%2e/one"), PathVerdict::kUnclean);
  EXPECT_EQ(judge_path("/clusters/root/a%00b"), PathVerdict::kMalformed);
  EXPECT_EQ(judge_path("/clusters/root/%zz"), PathVerdict::kMalformed);
  EXPECT_EQ(judge_path("/clusters/root/a%5c..%5cb"), PathVerdict::kMalformed);
  EXPECT_EQ(judge_path("/clusters/root/a%2F%2Fb"), PathVerdict::kMalformed);
  EXPECT_EQ(judge_path("/clusters/root/%"), PathVerdict::kMalformed);
  EXPECT_EQ(judge_path("/clusters/root/%4"), PathVerdict::kMalformed);
  EXPECT_EQ(judge_path("/clusters/root/api?x=%zz&y=a//b"), PathVerdict::kClean);
  EXPECT_EQ(judge_path("/clusters/%00/api"), PathVerdict::kClean)
      << "the cluster segment is judged by resolution";
}

TEST(CleanLocation, FP152_FP002_CleansAsGoDoes) {
  struct Case {
    const char* target;
    const char* location;
  };
  for (const Case& one :
       {Case{"//clusters/root/api?a=1", "/clusters/root/api?a=1"},
        Case{"/clusters/root/../one/api", "/clusters/one/api"},
        Case{"/clusters//root/x", "/clusters/root/x"},
        Case{"/clusters/../api/v1/namespaces", "/api/v1/namespaces"},
        Case{"/clusters//", "/clusters/"}, Case{"/clusters/root/%2e%2e/one", "/clusters/one"},
        Case{"/../..", "/"}, Case{"/a/./b/", "/a/b/"}}) {
    EXPECT_EQ(judge_path(one.target), PathVerdict::kUnclean) << one.target;
    EXPECT_EQ(clean_location(one.target), one.location) << one.target;
  }
  for (const char* clean : {"/", "/a/b", "/a/b/", "/a?b=//", "/a/..b", "/a/b..", "/a/...", "*"}) {
    EXPECT_EQ(judge_path(clean), PathVerdict::kClean) << clean;
  }
}

TEST(IsWatch, WhenTheQueryAsksForOne_SaysSo) {
  for (const char* yes : {"/api/v1/pods?watch=1", "/x?a=b&watch=true", "/x?watch", "/x?watch=maybe",
                          "/api/v1/watch/pods"}) {
    EXPECT_TRUE(is_watch(yes)) << yes;
  }
  for (const char* no : {"/api/v1/pods", "/x?watch=0", "/x?watch=False", "/x?watched=1",
                         "/x?a=watch", "/x?nowatch=1"}) {
    EXPECT_FALSE(is_watch(no)) << no;
  }
}

TEST(ShownPath, WhenEscaped_ShowsTheDecodedPath) {
  EXPECT_EQ(shown_path("/clusters/root%3Aa/x?q=1"), "/clusters/root:a/x");
  EXPECT_EQ(shown_path("/clusters/%2A/x"), "/clusters/*/x");
  EXPECT_EQ(shown_path("/a%zz"), "/a%zz");
}

}  // namespace
}  // namespace kintsugi::proxy
