// Scripts of requests to the whole handler of a proxy, over connections, before a shard that keeps
// what arrives (SE-203): nothing that a client sends becomes an identity, the cluster that is asked
// is the one that was resolved, the proxy's own credential asks only what it may, and each request
// gets one answer and leaves nothing behind.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/request_script.h"
#include "krm/request_target.h"
#include "proxy/testing/rig.h"
#include "shards/own_requests.h"

namespace {

using namespace kintsugi;  // NOLINT
using fuzz::Script;
using fuzz::ScriptRequest;
using proxy::testing::Answer;
using proxy::testing::Exchange;
using proxy::testing::FakeShard;
using proxy::testing::Rig;

const fuzz::ScriptWords& words() {
  static const fuzz::ScriptWords all = {
      {"nobody", "alice", "master"},
      {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "LIST",
       "get"},
      {"clusters",
       "root",
       "root:one",
       "c1",
       "c0",
       "root:closed",
       "nowhere",
       "*",
       "api",
       "v1",
       "apis",
       "namespaces",
       "default",
       "configmaps",
       "secrets",
       "shards",
       "alpha",
       "lost",
       "partitions",
       "p",
       "services",
       "apiexport",
       "initializingworkspaces",
       "terminatingworkspaces",
       "replication",
       "watch",
       "proxy",
       "pods",
       "x",
       "exec",
       "log",
       "status",
       "openapi",
       "v3",
       "v2",
       "version",
       "healthz",
       "livez",
       "readyz",
       "metrics",
       "rbac.authorization.k8s.io",
       "clusterrolebindings",
       "authorization.k8s.io",
       "subjectaccessreviews",
       "tokenreviews",
       "authentication.k8s.io",
       "tenancy.kcp.io",
       "v1alpha1",
       "workspaces",
       "topology.kcp.io",
       "partitionsets",
       "apis.kcp.io",
       "apiexportendpointslices",
       "core.kcp.io",
       "logicalclusters",
       "cluster",
       ".well-known",
       ""},
      {"watch=1",
       "watch=0",
       "watch",
       "%77atch=1",
       "a;watch=1",
       "limit=2",
       "limit=-1",
       "continue=x",
       "resourceVersion=5",
       "resourceVersionMatch=Exact",
       "sendInitialEvents=true",
       "dryRun=All",
       "allowWatchBookmarks=true",
       "labelSelector=a%3Db",
       "fieldSelector=metadata.name%3Dx",
       "pretty",
       "timeoutSeconds=1",
       "command=sh",
       "timeout=1s",
       "=",
       "&&",
       "%zz=1"},
      {"", "{}", R"({"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}})", "k8s\0\n",
       R"([{"op":"add","path":"/data","value":{}}])"},
      {{"impersonate-user", "bob"},
       {"impersonate-user", "system:admin"},
       {"impersonate-user", "system:serviceaccount:default:x"},
       {"impersonate-group", "system:masters"},
       {"impersonate-group", "system:kcp:admin"},
       {"impersonate-group", "team"},
       {"impersonate-uid", "7"},
       {"impersonate-extra-authentication.kcp.io%2fscopes", "cluster:root"},
       {"impersonate-extra-authorization.kcp.io%2fwarrant", "{\"user\":\"x\"}"},
       {"x-remote-user", "mallory"},
       {"x-remote-user", "system:admin"},
       {"x-remote-group", "system:masters"},
       {"x-remote-uid", "1"},
       {"x-remote-extra-scopes", "all"},
       {"x_remote_user", "mallory"},
       {"authorization", "Bearer abc"},
       {"authorization", "Basic YTpi"},
       {"cookie", "a=b"},
       {"connection", "x-remote-user, close"},
       {"te", "trailers"},
       {"content-type", "application/json"},
       {"content-type", "application/apply-patch+yaml"},
       {"accept", "application/json;as=Table;g=meta.k8s.io;v=v1"},
       {"accept", "application/vnd.kubernetes.protobuf"},
       {"accept-encoding", "gzip"},
       {"audit-id", "mine"},
       {"via", "1.1 test"},
       {"expect", "100-continue"},
       {"content-length", "7"},
       {"x-forwarded-for", "10.0.0.1"},
       {"x-kintsugi-partial", "true"},
       {"x-kubernetes-cluster", "root"},
       {"sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.YWJj"}}};
  return all;
}

void check(bool holds, const char* what, const Exchange* exchange = nullptr) {
  if (holds) {
    return;
  }
  std::fprintf(stderr, "does not hold: %s\n", what);
  if (exchange != nullptr) {
    std::fprintf(stderr, "%s %s\n", exchange->head.method.c_str(), exchange->head.target.c_str());
    for (std::size_t i = 0; i < exchange->head.headers.size(); ++i) {
      std::fprintf(stderr, "  %.*s: %.*s\n",
                   static_cast<int>(exchange->head.headers[i].name.size()),
                   exchange->head.headers[i].name.data(),
                   static_cast<int>(exchange->head.headers[i].value.size()),
                   exchange->head.headers[i].value.data());
    }
  }
  std::abort();
}

/// As a server would read it: no case, `_` is `-`.
std::string plain_name(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    c = c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

bool is_power(std::string_view group) {
  return group == "system:masters" || group == "system:kcp:admin" ||
         group.starts_with("system:kintsugi:") || group.starts_with("system:cluster:");
}

class Stage {
 public:
  Stage() : rig_(nullptr, [](proxy::ProxyHandlerParams& params) { params.wildcard = true; }) {
    rig_.shard.answer = [](Exchange& exchange) { reply(exchange); };
    rig_.permissions.allow = true;
    rig_.local.body = "{}";
  }

  void play(const Script& script) {
    for (const ScriptRequest& request : script) {
      if (!request.method.empty() && !request.target.empty()) {
        play(request);
      }
    }
  }

 private:
  static void reply(Exchange& exchange) {
    const krm::RequestTarget target = krm::parse_target(exchange.head.method, exchange.head.target);
    if (exchange.head.method == "HEAD") {
      exchange.stream->send_head(200, {}, true);
    } else if (target.is_watch) {
      http::HeaderList headers;
      headers.add("content-type", "application/json");
      exchange.stream->send_head(200, headers, false);
    } else if (exchange.head.target.find("accessreviews") != std::string::npos) {
      FakeShard::reply(exchange, 201,
                       R"({"kind":"SubjectAccessReview","status":{"allowed":true}})");
    } else {
      FakeShard::reply(
          exchange, 200,
          R"({"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[]})");
    }
  }

  /// Connections keep the identity that they began with.
  void be(const std::string& who) {
    if (who == who_ && rig_.client != nullptr) {
      return;
    }
    who_ = who;
    rig_.identity = nullptr;
    if (who == "alice") {
      rig_.log_in();
    } else if (who == "master") {
      rig_.log_in("system:masters");
    }
    net::UpstreamParams params;
    params.url = net::Url{"http", "127.0.0.1", rig_.front->port(), ""};
    params.prior_knowledge = true;
    rig_.client = net::Upstream::make(rig_.loop, params);
  }

  void play(const ScriptRequest& request) {
    std::erase_if(rig_.shard.exchanges, [](const Exchange& old) { return old.stream == nullptr; });
    const std::size_t before = rig_.shard.exchanges.size();
    be(request.who == "alice" || request.who == "master" ? request.who : "nobody");
    http::RequestHead head = Rig::request(request.method, request.target, request.body.empty());
    for (const auto& [name, value] : request.headers) {
      std::string lower = name;
      std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : static_cast<char>(c);
      });
      head.headers.add(lower, value);
    }
    {
      Answer answer;
      rig_.send(answer, head);
      if (!request.body.empty() && answer.stream != nullptr) {
        answer.stream->send_data(request.body, true);
      }
      // A watch has begun when its head is here; what waits for more is given up.
      int turns = 0;
      check(rig_.until([&] {
        return answer.closed || (answer.status != 0 && ++turns > 3) || ++turns > 400;
      }),
            "a request ends");
      check(answer.closed || answer.status != 0 || is_long(request), "a request is answered");
      check(answer.status == 0 || (answer.status >= 100 && answer.status < 600), "a status is one");
      check(answer.status != 500, "no fault of the program");
    }
    check(rig_.until([&] { return rig_.handler->forward_stats().streams == 0; }), "streams end");
    std::size_t index = 0;
    for (const Exchange& exchange : rig_.shard.exchanges) {
      if (index++ >= before) {
        judge(request, exchange);
      }
    }
  }

  /// Whether nobody owes it an answer at once.
  static bool is_long(const ScriptRequest& request) {
    return krm::parse_target(request.method, request.target).is_watch ||
           request.target.find('*') != std::string::npos ||
           request.target.find("%2") != std::string::npos || request.method == "CONNECT";
  }

  void judge(const ScriptRequest& request, const Exchange& exchange) const {
    std::size_t users = 0;
    for (std::size_t i = 0; i < exchange.head.headers.size(); ++i) {
      const std::string name = plain_name(exchange.head.headers[i].name);
      const std::string_view value = exchange.head.headers[i].value;
      if (name == "x-remote-user") {
        ++users;
        check(value == (who_ == "nobody" ? "system:anonymous" : "alice"), "the user is who asked",
              &exchange);
      } else if (name == "x-remote-group") {
        check((who_ == "nobody" && value == "system:unauthenticated") ||
                  (who_ != "nobody" && (value == "team" || value == "system:authenticated" ||
                                        (value == "system:masters" && who_ == "master"))),
              "groups are the caller's", &exchange);
      } else if (name == "x-remote-uid") {
        check(false, "nobody has a uid", &exchange);
      } else if (name.starts_with("x-remote-extra-")) {
        check(value.starts_with("cluster:"), "extras are scopes", &exchange);
      } else if (name == "impersonate-group" || name == "impersonate-user") {
        // Who asks with a credential that only a shard can judge may have the group: it says
        // (KK-324).
        const bool judged_there = who_ == "nobody" && value == "system:kcp:admin" &&
                                  exchange.head.headers.contains("authorization");
        check(who_ == "master" || judged_there || (!is_power(value) && value != "system:admin"),
              "no power by impersonation", &exchange);
      } else if (name.find("warrant") != std::string::npos) {
        check(who_ == "master", "warrants do not pass", &exchange);
      }
    }
    check(users <= 1, "one user", &exchange);
    const bool own = users == 0 && who_ != "nobody";
    if (own) {
      check(shards::is_own_request(shards::OwnRole::kTopology, exchange.head) ||
                shards::is_own_request(shards::OwnRole::kReviewed, exchange.head),
            "own requests are of the table", &exchange);
    }
    const krm::RequestTarget asked = krm::parse_target(request.method, request.target);
    const krm::RequestTarget got =
        krm::parse_target(exchange.head.method, exchange.head.target, {.shard = true});
    if (got.form == krm::TargetForm::kCluster) {
      check(
          got.cluster == "root" || got.cluster == "c1" || got.cluster == "c0" || got.cluster == "*",
          "the cluster is one of the shard's", &exchange);
    }
    if (!own && asked.form == krm::TargetForm::kCluster && asked.fault == krm::TargetFault::kNone &&
        asked.cluster != "*" && got.form == krm::TargetForm::kCluster) {
      const bool one = asked.cluster == "c1" || asked.cluster == "root:one";
      check(got.cluster == (one ? "c1" : asked.cluster) &&
                (one || asked.cluster == "root" || asked.cluster == "c0"),
            "the cluster is the one that was resolved", &exchange);
    }
  }

  Rig rig_;
  std::string who_ = "nobody";
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Stage stage;
  stage.play(fuzz::parse_script({reinterpret_cast<const char*>(data), size}));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  return fuzz::mutate_script(data, size, most, seed, words());
}
