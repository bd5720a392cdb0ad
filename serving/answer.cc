#include "serving/answer.h"

#include <optional>

#include "krm/not_permitted.h"
#include "krm/protobuf.h"
#include "krm/status.h"
#include "krm/yaml.h"
#include "serving/fair_queues.h"
#include "serving/identity.h"
#include "serving/moving.h"

namespace kintsugi::serving {
namespace {

using krm::Json;

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kYaml = "application/yaml";
constexpr std::string_view kProtobuf = "application/vnd.kubernetes.protobuf";
constexpr int kTooMany = 429;

class Swallow final : public http::RequestHandler {
 public:
  explicit Swallow(http::ResponseStream& stream) : stream_(stream) {}
  void on_data(std::string_view bytes, bool /*end*/) noexcept override {
    stream_.consume(bytes.size());
  }
  void on_close(Errc /*cause*/) noexcept override {}

 private:
  http::ResponseStream& stream_;
};

/// The first of the served media types that the client names; JSON when it names none.
std::string_view negotiate(std::string_view accept) {
  std::size_t best = std::string_view::npos;
  std::string_view type = kJson;
  for (const std::string_view candidate : {kJson, kYaml, kProtobuf}) {
    const std::size_t at = accept.find(candidate);
    if (at < best) {
      best = at;
      type = candidate;
    }
  }
  return type;
}

bool wants_pretty(const AnswerForm& form) {
  return form.pretty || form.user_agent.starts_with("curl") ||
         form.user_agent.starts_with("Wget") || form.user_agent.starts_with("Mozilla");
}

void send(http::ResponseStream& stream, const AnswerForm& form, int status,
          http::HeaderList headers, std::string_view body) {
  headers.add("content-length", std::to_string(body.size()));
  const bool empty = form.head_only || body.empty();
  stream.send_head(status, headers, empty);
  if (!empty) {
    stream.send_data(body, true);
  }
}

std::unique_ptr<http::RequestHandler> answer(const http::RequestHead& head,
                                             http::ResponseStream& stream, int status,
                                             std::string_view type, std::string_view body) {
  http::HeaderList headers;
  headers.add("content-type", type);
  headers.add("cache-control", "no-cache, private");
  headers.add("x-content-type-options", "nosniff");
  send(stream, AnswerForm::of(head), status, std::move(headers), body);
  return swallow(stream);
}

Error with_status(Errc code, int status, std::string message) {
  Error error(code, std::move(message));
  error.edit().http_status = status;
  return error;
}

}  // namespace

AnswerForm AnswerForm::of(const http::RequestHead& head) {
  AnswerForm form;
  form.accept = head.headers.get("accept");
  form.user_agent = head.headers.get("user-agent");
  form.audit_id = head.headers.get("audit-id");
  form.head_only = head.method == "HEAD";
  const std::size_t question = head.target.find('?');
  if (question != std::string::npos && head.target.find("pretty", question) != std::string::npos) {
    const krm::Query query(std::string_view(head.target).substr(question + 1));
    const std::optional<std::string_view> pretty = query.get("pretty");
    form.pretty = pretty && *pretty != "0" && *pretty != "false";
  }
  return form;
}

void send_error(http::ResponseStream& stream, const AnswerForm& form, const Error& error) {
  const Json status = krm::to_status(error);
  const std::string_view type = negotiate(form.accept);
  std::string body;
  if (type == kYaml) {
    body = krm::to_yaml(status);
  } else if (type == kProtobuf) {
    body = krm::encode_protobuf(status).value_or("");
  } else {
    body = wants_pretty(form) ? status.dump_pretty() : status.dump() + "\n";
  }
  http::HeaderList headers;
  headers.add("content-type", type);
  headers.add("x-content-type-options", "nosniff");
  if (!form.audit_id.empty()) {
    headers.add("audit-id", form.audit_id);
  }
  if (error.detail().retry_after_seconds > 0) {
    headers.add("retry-after", std::to_string(error.detail().retry_after_seconds));
  }
  if (tells_of_move(error)) {
    headers.add(kMovingHeader, "1");
  }
  const int code = krm::http_status(error);
  if (code == kTooMany) {
    headers.add("x-kubernetes-pf-prioritylevel-uid", level_name(level_of(stream.peer())));
  }
  send(stream, form, code, std::move(headers), body);
}

std::unique_ptr<http::RequestHandler> answer_error(const http::RequestHead& head,
                                                   http::ResponseStream& stream,
                                                   const Error& error) {
  send_error(stream, AnswerForm::of(head), error);
  return swallow(stream);
}

std::unique_ptr<http::RequestHandler> answer_text(const http::RequestHead& head,
                                                  http::ResponseStream& stream, int status,
                                                  std::string_view text) {
  return answer(head, stream, status, "text/plain; charset=utf-8", text);
}

std::unique_ptr<http::RequestHandler> answer_json(const http::RequestHead& head,
                                                  http::ResponseStream& stream, int status,
                                                  std::string_view json) {
  return answer(head, stream, status, kJson, json);
}

std::unique_ptr<http::RequestHandler> answer_no_route(const http::RequestHead& head,
                                                      http::ResponseStream& stream) {
  return answer_text(head, stream, 404, "404 page not found\n");
}

std::unique_ptr<http::RequestHandler> answer_redirect(const http::RequestHead& head,
                                                      http::ResponseStream& stream,
                                                      std::string_view location) {
  http::HeaderList headers;
  headers.add("content-type", "text/html; charset=utf-8");
  headers.add("location", location);
  const std::string body =
      "<a href=\"" + krm::quoted_path(location) + "\">Temporary Redirect</a>.\n\n";
  send(stream, AnswerForm::of(head), 307, std::move(headers), body);
  return swallow(stream);
}

std::unique_ptr<http::RequestHandler> swallow(http::ResponseStream& stream) {
  return std::make_unique<Swallow>(stream);
}

Error not_permitted(std::string_view method, std::string_view target) {
  return krm::not_permitted(method, krm::shown_path(target));
}

Error not_known_yet() {
  return krm::unavailable("the location of this workspace is not known yet", 1);
}

Error workspace_unavailable() { return krm::unavailable("Not available.", 0); }

Error shard_unreachable(bool watch) {
  Error error(watch ? Errc::kTooManyRequests : Errc::kUnavailable, "the shard is not reachable");
  error.edit().retry_after_seconds = 1;
  return error;
}

Error backend_not_secured() {
  return with_status(Errc::kReset, 502, "the connection to the backend could not be secured");
}

Error backend_lost() {
  return with_status(Errc::kReset, 502,
                     "the backend closed the connection; the request may have been executed");
}

Error body_too_large(std::size_t limit) {
  return Error(Errc::kRequestEntityTooLarge,
               "Request entity too large: limit is " + std::to_string(limit));
}

Error not_sendable() {
  return Error(Errc::kBadRequest, "the request cannot be sent to the backend");
}

Error loop_detected() { return with_status(Errc::kReset, 508, "proxy loop detected"); }

Error malformed_path(std::string_view reason) {
  return Error(Errc::kBadRequest, std::string(reason));
}

Error target_too_long() {
  return with_status(Errc::kBadRequest, 414, "the target of the request is too long");
}

std::unique_ptr<http::RequestHandler> answer_fault(const http::RequestHead& head,
                                                   http::ResponseStream& stream,
                                                   const krm::RequestTarget& target) {
  switch (target.fault) {
    case krm::TargetFault::kUnclean:
      return answer_redirect(head, stream, target.reason);
    case krm::TargetFault::kTooLong:
      return answer_error(head, stream, target_too_long());
    default:
      return answer_error(head, stream, malformed_path(target.reason));
  }
}

}  // namespace kintsugi::serving
