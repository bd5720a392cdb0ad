#include "aggregation/documents/merged_document.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "aggregation/asking/shard_answer.h"
#include "aggregation/documents/internal/document_build.h"
#include "krm/status.h"
#include "net/upstream.h"
#include "serving/answer.h"
#include "serving/captured_answer.h"

namespace kintsugi::aggregation {
namespace {

using Kind = DocumentRequest::Kind;

constexpr const char* kJson = "application/json";

class MergedDocument final : public http::RequestHandler {
 public:
  /// @param on_empty  runs before the answer that nothing is served of what was named
  MergedDocument(DocumentLoop& shared, http::RequestHead head, http::ResponseStream& stream,
                 DocumentRoute route, std::function<void()> on_empty = {})
      : shared_(shared),
        on_empty_(std::move(on_empty)),
        down_(stream),
        form_(serving::AnswerForm::of(head)),
        head_(std::move(head)),
        route_(std::move(route)),
        request_(route_.request),
        parts_(route_.sources.size()),
        local_(stream.peer(), [this] { settle(); }),
        timer_(shared.loop) {
    if_none_match_ = head_.headers.get("if-none-match");
    for (const std::string_view name : {"if-none-match", "content-length", "x-kintsugi-partial"}) {
      head_.headers.remove(name);
    }
    head_.method = "GET";
    head_.end_stream = true;
  }

  void start() {
    ask_as(head_, request_.accept);
    if (!route_.local_target.empty()) {
      http::RequestHead own = head_;
      own.target = route_.local_target;
      local_handler_ = shared_.local.on_request(std::move(own), local_);
    }
    go_on();
  }

  void on_data(std::string_view bytes, bool /*end*/) noexcept override {
    down_.consume(bytes.size());
  }
  void on_close(Errc cause) noexcept override {
    done_ = true;
    timer_.cancel();
    for (Part& part : parts_) {
      part.call.reset();
    }
    exported_.call.reset();
    if (local_handler_ != nullptr) {
      local_handler_->on_close(cause);
    }
    for (const auto& version : versions_) {
      if (version->handler != nullptr) {
        version->handler->on_close(cause);
      }
    }
  }

 private:
  enum class State : std::uint8_t { kNew, kAsked, kGood, kAbsent, kRefused, kDown };
  struct Part {
    State state = State::kNew;
    KnownDocumentPtr known;
    net::FetchResponse answer;  // of kAbsent and kRefused
    std::unique_ptr<net::Call> call;
  };

  /// A version of a list of groups: whether one of its resources is served is in its own document.
  struct Version {
    Version(const http::PeerInfo& peer, std::function<void()> on_end)
        : answer(peer, std::move(on_end)) {}
    std::string name;  // "g/v"
    bool empty = false;
    serving::CapturedAnswer answer;
    std::unique_ptr<MergedDocument> handler;
  };

  /// Callbacks of calls end here; what follows runs outside of them.
  void settle() {
    if (!done_) {
      timer_.start(Duration(0), [this] { go_on(); });
    }
  }

  void go_on() {
    if (done_) {
      return;
    }
    if (!versions_.empty()) {
      go_on_with_versions();
      return;
    }
    // Of a document the first slot that has it is heard; all are for the rest.
    const bool in_turn = request_.kind == Kind::kOpenApiDocument;
    std::size_t running = 0;
    bool found = false, let_in = false;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      Part& part = parts_[i];
      if (part.state == State::kNew && running < (in_turn ? 1 : shared_.at_once)) {
        ask(part, route_.sources[i]);
      }
      if (part.state == State::kNew || part.state == State::kAsked) {
        ++running;
      }
      found = found || part.state == State::kGood || is_stale(part);
      let_in = let_in || part.state == State::kGood || part.state == State::kAbsent;
      if (in_turn && found && let_in) {
        break;
      }
    }
    if (route_.exported && exported_.state == State::kNew && is_discovery()) {
      ask(exported_, *route_.exported);
    }
    running += exported_.state == State::kAsked ? 1 : 0;
    const bool local_ended = local_handler_ == nullptr || local_.ended();
    if (running == 0 && local_ended) {
      done_ = true;
      finish();
    }
  }

  static bool is_stale(const Part& part) {
    return part.state == State::kDown && part.known != nullptr;
  }

  [[nodiscard]] std::string key_of(const DocumentRoute::Source& source) const {
    return source.uid + (route_.virtual_url ? "\nv" : "\nb") + source.target + '\n' +
           request_.accept;
  }

  [[nodiscard]] shards::ShardClient* client_of(const DocumentRoute::Source& source) const {
    topology::ShardPool* pool = route_.reviewed ? shared_.own_pool : &shared_.pool;
    if (pool == nullptr) {
      return nullptr;
    }
    return route_.virtual_url ? pool->find_virtual(source.shard) : pool->find(source.shard);
  }

  void ask(Part& part, const DocumentRoute::Source& source) {
    part.known = shared_.cache->find(key_of(source));
    shards::ShardClient* client = client_of(source);
    if (client == nullptr || client->upstream() == nullptr || !client->admit()) {
      part.state = State::kDown;
      return;
    }
    part.state = State::kAsked;
    net::FetchRequest request;
    request.target = source.target;
    request.headers = head_.headers;
    client->dress(request.headers);
    request.timeout = shared_.timeout;
    if (part.known != nullptr && !part.known->etag.empty()) {
      request.headers.add("if-none-match", '"' + part.known->etag + '"');
    }
    part.call = net::fetch(shared_.loop, *client->upstream(), std::move(request),
                           [this, &part, &source](Expected<net::FetchResponse> answer) {
                             take(part, source, std::move(answer));
                             settle();
                           });
  }

  void take(Part& part, const DocumentRoute::Source& source, Expected<net::FetchResponse> answer) {
    part.state = State::kDown;
    if (!answer) {
      return;
    }
    warnings_.add_from(answer->headers);
    const std::string key = key_of(source);
    std::string_view type = answer->headers.get("content-type");
    if (type.starts_with("text/plain") && answer->body.starts_with('{')) {
      type = "application/json";  // so kube-apiserver answers /openapi/v3
    }
    if (answer->status == 304 && part.known != nullptr) {
      part.state = State::kGood;
    } else if (answer->status == 200 && is_document(type)) {
      part.state = State::kGood;
      const KnownDocumentPtr before = part.known;
      part.known =
          shared_.cache->put(key, unquoted_tag(answer->headers.get("etag")), type, answer->body);
      if (request_.path.starts_with("/api") &&
          (before == nullptr || before->digest != part.known->digest)) {
        shared_.cache->note_change();
      }
    } else if (answer->status == 404) {
      part.state = State::kAbsent;
      part.answer = std::move(*answer);
      shared_.cache->forget(key);
    } else if ((answer->status >= 400 && answer->status < 500 && answer->status != 429) ||
               answer->status == 508) {
      part.state = State::kRefused;
      part.answer = std::move(*answer);
    }
  }

  /// HTML is a shard that is down (AGG-1001).
  [[nodiscard]] bool is_document(std::string_view type) const {
    return type.starts_with("application/json") ||
           (request_.type.empty() && type.starts_with("application/com.github"));
  }

  [[nodiscard]] const Part* first_with(State state) const {
    const auto found = std::find_if(parts_.begin(), parts_.end(),
                                    [state](const Part& part) { return part.state == state; });
    return found == parts_.end() ? nullptr : &*found;
  }

  void finish() {
    const bool own = local_.status() == 200;
    const Part* refused = first_with(State::kRefused);
    const bool let_in =
        own || first_with(State::kGood) != nullptr || first_with(State::kAbsent) != nullptr;
    const auto counts = [](int status) { return status == 401 || status == 403 || status == 508; };
    if (refused != nullptr && (!let_in || counts(refused->answer.status))) {
      pass(refused->answer);
      return;
    }
    DocumentParts parts = collect(let_in);
    if (request_.aggregated && falls_back(parts)) {
      return;
    }
    if (parts.shards.empty() && parts.exported == nullptr && !own) {
      const Part* absent = first_with(State::kAbsent);
      if (absent != nullptr) {
        pass(absent->answer);
      } else {
        serving::send_error(down_, form_, serving::shard_unreachable(false));
      }
      return;
    }
    if (lists_versions() && begin_versions(parts)) {
      return;
    }
    answer(parts);
  }

  [[nodiscard]] bool is_discovery() const {
    return request_.kind == Kind::kGroups || request_.kind == Kind::kDiscovery;
  }

  /// "/apis" or "/apis/<group>" in the form that does not say what resources there are.
  [[nodiscard]] bool lists_versions() const {
    constexpr std::string_view kApis = "/apis";
    return is_discovery() && !request_.aggregated && !route_.verbs.empty() &&
           request_.path.starts_with(kApis) &&
           std::count(request_.path.begin(), request_.path.end(), '/') <= 2;
  }

  /// Asks for the document of each version. @returns false: there is none
  bool begin_versions(const DocumentParts& parts) {
    std::set<std::string> names;
    const auto add = [&names](const KnownDocumentPtr& document) {
      const auto json = document == nullptr ? Expected<krm::Json>(krm::Json())
                                            : krm::Json::parse(document->bytes.view());
      for (std::string& name : json ? group_versions(*json) : std::vector<std::string>()) {
        names.insert(std::move(name));
      }
    };
    for (const DocumentParts::Part& part : parts.shards) {
      add(part.document);
    }
    add(parts.exported);
    add(parts.local);
    for (const std::string& name : names) {
      versions_.push_back(std::make_unique<Version>(down_.peer(), [this] { settle(); }));
      versions_.back()->name = name;
    }
    listed_ = parts;
    done_ = names.empty();
    settle();
    return !names.empty();
  }

  void go_on_with_versions() {
    std::size_t running = 0;
    for (const auto& version : versions_) {
      if (version->handler == nullptr && running < shared_.at_once) {
        ask_for(*version);
      }
      running += version->handler == nullptr || !version->answer.ended() ? 1 : 0;
    }
    if (running > 0) {
      return;
    }
    done_ = true;
    for (const auto& version : versions_) {
      if (version->empty) {
        listed_.empty_versions.push_back(version->name);
      }
    }
    answer(listed_);
  }

  void ask_for(Version& version) {
    const std::string path = "/apis/" + version.name;
    const auto below = [this, &path](std::string target) {
      return target.replace(target.size() - request_.path.size(), std::string::npos, path);
    };
    DocumentRoute route = route_;
    route.request = read_document_request(path, kJson);
    for (DocumentRoute::Source& source : route.sources) {
      source.target = below(source.target);
    }
    if (route.exported) {
      route.exported->target = below(route.exported->target);
    }
    if (!route.local_target.empty()) {
      route.local_target = below(route.local_target);
    }
    version.handler = std::make_unique<MergedDocument>(
        shared_, head_, version.answer, std::move(route), [&version] { version.empty = true; });
    version.handler->start();
  }

  /// What the answer is made of.
  DocumentParts collect(bool let_in) {
    DocumentParts parts;
    for (const Part& part : parts_) {
      const bool stale = let_in && is_stale(part);
      if (part.state == State::kGood || stale) {
        parts.shards.push_back({part.known, stale});
        shared_.stats.stale += stale ? 1 : 0;
      }
    }
    if (request_.kind == Kind::kOpenApiDocument && parts.shards.size() > 1) {
      parts.shards.resize(1);
    }
    if (local_.status() == 200) {
      parts.local = std::make_shared<const KnownDocument>(
          KnownDocument{std::string(unquoted_tag(local_.headers().get("etag"))),
                        std::string(local_.headers().get("content-type")),
                        content_digest(local_.body()), SharedBytes(local_.body())});
    }
    if (let_in && (exported_.state == State::kGood || is_stale(exported_))) {
      parts.exported = exported_.known;
      parts.is_exported = route_.is_exported;
    }
    parts.join = shared_.join;
    parts.verbs = route_.verbs;
    parts.root = route_.root;
    return parts;
  }

  /// A shard without aggregated discovery: what all can say is asked for instead (AGG-1401).
  bool falls_back(const DocumentParts& parts) {
    const auto plain = [](const KnownDocument& document) {
      return document.type.find("APIGroupDiscoveryList") == std::string::npos;
    };
    const bool odd = std::any_of(parts.shards.begin(), parts.shards.end(),
                                 [&](const auto& part) { return plain(*part.document); }) ||
                     (parts.exported != nullptr && plain(*parts.exported)) ||
                     (parts.local != nullptr && plain(*parts.local));
    if (!odd) {
      return false;
    }
    if (request_.plain_type.empty()) {
      serving::send_error(down_, form_, not_acceptable());
      return true;
    }
    request_.aggregated = false;
    request_.type = request_.plain_type;
    request_.accept = kJson;
    for (Part& part : parts_) {
      part = Part();
    }
    exported_ = Part();
    done_ = false;
    if (local_handler_ != nullptr) {
      local_.reset_answer();
    }
    start();
    return true;
  }

  static Error not_acceptable() {
    return Error(Errc::kNotAcceptable,
                 "only the following media types are accepted: application/json");
  }

  void answer(const DocumentParts& parts) {
    const std::string key = built_key(request_, parts);
    KnownDocumentPtr document = shared_.cache->find(key);
    if (document == nullptr) {
      std::optional<BuiltDocument> built = build_document(request_, parts);
      if (!built) {
        serving::send_error(down_, form_, serving::shard_unreachable(false));
        return;
      }
      ++shared_.stats.built;
      shared_.stats.differences += built->differences;
      document = shared_.cache->put(key, built->etag, built->type, built->body);
    }
    ++shared_.stats.answered;
    if (document->type.empty()) {
      nothing_served();
      return;
    }
    send(*document);
  }

  void nothing_served() {
    if (on_empty_) {
      on_empty_();
    }
    serving::send_error(down_, form_, krm::path_not_found());
  }

  void send(const KnownDocument& document) {
    const std::string& tag = document.etag;
    const bool asks_hash = request_.kind == Kind::kOpenApiDocument && request_.hash;
    http::HeaderList headers;
    headers.add("audit-id", head_.headers.get("audit-id"));
    warnings_.add_to(headers);
    if (asks_hash && *request_.hash != tag) {
      headers.add("cache-control", "no-cache, private");
      headers.add("location", route_.root + request_.path + "?hash=" + tag);
      headers.add("content-length", "0");
      down_.send_head(301, headers, true);
      return;
    }
    headers.add("cache-control", asks_hash             ? "public, immutable"
                                 : request_.aggregated ? "public"
                                                       : "no-cache, private");
    if (!tag.empty()) {
      headers.add("etag", '"' + tag + '"');
      headers.add("vary", "Accept");
      if (names_tag(if_none_match_, tag)) {
        down_.send_head(304, headers, true);
        return;
      }
    }
    headers.add("content-type", document.type);
    headers.add("content-length", std::to_string(document.bytes.size()));
    down_.send_head(200, headers, document.bytes.empty());
    if (!document.bytes.empty()) {
      down_.send_data(document.bytes, true);
    }
  }

  void pass(const net::FetchResponse& answer) {
    http::HeaderList headers;
    for (const std::string_view name :
         {"content-type", "cache-control", "retry-after", "x-content-type-options"}) {
      if (const std::string_view value = answer.headers.get(name); value.data() != nullptr) {
        headers.add(name, value);
      }
    }
    headers.add("audit-id", head_.headers.get("audit-id"));
    headers.add("content-length", std::to_string(answer.body.size()));
    down_.send_head(answer.status, headers, answer.body.empty());
    if (!answer.body.empty()) {
      down_.send_data(answer.body, true);
    }
  }

  DocumentLoop& shared_;
  std::function<void()> on_empty_;
  http::ResponseStream& down_;
  serving::AnswerForm form_;
  http::RequestHead head_;
  DocumentRoute route_;
  DocumentRequest request_;
  std::vector<Part> parts_;
  Part exported_;
  DocumentParts listed_;  // while its versions are asked for
  std::vector<std::unique_ptr<Version>> versions_;
  serving::CapturedAnswer local_;
  std::unique_ptr<http::RequestHandler> local_handler_;
  net::Timer timer_;
  std::string if_none_match_;
  Warnings warnings_;
  bool done_ = false;
};

}  // namespace

std::unique_ptr<http::RequestHandler> answer_document(DocumentLoop& shared, http::RequestHead head,
                                                      http::ResponseStream& stream,
                                                      DocumentRoute route) {
  if (!route.request.acceptable) {
    return serving::answer_error(
        head, stream,
        Error(Errc::kNotAcceptable,
              "only the following media types are accepted: application/json"));
  }
  auto handler =
      std::make_unique<MergedDocument>(shared, std::move(head), stream, std::move(route));
  handler->start();
  return handler;
}

}  // namespace kintsugi::aggregation
