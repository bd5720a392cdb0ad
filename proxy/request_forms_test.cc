// Every form of path, with any of its words escaped in any way, gets one answer and ends nothing.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/testing/rig.h"

namespace kintsugi::proxy {
namespace {

using testing::Answer;
using testing::Exchange;
using testing::FakeShard;
using testing::Rig;

constexpr std::size_t kTogether = 100;  // streams of one connection

std::string escaped(char c, bool upper) {
  const char* const digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  return std::string("%") + digits[byte >> 4U] + digits[byte & 15U];
}

/// One byte of the word escaped, each in its turn, all of them, and each escaped twice.
std::vector<std::string> spellings(std::string_view word) {
  std::vector<std::string> out;
  std::array<std::string, 2> whole;
  for (std::size_t i = 0; i < word.size(); ++i) {
    for (const bool upper : {false, true}) {
      std::string one(word);
      one.replace(i, 1, escaped(word[i], upper));
      out.push_back(one);
      whole[upper ? 1 : 0] += escaped(word[i], upper);
    }
    std::string twice(word);
    twice.replace(i, 1, "%25" + escaped(word[i], true).substr(1));
    out.push_back(twice);
  }
  out.insert(out.end(), whole.begin(), whole.end());
  return out;
}

/// The form with each of its words in each spelling.
std::vector<std::string> variants(const std::string& form) {
  std::vector<std::string> out{form};
  for (std::size_t begin = form.find('/'); begin != std::string::npos;) {
    const std::size_t end = form.find_first_of("/?", begin + 1);
    const std::size_t length = (end == std::string::npos ? form.size() : end) - begin - 1;
    for (const std::string& spelling : spellings(form.substr(begin + 1, length))) {
      std::string one = form;
      out.push_back(one.replace(begin + 1, length, spelling));
    }
    begin = end != std::string::npos && form[end] == '/' ? end : std::string::npos;
  }
  return out;
}

const char* const kScopes[] = {"", "/shards/alpha", "/partitions/root/p"};
const char* const kInner[] = {
    "/clusters/*",
    "/clusters/c1",
    "/services/apiexport/c1/e/clusters/*",
    "/services/apiexport/c1/e/clusters/c1",
    "/services/initializingworkspaces/c1:t/clusters/*",
};
const char* const kTrails[] = {
    "/api/v1/watch/namespaces/t/configmaps/a",
    "/apis/g/v1/watch/foo",
    "/apis/g/v1/foo/watch/status",
    "/openapi/v3?watch=1",
};

class RequestForms : public ::testing::Test {
 protected:
  void start(bool plain) {
    rig_ =
        std::make_unique<Rig>(nullptr, [](ProxyHandlerParams& params) { params.wildcard = true; });
    rig_->shard.answer = [](Exchange& exchange) { FakeShard::reply(exchange, 404, "{}"); };
    rig_->partitions["root/p"] = krm::Json::object({{"spec", krm::Json::object()}});
    if (plain) {
      topology::ShardSpec spec = rig_->index.now().shard("alpha")->spec;
      spec.plain = true;
      rig_->index.upsert_shard(spec);
      rig_->publisher.publish(rig_->index.freeze());
    }
  }
  /// All get an answer of their own, and the proxy goes on.
  void ask_all(const std::vector<http::RequestHead>& heads) {
    for (std::size_t begin = 0; begin < heads.size(); begin += kTogether) {
      const std::size_t end = std::min(begin + kTogether, heads.size());
      std::list<Answer> answers;
      for (std::size_t i = begin; i < end; ++i) {
        rig_->send(answers.emplace_back(), heads[i]);
      }
      const auto all_have = [&] {
        return std::all_of(answers.begin(), answers.end(),
                           [](const Answer& one) { return one.status != 0 || one.closed; });
      };
      ASSERT_TRUE(rig_->until(all_have)) << heads[begin].target;
      std::size_t at = begin;
      for (const Answer& one : answers) {
        EXPECT_GE(one.status, 200) << heads[at].method << ' ' << heads[at].target;
        ++at;
      }
    }
    Answer alive;
    rig_->ask(alive, Rig::get("/livez"));
    EXPECT_EQ(alive.status, 200);
  }
  void ask_forms() {
    std::vector<http::RequestHead> heads;
    for (const std::string scope : kScopes) {
      for (const std::string inner : kInner) {
        for (const std::string trail : kTrails) {
          for (const std::string& target : variants(scope + inner + trail)) {
            for (const char* method : {"GET", "DELETE"}) {
              heads.push_back(Rig::request(method, target));
            }
          }
        }
      }
    }
    ask_all(heads);
  }
  std::unique_ptr<Rig> rig_;
};

TEST_F(RequestForms, WhenAnyWordIsEscaped_NobodyEndsTheProxy_SET001) {
  start(false);
  ask_forms();
}

TEST_F(RequestForms, WhenAnyWordIsEscaped_AUserDoesNotEither_SET001) {
  start(false);
  rig_->log_in();
  ask_forms();
}

TEST_F(RequestForms, WhenPlainServersAreMerged_NothingEndsTheProxy_SET001) {
  start(true);
  rig_->log_in();
  ask_forms();
}

TEST_F(RequestForms, WhenAPathIsCutAnywhere_NothingEndsTheProxy_SET001) {
  start(false);
  rig_->log_in();
  std::vector<http::RequestHead> heads;
  for (const std::string scope : kScopes) {
    for (const std::string inner : kInner) {
      for (const std::string tail : {"/apis/g/v1/%77atch/f%6fo?watch=1&a=%", "?/x/watch/"}) {
        const std::string whole = scope + inner + tail;
        for (std::size_t length = 1; length <= whole.size(); ++length) {
          heads.push_back(Rig::get(whole.substr(0, length)));
          heads.push_back(Rig::request("PATCH", whole.substr(0, length)));
        }
      }
    }
  }
  ask_all(heads);
}

TEST_F(RequestForms, WhenAPlainServerHasAProxySubresource_SET005_WhatIsBelowIsPassedAsSent) {
  start(true);
  rig_->log_in();
  for (const std::string rest : {"/a%2Fb", "/..%2F", "//x/./y", "/%zz", "/a%00?q=%2F"}) {
    const std::string path = "/api/v1/namespaces/n/services/x/proxy" + rest;
    Answer answer;
    rig_->ask(answer, Rig::get("/clusters/c1" + path));
    EXPECT_EQ(answer.status, 404) << path << answer.body;
    ASSERT_FALSE(rig_->shard.exchanges.empty()) << path;
    EXPECT_EQ(rig_->shard.exchanges.back().head.target, path);
  }
  const std::size_t before = rig_->shard.exchanges.size();
  for (const char* elsewhere : {"/clusters/c1/api/v1/namespaces/n/services/x/status/..%2F",
                                "/clusters/c1/api/v1/services/%00", "/clusters/c1/proxy/%zz"}) {
    Answer answer;
    rig_->ask(answer, Rig::get(elsewhere));
    EXPECT_EQ(answer.status, 400) << elsewhere;
  }
  EXPECT_EQ(rig_->shard.exchanges.size(), before);
}

TEST_F(RequestForms, WhenASlashIsEscaped_KK371_DecisionsSeeItAndTheShardGetsItAsSent) {
  start(false);
  rig_->log_in();
  const struct {
    const char* target;
    const char* local;      // what the proxy serves itself; "": forwarded
    const char* forwarded;  // "": not
  } cases[] = {
      {"/clusters/root:one/api%2Fv1/secrets?a=%2F", "", "/clusters/c1/api%2Fv1/secrets?a=%2F"},
      {"/%63lusters/root%3Aone/api/v1/configmaps/a%2Fb", "",
       "/clusters/c1/api/v1/configmaps/a%2Fb"},
      {"/clusters/root:one/%61pis%2Ftopology.kcp.io/v1alpha1/partitions",
       "/clusters/c1/apis/topology.kcp.io/v1alpha1/partitions", ""},
      {"/clusters/root:one/apis/topology%2Ekcp.io/v1alpha1/partitions?limit=1",
       "/clusters/c1/apis/topology.kcp.io/v1alpha1/partitions?limit=1", ""},
  };
  for (const auto& one : cases) {
    rig_->local.last.target.clear();
    rig_->shard.exchanges.clear();
    Answer answer;
    rig_->ask(answer, Rig::get(one.target));
    EXPECT_EQ(rig_->local.last.target, one.local) << one.target;
    EXPECT_EQ(rig_->shard.exchanges.empty() ? "" : rig_->shard.exchanges.back().head.target,
              one.forwarded)
        << one.target;
  }
}

}  // namespace
}  // namespace kintsugi::proxy
