#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apiserver/resource.h"
#include "auth/authorizer.h"

/// For tests of admission only: what a write brings with it, without a server.
namespace kintsugi::controlplane::testing {

class NothingStored : public apiserver::ObjectReader {
 public:
  std::optional<krm::Json> get(std::string_view, std::string_view, std::string_view,
                               std::string_view, std::string_view) const override {
    return std::nullopt;
  }
  void list(std::string_view, std::string_view, std::string_view, std::string_view,
            const std::function<bool(const krm::Json&)>&) const override {}
};

[[nodiscard]] inline auth::UserInfo member(std::vector<std::string> groups,
                                           std::string name = "ann") {
  auth::UserInfo user;
  user.name = std::move(name);
  user.groups = std::move(groups);
  return user;
}

/// A write by one user in one logical cluster.
struct TestWrite {
  explicit TestWrite(auth::UserInfo who, std::string part = {}, std::string in = "abc")
      : user(std::move(who)), cluster(std::move(in)), subresource(std::move(part)) {}

  auth::UserInfo user;
  std::string cluster, subresource;
  NothingStored reader;
  std::vector<std::string> warnings;
  apiserver::WriteContext context{user, cluster, "update", subresource, false, reader, warnings};
};

/// Allows what the test lists as "<cluster> <verb> <group>/<resource>/<name>" and notes questions.
class ListedRights final : public auth::Authorizer {
 public:
  void authorize(const auth::Attributes& asked, Done done) override {
    std::string text = asked.cluster;
    text += " " + asked.verb;
    text += " " + asked.group;
    text += "/" + asked.resource;
    text += "/" + asked.name;
    bool allowed = false;
    for (const std::string& one : allowed_texts) {
      allowed = allowed || one == text;
    }
    questions.push_back(std::move(text));
    if (unreachable) {
      done(fail(Errc::kUnavailable, "nobody answers"));
    } else {
      done(auth::Decision{allowed, {}});
    }
  }

  std::vector<std::string> allowed_texts, questions;
  bool unreachable = false;
};

[[nodiscard]] inline std::string text_of(const Expected<void>& result) {
  return result ? std::string() : std::string(result.error().message());
}

}  // namespace kintsugi::controlplane::testing
