// Scripts of requests to a whole shard with a real store, over TLS (SE-203): what was answered is
// what was audited, who may not write leaves no trace, nor does what is refused or a dry run, and
// nobody but administrators changes another's logical cluster.
#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apiserver/keys.h"
#include "base/digest.h"
#include "base/log.h"
#include "controlplane/shard_server.h"
#include "fuzz/request_script.h"
#include "krm/json.h"
#include "krm/request_info.h"
#include "krm/request_target.h"
#include "net/loop.h"
#include "net/tls.h"
#include "net/upstream.h"
#include "net/x509_maker.h"
#include "store/lmdb/lmdb_store.h"

namespace {

using namespace kintsugi;  // NOLINT
using fuzz::Script;
using fuzz::ScriptRequest;
using krm::Json;

/// "{one}" and "{two}" are the logical clusters of two tenants.
const fuzz::ScriptWords& words() {
  static const fuzz::ScriptWords all = {
      {"nobody", "alice", "bob", "master"},
      {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "get"},
      {"clusters",
       "{one}",
       "{two}",
       "root",
       "root:one",
       "root:two",
       "*",
       "api",
       "v1",
       "apis",
       "namespaces",
       "default",
       "configmaps",
       "secrets",
       "keep",
       "mine",
       "events",
       "serviceaccounts",
       "token",
       "status",
       "rbac.authorization.k8s.io",
       "roles",
       "clusterroles",
       "clusterrolebindings",
       "tenancy.kcp.io",
       "v1alpha1",
       "workspaces",
       "core.kcp.io",
       "logicalclusters",
       "cluster",
       "apis.kcp.io",
       "apibindings",
       "apiexports",
       "apiextensions.k8s.io",
       "customresourcedefinitions",
       "services",
       "apiexport",
       "initializingworkspaces",
       "openapi",
       "v3",
       "v2",
       "version",
       "livez",
       "readyz",
       "metrics",
       "debug",
       "watch",
       "authorization.k8s.io",
       "selfsubjectaccessreviews",
       "subjectaccessreviews",
       ""},
      {"watch=1", "watch", "%77atch=1", "a;watch=1", "limit=1", "continue=x", "resourceVersion=1",
       "resourceVersionMatch=NotOlderThan", "sendInitialEvents=true", "dryRun=All", "dryRun=x",
       "fieldManager=f", "force=true", "fieldValidation=Strict", "labelSelector=a%3Db",
       "fieldSelector=metadata.name%3Dkeep", "pretty", "timeoutSeconds=1",
       "propagationPolicy=Orphan"},
      {"", "{}",
       R"({"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"mine"},"data":{"a":"b"}})",
       R"({"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"keep","annotations":{"kcp.io/cluster":"x"}}})",
       R"({"kind":"Secret","apiVersion":"v1","metadata":{"name":"mine"},"stringData":{"a":"b"}})",
       R"({"kind":"Namespace","apiVersion":"v1","metadata":{"name":"more"}})",
       R"({"kind":"ClusterRoleBinding","apiVersion":"rbac.authorization.k8s.io/v1","metadata":{"name":"mine"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"kind":"User","name":"bob","apiGroup":"rbac.authorization.k8s.io"}]})",
       R"({"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{"resourceAttributes":{"verb":"get","resource":"secrets"}}})",
       R"([{"op":"add","path":"/data","value":{"x":"y"}}])", R"({"data":{"x":null}})"},
      {{"content-type", "application/json"},
       {"content-type", "application/yaml"},
       {"content-type", "application/vnd.kubernetes.protobuf"},
       {"content-type", "application/json-patch+json"},
       {"content-type", "application/merge-patch+json"},
       {"content-type", "application/strategic-merge-patch+json"},
       {"content-type", "application/apply-patch+yaml"},
       {"accept", "application/json;as=Table;g=meta.k8s.io;v=v1"},
       {"accept", "application/vnd.kubernetes.protobuf"},
       {"accept-encoding", "gzip"},
       {"impersonate-user", "alice"},
       {"impersonate-user", "system:admin"},
       {"impersonate-group", "system:masters"},
       {"impersonate-extra-authentication.kcp.io%2fscopes", "cluster:{two}"},
       {"x-remote-user", "mallory"},
       {"x-remote-group", "system:masters"},
       {"authorization", "Bearer abc"},
       {"x-kubernetes-cluster", "{two}"},
       {"connection", "close"}}};
  return all;
}

template <class T>
T must(Expected<T> expected) {
  if (!expected) {
    std::fprintf(stderr, "%s\n", expected.error().to_string().c_str());
    std::abort();
  }
  return std::move(*expected);
}

struct Answered final : http::ResponseHandler {
  void on_head(http::ResponseHead head, bool /*end*/) noexcept override { status = head.status; }
  void on_data(std::string_view bytes, bool /*end*/) noexcept override {
    body.append(bytes);
    if (stream != nullptr) {
      stream->consume(bytes.size());
    }
  }
  void on_close(Errc cause) noexcept override {
    closed = true;
    whole = cause == Errc::kOk;
    stream = nullptr;
  }
  ~Answered() override {
    if (stream != nullptr) {
      stream->detach();
    }
  }
  http::RequestStream* stream = nullptr;
  int status = 0;
  std::string body;
  bool closed = false, whole = false;
};

class Stage {
 public:
  Stage() : folder_(make_folder()) {
    set_log_level(LogLevel::kError);
    store::LmdbParams lmdb;
    lmdb.directory = folder_;
    lmdb.no_sync = true;
    lmdb.map_limit = std::uint64_t{1} << 30;
    store_ = must(store::LmdbStore::open(std::move(lmdb)));
    ca_ = must(net::make_ca("clients"));
    serving_ca_ = must(net::make_ca("serving"));
    start_server();
    prepare();
  }
  ~Stage() {
    clients_.clear();
    server_.reset();
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  void play(const Script& script) {
    const bool by_administrator = std::any_of(script.begin(), script.end(),
                                              [](const auto& one) { return one.who == "master"; });
    const std::string before = by_administrator ? "" : digest("", two_);
    for (const ScriptRequest& request : script) {
      if (!request.method.empty() && !request.target.empty()) {
        play(request);
      }
    }
    if (!by_administrator) {
      check(digest("", two_) == before, "another's cluster is as it was");
    }
  }

 private:
  static std::string make_folder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "kintsugi-fuzz-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      std::abort();
    }
    return pattern;
  }

  void check(bool holds, const char* what) const {
    if (!holds) {
      std::fprintf(stderr, "does not hold: %s\n  %s %s %s -> %d\n", what, now_.who.c_str(),
                   now_.method.c_str(), now_.target.c_str(), status_);
      std::abort();
    }
  }

  void start_server() {
    net::CertificateRequest serving;
    serving.common_name = "shard";
    serving.ip_addresses = {"127.0.0.1"};
    serving.server = true;
    const net::KeyPair pair = must(net::issue(serving_ca_, serving));
    net::TlsParams tls;
    tls.certificate_pem = pair.certificate_pem;
    tls.key_pem = pair.key_pem;
    tls.request_client_certificate = true;
    controlplane::ShardServerParams params;
    params.name = "root";
    params.server_tls = must(net::TlsContext::server(tls));
    params.client_tls = client_tls("kcp-admin", "system:masters");
    params.verifier = must(auth::ReloadableCertificateVerifier::make({ca_.certificate_pem, ""}));
    params.account_keys.push_back(must(auth::JwtKey::generate()));
    params.root_ca_pem = serving_ca_.certificate_pem;
    params.audit = [this](std::string line) { audit_.push_back(std::move(line)); };
    params.root = [] { return Expected<net::UpstreamParams>(net::UpstreamParams{}); };
    server_ = must(controlplane::ShardServer::start(loop_, *store_, std::move(params)));
    clients_["master"] = client(client_tls("kcp-admin", "system:masters"));
    clients_["alice"] = client(client_tls("alice", "team"));
    clients_["bob"] = client(client_tls("bob", "team"));
    clients_["nobody"] = client(client_tls("", ""));
  }

  std::shared_ptr<net::TlsContext> client_tls(const std::string& name, const std::string& group) {
    net::TlsParams tls;
    tls.ca_pem = serving_ca_.certificate_pem;
    if (!name.empty()) {
      net::CertificateRequest user;
      user.common_name = name;
      user.organizations = {group};
      user.client = true;
      const net::KeyPair pair = must(net::issue(ca_, user));
      tls.certificate_pem = pair.certificate_pem;
      tls.key_pem = pair.key_pem;
    }
    return must(net::TlsContext::client(tls));
  }
  std::unique_ptr<net::Upstream> client(std::shared_ptr<net::TlsContext> tls) {
    net::UpstreamParams params;
    params.url = net::Url{"https", "127.0.0.1", server_->port(), ""};
    params.tls = std::move(tls);
    return net::Upstream::make(loop_, std::move(params));
  }

  /// Two workspaces, of which alice owns the first.
  void prepare() {
    constexpr const char* kWorkspaces = "/clusters/root/apis/tenancy.kcp.io/v1alpha1/workspaces";
    wait([this] { return ask("GET", "/readyz").status == 200; });
    for (std::string* cluster : {&one_, &two_}) {
      const std::string name = cluster == &one_ ? "one" : "two";
      const std::string object =
          R"({"kind":"Workspace","apiVersion":"tenancy.kcp.io/v1alpha1","metadata":{"name":")" +
          name + R"("},"spec":{"type":{"name":"universal"}}})";
      wait([&] { return ask("POST", kWorkspaces, object).status == 201; });
      wait([&] {
        const auto workspace = Json::parse(ask("GET", std::string(kWorkspaces) + "/" + name).body);
        *cluster = workspace ? std::string(workspace->text({"spec", "cluster"})) : "";
        return workspace && workspace->text({"status", "phase"}) == "Ready";
      });
    }
    const std::string rights =
        R"({"kind":"ClusterRoleBinding","apiVersion":"rbac.authorization.k8s.io/v1","metadata":)"
        R"({"name":"alice"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole",)"
        R"("name":"cluster-admin"},"subjects":[{"kind":"User","name":"alice",)"
        R"("apiGroup":"rbac.authorization.k8s.io"}]})";
    wait([&] {
      return ask("POST",
                 "/clusters/" + one_ + "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
                 rights)
                 .status == 201;
    });
    for (const std::string& cluster : {one_, two_}) {
      const std::string maps = "/clusters/" + cluster + "/api/v1/namespaces/default/configmaps";
      wait([&] {
        return ask("POST", maps,
                   R"({"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"keep"}})")
                   .status == 201;
      });
      wait([&] { return ask("GET", maps + "/kube-root-ca.crt").status == 200; });
    }
    wait([&] {
      Answered answer;
      send("alice", answer, "GET", "/clusters/" + one_ + "/api/v1/configmaps", {}, "");
      run_until([&] { return answer.closed; });
      return answer.status == 200;
    });
    // Controllers have ended what they do for new clusters.
    std::string last;
    int same = 0;
    wait([&] {
      const std::string now = digest("", "");
      same = now == last ? same + 1 : 0;
      last = now;
      return same > 20;
    });
    audit_.clear();
  }

  template <class Done>
  bool run_until(Done&& done, Duration limit = seconds(30)) {
    bool met = false;
    net::Timer pace(loop_), end(loop_);
    std::function<void()> look = [&] {
      met = done();
      if (met) {
        loop_.stop();
      } else {
        pace.start(milliseconds(1), look);
      }
    };
    loop_.post(look);
    end.start(limit, [this] { loop_.stop(); });
    loop_.run();
    return met;
  }
  /// For what comes about by itself, asked again with pauses. `done` runs the loop.
  template <class Done>
  void wait(Done&& done) {
    const TimePoint limit = Clock::now() + seconds(60);
    while (!done()) {
      if (Clock::now() > limit) {
        std::fprintf(stderr, "the shard is not ready for it\n");
        std::abort();
      }
      bool over = false;
      net::Timer pause(loop_);
      pause.start(milliseconds(10), [&over] { over = true; });
      run_until([&over] { return over; });
    }
  }

  void send(const std::string& who, Answered& answer, const std::string& method,
            const std::string& target, const http::HeaderList& headers, const std::string& body) {
    http::RequestHead head;
    head.method = method;
    head.target = target;
    head.headers = headers;
    head.end_stream = body.empty();
    answer.stream = &clients_[who]->open(net::UpstreamClass::kRead, head, answer);
    if (!body.empty()) {
      answer.stream->send_data(body, true);
    }
  }
  struct Reply {
    int status;
    std::string body;
  };
  Reply ask(const std::string& method, const std::string& target, const std::string& body = "") {
    Answered answer;
    http::HeaderList headers;
    headers.add("content-type", "application/json");
    send("master", answer, method, target, headers, body);
    run_until([&] { return answer.closed; });
    return {answer.status, answer.body};
  }

  [[nodiscard]] std::string named(std::string text) const {
    for (const auto& [word, cluster] :
         {std::pair<std::string_view, const std::string&>{"{one}", one_}, {"{two}", two_}}) {
      for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word)) {
        text.replace(at, word.size(), cluster);
      }
    }
    return text;
  }

  /// Of what is stored of these resources ("": all) in the cluster ("": all).
  [[nodiscard]] std::string digest(std::string_view resource, std::string_view cluster) const {
    std::string all;
    const auto visit = [&](const store::EntryView& entry) {
      const auto key = apiserver::parse_key(entry.key);
      // What a controller makes some time after a namespace is no request's trace.
      const bool is_made = !resource.empty() && key && key->name == "kube-root-ca.crt";
      if (!is_made && (cluster.empty() || (key && key->cluster == cluster))) {
        all.append(entry.key).append("=").append(entry.value).append("\n");
      }
      return true;
    };
    const std::string prefix = resource.empty() ? "" : apiserver::resource_prefix(resource);
    (void)store_->range({prefix, "", 0}, visit);
    const auto sum = sha256(all);
    return {reinterpret_cast<const char*>(sum.data()), sum.size()};
  }
  [[nodiscard]] std::string own_objects() const {
    return digest("configmaps", one_) + digest("secrets", one_);
  }

  void play(const ScriptRequest& written) {
    now_ = written;
    now_.target = named(written.target);
    status_ = 0;
    const krm::RequestTarget target = krm::parse_target(now_.method, now_.target, {.shard = true});
    const krm::RequestInfo info = krm::request_info_of(now_.method, now_.target, target);
    if (!clients_.contains(now_.who)) {
      now_.who = "nobody";
    }
    const bool deletes = now_.method == "DELETE" || now_.who == "master";
    if (deletes && info.resource != "configmaps" && info.resource != "secrets" &&
        now_.method != "GET") {
      return;  // what controllers do then is no single request's
    }
    http::HeaderList headers;
    for (const auto& [name, value] : now_.headers) {
      std::string lower = name;
      std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : static_cast<char>(c);
      });
      headers.add(lower, named(value));
    }
    const std::string id = "fuzz-" + std::to_string(++requests_);
    headers.set("audit-id", id);
    const std::string before = own_objects();
    Answered answer;
    send(now_.who, answer, now_.method, now_.target, headers, now_.body);
    int turns = 0;
    run_until(
        [&] {
          ++turns;
          return answer.closed || (answer.status != 0 && turns > 20);
        },
        seconds(10));
    status_ = answer.status;
    check(answer.closed || answer.status != 0, "a request is answered");
    // What Kubernetes' server says of a role of no kind, too.
    check(answer.status != 500 ||
              answer.body.find("unsupported role reference kind") != std::string::npos,
          answer.body.c_str());
    if (!answer.whole || answer.status == 0) {
      return;
    }
    // Options of a delete come from its body, where there is one.
    const krm::Query query(
        std::string_view(now_.target).substr(std::min(target.query + 1, now_.target.size())));
    const bool dry = query.get("dryRun") == "All" && (now_.method != "DELETE" || now_.body.empty());
    const bool writes = now_.method != "GET" && now_.method != "HEAD" && now_.method != "OPTIONS";
    if (answer.status >= 400 || !writes || dry) {
      check(own_objects() == before, "what is refused, read or tried leaves no trace");
    }
    if (now_.who == "nobody" || now_.who == "bob") {
      check(own_objects() == before, "strangers leave no trace");
    }
    check(run_until([&] { return audited(id); }, seconds(5)), "it is audited with its answer");
    audit_.clear();
  }

  /// One line says how it was answered, and all say the same of it.
  [[nodiscard]] bool audited(const std::string& id) const {
    int complete = 0;
    for (const std::string& line : audit_) {
      const auto event = Json::parse(line);
      check(event.has_value(), "a line of audit is JSON");
      if (event->text({"auditID"}) != id) {
        continue;
      }
      const Json* code = event->at({"responseStatus", "code"});
      if (event->text({"stage"}) == "ResponseComplete") {
        ++complete;
        check(code != nullptr && code->as_integer() == status_, "its code is the answer's");
      }
    }
    check(complete <= 1, "one line");
    return complete == 1;
  }

  const std::string folder_;
  net::Loop loop_{"shard"};
  net::KeyPair ca_, serving_ca_;
  std::unique_ptr<store::LmdbStore> store_;
  std::vector<std::string> audit_;
  std::unique_ptr<controlplane::ShardServer> server_;
  std::map<std::string, std::unique_ptr<net::Upstream>> clients_;
  std::string one_, two_;
  std::uint64_t requests_ = 0;
  ScriptRequest now_;
  int status_ = 0;
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
