#include "cmd/kintsugi/workspace_path.h"

#include <gtest/gtest.h>

namespace kintsugi::cmd {
namespace {

std::string resolved(std::string_view current, std::string_view wanted,
                     std::string_view home = "user:alice") {
  const Expected<std::string> path = resolve_workspace(current, wanted, home);
  return path ? *path : "error: " + std::string(path.error().message());
}

TEST(WorkspaceUrl, WhenItNamesAWorkspace_IsTakenApart) {
  const Expected<WorkspaceUrl> url = parse_workspace_url("https://h:6443/clusters/root:a");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->base, "https://h:6443");
  EXPECT_EQ(url->path, "root:a");
  EXPECT_EQ(url->at("root"), "https://h:6443/clusters/root");
}

TEST(WorkspaceUrl, WhenThereIsAPrefixOrATail_KeepsThePrefixOnly) {
  const Expected<WorkspaceUrl> url = parse_workspace_url("https://h/kcp/clusters/root%3Aa/api/v1");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->base, "https://h/kcp");
  EXPECT_EQ(url->path, "root:a");
}

TEST(WorkspaceUrl, WhenItNamesNone_HasNoPath) {
  for (const char* text : {"https://h:6443", "https://h:6443/"}) {
    const Expected<WorkspaceUrl> url = parse_workspace_url(text);
    ASSERT_TRUE(url) << text;
    EXPECT_EQ(*url, (WorkspaceUrl{"https://h:6443", ""})) << text;
  }
}

TEST(WorkspaceUrl, WhenItIsNoWorkspace_Fails) {
  for (const char* text :
       {"https://h/services/apiexport/x/y/clusters/root", "https://h/clusters/*",
        "https://h/clusters/Root", "https://h/clusters/", "https://h/clusters/root:"}) {
    const Expected<WorkspaceUrl> url = parse_workspace_url(text);
    ASSERT_FALSE(url) << text;
    EXPECT_EQ(url.error().code(), Errc::kConfig) << text;
  }
}

TEST(ResolveWorkspace, WhenRelative_StartsAtTheCurrentOne) {
  EXPECT_EQ(resolved("root:a", "b"), "root:a:b");
  EXPECT_EQ(resolved("root:a", "b:c"), "root:a:b:c");
  EXPECT_EQ(resolved("root:a", "b/c/"), "root:a:b:c");
  EXPECT_EQ(resolved("root:a", "."), "root:a");
  EXPECT_EQ(resolved("root:a", ".."), "root");
  EXPECT_EQ(resolved("root:a:b", "../.."), "root");
  EXPECT_EQ(resolved("root:a:b", "../c"), "root:a:c");
  EXPECT_EQ(resolved("v1u4alow0iv9", "x"), "v1u4alow0iv9:x");
}

TEST(ResolveWorkspace, WhenAbsolute_ForgetsTheCurrentOne) {
  EXPECT_EQ(resolved("root:a", "root"), "root");
  EXPECT_EQ(resolved("root:a", "root:b"), "root:b");
  EXPECT_EQ(resolved("root:a", ":v1u4alow0iv9"), "v1u4alow0iv9");
  EXPECT_EQ(resolved("", ":root:b"), "root:b");
  EXPECT_EQ(resolved("root:a", "rooted"), "root:a:rooted");
  EXPECT_EQ(resolved("root:a:b", ":"), "root");
  EXPECT_EQ(resolved("user:bob:x", ":"), "user:bob");
}

TEST(ResolveWorkspace, WhenBelowHome_StartsThere) {
  EXPECT_EQ(resolved("root:a", "~"), "user:alice");
  EXPECT_EQ(resolved("root:a", "~:x:y"), "user:alice:x:y");
  EXPECT_EQ(resolved("root:a", "~/x"), "user:alice:x");
  EXPECT_EQ(resolved("root:a", "~", "v1u4alow0iv9"), "v1u4alow0iv9");
  EXPECT_EQ(resolved("root:a", "~", ""), "error: the home workspace is not known");
}

TEST(ResolveWorkspace, WhenAboveTheFirstPart_Fails) {
  EXPECT_EQ(resolved("root", ".."), "error: there is nothing above root");
  EXPECT_EQ(resolved("root:a", "../../.."), "error: there is nothing above root");
  EXPECT_EQ(resolved("user:alice", ".."), "error: there is nothing above user:alice");
}

TEST(ResolveWorkspace, WhenMalformedOrRelativeToNothing_Fails) {
  for (const char* text : {"A", "a::b", "a:", ":a:", "a b", "-a", "*", "::", ""}) {
    const Expected<std::string> path = resolve_workspace("root", text, "");
    if (*text == '\0') {
      EXPECT_EQ(path.value_or("error"), "root");
      continue;
    }
    EXPECT_FALSE(path) << text << " gives " << path.value_or("");
  }
  EXPECT_FALSE(resolve_workspace("", "a"));
  EXPECT_FALSE(resolve_workspace("", ".."));
}

TEST(SplitWorkspace, WhenThereIsAParent_NamesBoth) {
  EXPECT_EQ(split_workspace("root:a:b").parent, "root:a");
  EXPECT_EQ(split_workspace("root:a:b").name, "b");
  EXPECT_EQ(split_workspace("root").parent, "");
  EXPECT_EQ(split_workspace("root").name, "root");
}

}  // namespace
}  // namespace kintsugi::cmd
