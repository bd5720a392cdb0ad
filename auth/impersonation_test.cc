#include "auth/impersonation.h"

#include <gtest/gtest.h>

#include "auth/impersonation_modes.h"
#include "base/strings.h"

namespace kintsugi::auth {
namespace {

using Texts = std::vector<std::string>;

http::HeaderList headers_of(std::initializer_list<std::pair<const char*, const char*>> fields) {
  http::HeaderList headers;
  for (const auto& [name, value] : fields) {
    headers.add(name, value);
  }
  return headers;
}

UserInfo user_of(const char* name, Texts groups) {
  UserInfo user;
  user.name = name;
  user.groups = std::move(groups);
  return user;
}

/// What the headers ask for by the verb `impersonate` alone, as servers before Kubernetes 1.36 have
/// it (AM-435).
struct Impersonation {
  UserInfo user;                   ///< the effective identity if every check is allowed
  std::vector<Attributes> checks;  ///< in the order in which they are asked
};

Expected<std::optional<Impersonation>> parse_impersonation(const http::HeaderList& headers,
                                                           const UserInfo& requester,
                                                           std::string_view cluster) {
  Expected<std::optional<UserInfo>> wanted = read_impersonation(headers, requester);
  if (!wanted) {
    return fail(std::move(wanted.error()));
  }
  if (!*wanted) {
    return std::nullopt;
  }
  Attributes request;
  request.user = requester;
  request.cluster = cluster;
  Mode classic = std::move(impersonation_modes(**wanted, request).back());
  Impersonation result;
  result.user = std::move(classic.user);
  for (ModeStep& step : classic.steps) {
    result.checks.push_back(std::move(step.attributes));
  }
  return std::optional<Impersonation>(std::move(result));
}

/// Allows what is listed as "verb resource[/subresource] name"; all that is listed with "*" instead
/// of a verb.
class ListAuthorizer final : public Authorizer {
 public:
  explicit ListAuthorizer(Texts allowed) : allowed_(std::move(allowed)) {}
  void authorize(const Attributes& attributes, Done done) override {
    const std::string what = attributes.is_resource ? text_of(attributes) : attributes.path;
    asked.push_back(attributes.verb + " " + what);
    extras = attributes.user.extra;
    Decision decision;
    decision.allowed =
        std::find(allowed_.begin(), allowed_.end(), asked.back()) != allowed_.end() ||
        std::find(allowed_.begin(), allowed_.end(), "* " + what) != allowed_.end();
    if (later) {
      waiting.push_back([done = std::move(done), decision] { done(decision); });
    } else {
      done(decision);
    }
  }
  Texts asked;
  decltype(UserInfo::extra) extras;
  bool later = false;
  std::vector<std::function<void()>> waiting;

 private:
  static std::string text_of(const Attributes& attributes) {
    std::string text = attributes.resource;
    if (!attributes.group.empty()) {
      text += "." + attributes.group.substr(0, attributes.group.find('.'));
    }
    if (!attributes.subresource.empty()) {
      text += "/" + attributes.subresource;
    }
    if (!attributes.ns.empty()) {
      text += " " + attributes.ns;
    }
    return text + " " + attributes.name;
  }
  Texts allowed_;
};

Attributes list_of_pods(UserInfo requester) {
  Attributes request;
  request.user = std::move(requester);
  request.cluster = "c";
  request.verb = "list";
  request.version = "v1";
  request.resource = "pods";
  return request;
}

/// "name uid groups extras by constraint", or why not. Whoever is impersonated is so in the logical
/// cluster of the request alone: the scope that says so (KK-323) is checked and left out.
std::string outcome(Impersonator& impersonator, const http::HeaderList& headers,
                    Attributes request) {
  std::string text = "nothing";
  const std::string scope = "authentication.kcp.io/scopes=cluster:" + request.cluster;
  const bool changes = has_impersonation(headers);
  impersonator.impersonate(
      headers, std::move(request), [&](Expected<Impersonator::Effective> effective) {
        if (!effective) {
          text = effective.error().message();
          return;
        }
        text = effective->user.name + "|" + effective->user.uid;
        for (const std::string& group : effective->user.groups) {
          text += "|" + group;
        }
        bool is_scoped = false;
        for (const auto& [key, values] : effective->user.extra) {
          const std::string extra = key + "=" + join(values, ",");
          is_scoped = is_scoped || extra == scope;
          text += extra == scope ? "" : "|" + extra;
        }
        EXPECT_EQ(is_scoped, changes) << text;
        text += " by " + (effective->constraint.empty() ? "impersonate" : effective->constraint);
      });
  return text;
}

std::string outcome(Authorizer& authorizer, const http::HeaderList& headers,
                    UserInfo requester = user_of("alice", {"devs"})) {
  Impersonator impersonator(authorizer);
  return outcome(impersonator, headers, list_of_pods(std::move(requester)));
}

UserInfo account_on(const char* node) {
  UserInfo user = user_of("system:serviceaccount:t1:agent", {"system:serviceaccounts"});
  user.extra = {{"authentication.kubernetes.io/pod-name", {"p"}},
                {"authentication.kubernetes.io/node-name", {node}},
                {"authentication.kcp.io/scopes", {"cluster:c"}}};
  return user;
}

TEST(Impersonation, WhenNoHeaderIsSent_TheUserStays) {
  ListAuthorizer authorizer({});
  EXPECT_EQ(outcome(authorizer, headers_of({{"accept", "x"}})), "alice||devs by impersonate");
  EXPECT_FALSE(has_impersonation(headers_of({{"accept", "x"}})));
  EXPECT_TRUE(has_impersonation(headers_of({{"accept", "x"}, {"Impersonate-Uid", "7"}})));
}

TEST(Impersonation, WhenTheRequesterIsNotOfTheMasters_KK323_TheUserIsScoped) {
  ListAuthorizer authorizer({"impersonate users carol",
                             "impersonate userextras.authentication/authentication.kcp.io/scopes "
                             "cluster:b"});
  Impersonator impersonator(authorizer);
  const auto scopes = [&](const UserInfo& requester, const http::HeaderList& headers) {
    std::vector<std::string> found;
    impersonator.impersonate(
        headers, list_of_pods(requester), [&](Expected<Impersonator::Effective> effective) {
          ASSERT_TRUE(effective) << effective.error().message();
          const auto* values = effective->user.extra_values("authentication.kcp.io/scopes");
          found = values == nullptr ? Texts() : *values;
        });
    return found;
  };
  const http::HeaderList carol = headers_of({{"Impersonate-User", "carol"}});
  const http::HeaderList narrowed =
      headers_of({{"Impersonate-User", "carol"},
                  {"Impersonate-Extra-Authentication.kcp.io%2fscopes", "cluster:b"}});
  EXPECT_EQ(scopes(user_of("alice", {"devs"}), carol), Texts{"cluster:c"});
  EXPECT_EQ(scopes(user_of("alice", {"system:kcp:admin"}), carol), Texts{"cluster:c"});
  EXPECT_EQ(scopes(user_of("alice", {"devs"}), narrowed), (Texts{"cluster:b", "cluster:c"}));
  EXPECT_EQ(scopes(user_of("root", {"system:masters"}), carol), Texts());
  EXPECT_EQ(scopes(user_of("root", {"system:masters"}), narrowed), Texts{"cluster:b"});
}

TEST(Impersonation, WhenEveryPartIsAllowed_IsExactlyWhatWasAsked_AM435) {
  ListAuthorizer authorizer({"impersonate users carol", "impersonate groups team",
                             "impersonate uids.authentication 7",
                             "impersonate userextras.authentication/scopes/x view",
                             "impersonate userextras.authentication/a 1"});
  EXPECT_EQ(outcome(authorizer, headers_of({{"Impersonate-User", "carol"},
                                            {"Impersonate-Group", "team"},
                                            {"Impersonate-Uid", "7"},
                                            {"Impersonate-Extra-Scopes%2fx", "view"},
                                            {"Impersonate-Extra-a", "1"}})),
            "carol|7|team|system:authenticated|scopes/x=view|a=1 by impersonate");
  EXPECT_EQ(authorizer.asked.size(), 6U);
}

TEST(Impersonation, WhenAServiceAccountIsNamed_ItsGroupsAreAdded_AM435) {
  const auto parsed = parse_impersonation(
      headers_of({{"Impersonate-User", "system:serviceaccount:t1:s"}}), user_of("a", {}), "c");
  ASSERT_TRUE(parsed && parsed->has_value());
  EXPECT_EQ((*parsed)->user.groups,
            (Texts{"system:serviceaccounts", "system:serviceaccounts:t1", "system:authenticated"}));
  const Attributes& check = (*parsed)->checks.front();
  EXPECT_EQ(check.resource, "serviceaccounts");
  EXPECT_EQ(check.group, "");
  EXPECT_EQ(check.ns, "t1");
  EXPECT_EQ(check.name, "s");
  EXPECT_EQ(check.verb, "impersonate");
}

TEST(Impersonation, WhenAnonymousIsNamed_IsUnauthenticated_AM435) {
  const auto parsed = parse_impersonation(headers_of({{"Impersonate-User", "system:anonymous"}}),
                                          user_of("a", {}), "c");
  EXPECT_EQ((*parsed)->user.groups, Texts{"system:unauthenticated"});
}

// What each mode asks for, and what the user is then.
TEST(Impersonation, WhenAModeApplies_AM435_AsksForItsRights) {
  struct Row {
    http::HeaderList headers;
    Texts allowed;
    const char* expected;
  };
  const Row rows[] = {
      {headers_of({{"Impersonate-User", "carol"}}),
       {"impersonate-on:user-info:list pods ", "impersonate:user-info users.authentication carol"},
       "carol||system:authenticated by impersonate:user-info"},
      {headers_of({{"Impersonate-User", "system:anonymous"}}),
       {"impersonate-on:user-info:list pods ", "* users.authentication system:anonymous"},
       "system:anonymous||system:unauthenticated by impersonate:user-info"},
      {headers_of({{"Impersonate-User", "carol"},
                   {"Impersonate-Uid", "7"},
                   {"Impersonate-Group", "team"},
                   {"Impersonate-Extra-Acme.io%2FTeam", "blue"}}),
       {"impersonate-on:user-info:list pods ", "* users.authentication carol",
        "* uids.authentication 7", "* groups.authentication team",
        "* userextras.authentication/acme.io/team blue"},
       "carol|7|team|system:authenticated|acme.io/team=blue by impersonate:user-info"},
      {headers_of({{"Impersonate-User", "system:serviceaccount:t1:s"}}),
       {"impersonate-on:serviceaccount:list pods ",
        "impersonate:serviceaccount serviceaccounts.authentication t1 s"},
       "system:serviceaccount:t1:s||system:serviceaccounts|system:serviceaccounts:t1|"
       "system:authenticated by impersonate:serviceaccount"},
      {headers_of({{"Impersonate-User", "system:node:n1"}}),
       {"impersonate-on:arbitrary-node:list pods ",
        "impersonate:arbitrary-node nodes.authentication n1"},
       "system:node:n1||system:nodes|system:authenticated by impersonate:arbitrary-node"},
      {headers_of({{"Impersonate-User", "system:node:n1"}}),
       {"impersonate users system:node:n1"},
       "system:node:n1||system:authenticated by impersonate"},
      {headers_of({{"Impersonate-User", "system:node:N_1"}}),
       {"impersonate-on:user-info:list pods ", "* users.authentication system:node:N_1"},
       "system:node:N_1||system:authenticated by impersonate:user-info"},
  };
  for (const Row& row : rows) {
    ListAuthorizer authorizer(row.allowed);
    EXPECT_EQ(outcome(authorizer, row.headers), row.expected);
    for (const std::string& right : row.allowed) {
      Texts others = row.allowed;
      others.erase(std::find(others.begin(), others.end(), right));
      ListAuthorizer less(others);
      EXPECT_NE(outcome(less, row.headers).find("forbidden"), std::string::npos) << right;
    }
  }
}

TEST(Impersonation, WhenItIsTheNodeOfTheAccount_AM435_AnyNodeIsAskedFor) {
  ListAuthorizer authorizer(
      {"impersonate-on:associated-node:list pods ", "* nodes.authentication *"});
  EXPECT_EQ(
      outcome(authorizer, headers_of({{"Impersonate-User", "system:node:n1"}}), account_on("n1")),
      "system:node:n1||system:nodes|system:authenticated by impersonate:associated-node");
  // Its pod and node do not count; where it holds does.
  ASSERT_EQ(authorizer.extras.size(), 2U);
  EXPECT_EQ(authorizer.extras[0].first, "authentication.kcp.io/scopes");
  EXPECT_EQ(authorizer.extras[1].first, "authentication.kubernetes.io/associated-node-keys");
  EXPECT_EQ(authorizer.extras[1].second,
            (Texts{"authentication.kcp.io/scopes", "authentication.kubernetes.io/node-name",
                   "authentication.kubernetes.io/pod-name"}));
  for (const UserInfo& other : {account_on("n2"), user_of("alice", {})}) {
    EXPECT_NE(outcome(authorizer, headers_of({{"Impersonate-User", "system:node:n1"}}), other)
                  .find("cannot impersonate-on:arbitrary-node:list"),
              std::string::npos);
  }
}

TEST(Impersonation, WhenNothingIsAllowed_AM436_TheFirstModeThatCouldBeIsSaid) {
  const auto no = [](const http::HeaderList& headers, UserInfo requester = user_of("alice", {})) {
    ListAuthorizer authorizer({});
    return outcome(authorizer, headers, std::move(requester));
  };
  const std::string pods = "pods is forbidden: User \"alice\" cannot impersonate-on:";
  const std::string end = ":list resource \"pods\" in API group \"\" at the cluster scope";
  EXPECT_EQ(no(headers_of({{"Impersonate-User", "carol"}})), pods + "user-info" + end);
  EXPECT_EQ(no(headers_of({{"Impersonate-User", "system:node:n"}})), pods + "arbitrary-node" + end);
  EXPECT_EQ(no(headers_of({{"Impersonate-User", "system:serviceaccount:t1:s"}})),
            pods + "serviceaccount" + end);
  EXPECT_EQ(no(headers_of({{"Impersonate-User", "system:node:n"}}), account_on("n")),
            "pods is forbidden: User \"system:serviceaccount:t1:agent\" cannot "
            "impersonate-on:associated-node" +
                end);
  // Only the classic mode gives accounts and nodes more than their names.
  EXPECT_EQ(no(headers_of(
                {{"Impersonate-User", "system:serviceaccount:t1:s"}, {"Impersonate-Group", "g"}})),
            "serviceaccounts \"s\" is forbidden: User \"alice\" cannot impersonate resource "
            "\"serviceaccounts\" in API group \"\" in the namespace \"t1\"");
  EXPECT_EQ(no(headers_of({{"Impersonate-User", "system:node:n"}, {"Impersonate-Uid", "1"}})),
            "users \"system:node:n\" is forbidden: User \"alice\" cannot impersonate resource "
            "\"users\" in API group \"\" at the cluster scope");
}

TEST(Impersonation, WhenOneRightIsMissing_AM436_ItIsSaid) {
  struct Row {
    http::HeaderList headers;
    Texts allowed;
    const char* expected;
  };
  const Texts on = {"impersonate-on:user-info:list pods ", "* users.authentication x"};
  const Row rows[] = {
      {headers_of({{"Impersonate-User", "x"}}),
       {on[0]},
       "users.authentication.k8s.io \"x\" is forbidden: User \"alice\" cannot "
       "impersonate:user-info resource \"users\" in API group \"authentication.k8s.io\" at the "
       "cluster scope"},
      {headers_of({{"Impersonate-User", "x"}, {"Impersonate-Group", "g"}}), on,
       "groups.authentication.k8s.io \"g\" is forbidden: User \"alice\" cannot "
       "impersonate:user-info resource \"groups\" in API group \"authentication.k8s.io\" at the "
       "cluster scope"},
      {headers_of({{"Impersonate-User", "x"}, {"Impersonate-Group", ""}}), on,
       "groups.authentication.k8s.io is forbidden: User \"alice\" cannot impersonate:user-info "
       "resource \"groups\" in API group \"authentication.k8s.io\" at the cluster scope: "
       "impersonating the empty string group is not allowed"},
      {headers_of({{"Impersonate-User", "x"}, {"Impersonate-Extra-Foo", "1"}}), on,
       "userextras.authentication.k8s.io is forbidden: User \"alice\" cannot "
       "impersonate:user-info resource \"userextras\" in API group \"authentication.k8s.io\" at "
       "the cluster scope: impersonating an invalid key in extra is not allowed: extra.key: "
       "Invalid value: \"foo\": must be a domain-prefixed path (such as \"acme.io/foo\")"},
      {headers_of({{"Impersonate-User", "x"}, {"Impersonate-Extra-a.io%2f%46", "1"}}), on,
       "userextras.authentication.k8s.io is forbidden: User \"alice\" cannot "
       "impersonate:user-info resource \"userextras\" in API group \"authentication.k8s.io\" at "
       "the cluster scope: impersonating a non-lowercase key in extra is not allowed: "
       "\"a.io/F\""},
      {headers_of({{"Impersonate-User", "x"}, {"Impersonate-Extra-a.io%2fb", ""}}), on,
       "userextras.authentication.k8s.io is forbidden: User \"alice\" cannot "
       "impersonate:user-info resource \"userextras\" in API group \"authentication.k8s.io\" at "
       "the cluster scope: impersonating the empty string value in extra is not allowed"},
      {headers_of({{"Impersonate-User", "x"}, {"Impersonate-Extra-a.io%2fb", "1"}}), on,
       "userextras.authentication.k8s.io \"1\" is forbidden: User \"alice\" cannot "
       "impersonate:user-info resource \"userextras/a.io/b\" in API group "
       "\"authentication.k8s.io\" at the cluster scope"},
  };
  for (const Row& row : rows) {
    ListAuthorizer authorizer(row.allowed);
    EXPECT_EQ(outcome(authorizer, row.headers), row.expected);
  }
  // Nobody becomes a master by the constrained verbs, whoever asks.
  ListAuthorizer masters({on[0], on[1], "* groups.authentication system:masters"});
  EXPECT_NE(
      outcome(masters,
              headers_of({{"Impersonate-User", "x"}, {"Impersonate-Group", "system:masters"}}),
              user_of("root", {"system:masters"}))
          .find("impersonating the system:masters group is not allowed"),
      std::string::npos);
}

TEST(Impersonation, WhenThereAreMany_AM435_ARightToAllIsLookedForFirst) {
  http::HeaderList headers = headers_of({{"Impersonate-User", "x"}});
  for (const char* group : {"a", "b", "c", "d"}) {
    headers.add("impersonate-group", group);
    headers.add("impersonate-extra-a.io%2fb", group);
  }
  const Texts on = {"impersonate-on:user-info:list pods ", "* users.authentication x",
                    "* groups.authentication *", "* userextras.authentication/* *"};
  ListAuthorizer all(on);
  EXPECT_EQ(outcome(all, headers),
            "x||a|b|c|d|system:authenticated|a.io/b=a,b,c,d by impersonate:user-info");
  EXPECT_EQ(all.asked.size(), 4U);
  Texts each = {on[0], on[1]};
  for (const char* group : {"a", "b", "c", "d"}) {
    each.push_back(std::string("* groups.authentication ") + group);
    each.push_back(std::string("* userextras.authentication/a.io/b ") + group);
  }
  ListAuthorizer one_by_one(each);
  EXPECT_NE(outcome(one_by_one, headers).find("by impersonate:user-info"), std::string::npos);
  EXPECT_EQ(one_by_one.asked.size(), 12U);
  each.pop_back();
  ListAuthorizer less(each);
  EXPECT_NE(outcome(less, headers).find("userextras.authentication.k8s.io \"d\" is forbidden"),
            std::string::npos);
}

TEST(Impersonation, WhenThePathIsNoResource_AM436_ItIsTold) {
  ListAuthorizer authorizer({});
  Impersonator impersonator(authorizer);
  Attributes request;
  request.user = user_of("alice", {});
  request.is_resource = false;
  request.verb = "get";
  request.path = "/version";
  EXPECT_EQ(outcome(impersonator, headers_of({{"Impersonate-User", "x"}}), request),
            "forbidden: User \"alice\" cannot impersonate-on:user-info:get path \"/version\"");
}

TEST(Impersonation, WhenAModeWasAllowed_AM435_ItIsAskedFirstNextTime) {
  ListAuthorizer authorizer({"impersonate users carol"});
  Impersonator impersonator(authorizer);
  const auto ask = [&](const char* user) {
    authorizer.asked.clear();
    return outcome(impersonator, headers_of({{"Impersonate-User", user}}),
                   list_of_pods(user_of("alice", {})));
  };
  EXPECT_EQ(ask("carol"), "carol||system:authenticated by impersonate");
  EXPECT_EQ(authorizer.asked.size(), 2U);
  EXPECT_EQ(ask("carol"), "carol||system:authenticated by impersonate");
  EXPECT_EQ(authorizer.asked, Texts{"impersonate users carol"});
  EXPECT_EQ(ask("dave"),
            "users \"dave\" is forbidden: User \"alice\" cannot impersonate resource \"users\" in "
            "API group \"\" at the cluster scope");
}

TEST(Impersonation, WhenTheAuthorizerAnswersLater_IsTheSame) {
  ListAuthorizer authorizer({"impersonate users carol"});
  authorizer.later = true;
  Impersonator impersonator(authorizer);
  std::string name;
  impersonator.impersonate(
      headers_of({{"Impersonate-User", "carol"}}), list_of_pods(user_of("alice", {})),
      [&](Expected<Impersonator::Effective> effective) { name = effective->user.name; });
  for (int n = 0; n < 2; ++n) {
    ASSERT_EQ(authorizer.waiting.size(), 1U);
    EXPECT_EQ(name, "");
    const auto answer = std::move(authorizer.waiting.front());
    authorizer.waiting.clear();
    answer();
  }
  EXPECT_EQ(name, "carol");
}

TEST(ModeMemory, WhenThereAreTooManyUsers_TheOneUnusedForLongestGoes) {
  ModeMemory memory(2);
  memory.set("a", ModeName::kClassic);
  memory.set("b", ModeName::kUserInfo);
  EXPECT_EQ(memory.get("a"), ModeName::kClassic);
  memory.set("c", ModeName::kServiceAccount);
  EXPECT_EQ(memory.get("b"), std::nullopt);
  memory.set("a", ModeName::kUserInfo);
  EXPECT_EQ(memory.get("a"), ModeName::kUserInfo);
  EXPECT_EQ(memory.get("c"), ModeName::kServiceAccount);
}

TEST(Impersonation, WhenUserIsMissing_IsABadRequest_AM436) {
  for (const char* name : {"Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-a"}) {
    const auto parsed = parse_impersonation(headers_of({{name, "x"}}), user_of("a", {}), "c");
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().code(), Errc::kBadRequest);
    EXPECT_NE(parsed.error().message().find("without impersonating a user"),
              std::string_view::npos);
  }
  const auto all = parse_impersonation(
      headers_of({{"Impersonate-Group", "g"}, {"Impersonate-Extra-b", "x"}}), user_of("a", {}), "");
  EXPECT_EQ(all.error().message(),
            "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"g\"}, "
            "Extra:map[string][]string{\"b\":[]string{\"x\"}}} without impersonating a user name");
}

TEST(Impersonation, WhenAGroupIsSpecial_TheCallerMustHaveIt_FP078) {
  const auto ask = [](Texts own, const char* group) {
    return parse_impersonation(
               headers_of({{"Impersonate-User", "x"}, {"Impersonate-Group", group}}),
               user_of("a", std::move(own)), "c")
        .has_value();
  };
  EXPECT_TRUE(ask({"system:kcp:admin"}, "system:kcp:admin"));
  EXPECT_FALSE(ask({"system:kcp:admin"}, "system:masters"));
  EXPECT_TRUE(ask({}, "unknown"));
  EXPECT_TRUE(ask({"system:masters"}, "system:kcp:logical-cluster-admin"));
  const auto refused = parse_impersonation(
      headers_of({{"Impersonate-User", "x"}, {"Impersonate-Group", "system:masters"}}),
      user_of("mallory", {"system:authenticated"}), "c");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), "forbidden: impersonation is not allowed for the requestor");
}

}  // namespace
}  // namespace kintsugi::auth
