#include "krm/status.h"

#include <array>

#include "base/hex.h"
#include "krm/go_text.h"
#include "krm/go_value.h"

namespace kintsugi::krm {
namespace {

struct Mapping {
  int code;
  std::string_view reason;
  std::string_view message;    ///< when the error has none
  bool details;                ///< details are present even when empty
  int retry_after = 0;         ///< when the error has none
  std::string_view lead = {};  ///< what the message begins with
};

constexpr std::string_view kBusy = "the server is currently unable to handle the request";
constexpr std::string_view kFault = "Internal error occurred: ";
constexpr std::string_view kStoreFault =
    "the operation could not be completed at this time, please try again";
constexpr int kStorePause = 2;

Mapping mapping(Errc code) noexcept {
  switch (code) {
    case Errc::kOk:
      return {200, "", "", false};
    case Errc::kBadRequest:
      return {400, "BadRequest", "the server rejected our request for an unknown reason", false};
    case Errc::kUnauthorized:
      return {401, "Unauthorized", "Unauthorized", false};
    case Errc::kForbidden:
      return {403, "Forbidden", "forbidden", true};
    case Errc::kNotFound:
      return {404, "NotFound", "the server could not find the requested resource", true};
    case Errc::kAlreadyExists:
      return {409, "AlreadyExists", "the server reported a conflict", true};
    case Errc::kConflict:
      return {409, "Conflict", "the server reported a conflict", true};
    case Errc::kInvalid:
      return {422, "Invalid", "the server rejected our request due to an error in our request",
              true};
    case Errc::kMethodNotAllowed:
      return {405, "MethodNotAllowed",
              "the server does not allow this method on the requested resource", true};
    case Errc::kNotAcceptable:
      return {406, "NotAcceptable", "only the following media types are accepted: application/json",
              false};
    case Errc::kUnsupportedMediaType:
      return {415, "UnsupportedMediaType",
              "the body of the request was in an unknown format - accepted media types include: "
              "application/json",
              false};
    case Errc::kRequestEntityTooLarge:
      return {413, "RequestEntityTooLarge", "Request entity too large", false};
    case Errc::kTooManyRequests:
      return {429, "TooManyRequests", "Too many requests, please try again later.", true, 1};
    case Errc::kExpired:
    case Errc::kCompacted:
      return {410, "Expired", "The resourceVersion for the provided list is too old.", false};
    case Errc::kTimeout:
    case Errc::kDeadline:
      return {504,  "Timeout", "request did not complete within the allotted timeout",
              true, 0,         "Timeout: "};
    case Errc::kFutureRevision:
      return {504, "Timeout", "Too large resource version", true, 1, "Timeout: "};
    case Errc::kServerTimeout:
    case Errc::kIo:
    case Errc::kFull:
      return {500, "ServerTimeout", kStoreFault, true};
    case Errc::kInternal:
    case Errc::kCorrupt:
    case Errc::kConfig:
      return {500, "InternalError", "unknown", true, 0, kFault};
    case Errc::kUnavailable:
      return {503, "ServiceUnavailable", kBusy, false};
    case Errc::kCancelled:
    case Errc::kRefused:
    case Errc::kUnreachable:
    case Errc::kTls:
    case Errc::kNotProcessed:
    case Errc::kOverloaded:
      return {503, "ServiceUnavailable", kBusy, false, 1};
    case Errc::kClosed:
    case Errc::kReset:
    case Errc::kProtocol:
      // The request may have been executed: nothing here may invite a repetition.
      return {502, "", "the connection to the shard broke before it answered", false};
  }
  return {500, "InternalError", "unknown", true, 0, kFault};
}

Json cause_json(const Cause& cause) {
  Json out = Json::object();
  if (!cause.reason.empty()) {
    out["reason"] = cause.reason;
  }
  if (!cause.message.empty()) {
    out["message"] = cause.message;
  }
  if (!cause.field.empty()) {
    out["field"] = cause.field;
  }
  return out;
}

std::vector<Cause> causes_of(const Error& error, const std::string& message) {
  std::vector<Cause> causes = error.detail().causes;
  if (causes.empty() && error.code() == Errc::kFutureRevision) {
    causes.push_back({"ResourceVersionTooLarge", "Too large resource version", ""});
  }
  if (causes.empty() && message.starts_with(kFault)) {
    causes.push_back({"", message.substr(kFault.size()), ""});
  }
  return causes;
}

Json details_of(const Error& error, const std::string& message) {
  const ErrorDetail& detail = error.detail();
  Json out = Json::object();
  const auto set = [&out](std::string_view key, const std::string& value) {
    if (!value.empty()) {
      out[key] = value;
    }
  };
  set("name", detail.name);
  set("group", detail.group);
  set("kind", detail.kind);
  set("uid", detail.uid);
  for (const Cause& cause : causes_of(error, message)) {
    out["causes"].push_back(cause_json(cause));
  }
  if (const int seconds = retry_after_seconds(error); seconds > 0) {
    out["retryAfterSeconds"] = seconds;
  }
  return out;
}

std::string qualified(std::string_view name, std::string_view group) {
  std::string out(name);
  if (!group.empty()) {
    out.append(".").append(group);
  }
  return out;
}

Error make(Errc code, std::string_view group, std::string_view kind, std::string_view name,
           std::string message) {
  ErrorDetail detail;
  detail.message = std::move(message);
  detail.group = group;
  detail.kind = kind;
  detail.name = name;
  return Error(code, std::move(detail));
}

std::string quoted_name(std::string_view group, std::string_view resource, std::string_view name) {
  return qualified(resource, group) + " " + go_quote(name);
}

/// A value as field errors print it: %q for strings, else JSON.
/// Texts as %q, everything else as encoding/json writes it.
std::string printed(const Json& value) {
  return value.is_string() ? go_quote(value.as_string()) : go_json_text(value);
}

}  // namespace

int http_status(const Error& error) noexcept {
  const int own = error.detail().http_status;
  return own != 0 ? own : mapping(error.code()).code;
}

int retry_after_seconds(const Error& error) noexcept {
  const int own = error.detail().retry_after_seconds;
  return own != 0 ? own : mapping(error.code()).retry_after;
}

Json to_status(const Error& error) {
  const Mapping map = mapping(error.code());
  std::string message(error.message().empty() ? map.message : error.message());
  // unclassified()
  const bool bare = error.code() == Errc::kInternal && error.detail().http_status != 0;
  if (!bare && !map.lead.empty() && !message.starts_with(map.lead)) {
    message.insert(0, map.lead);
  }
  Json status = Json::object({{"kind", "Status"},
                              {"apiVersion", "v1"},
                              {"metadata", Json::object()},
                              {"status", "Failure"},
                              {"code", http_status(error)}});
  if (!error.detail().continue_token.empty()) {
    status.make({"metadata", "continue"}) = error.detail().continue_token;
  }
  Json details = details_of(error, message);
  // What Kubernetes' router refuses itself ("415: …", "406: …") has them, too.
  if ((map.details && !bare) || details.size() > 0 || message.starts_with("415: ") ||
      message.starts_with("406: ")) {
    status["details"] = std::move(details);
  }
  if (!map.reason.empty() && !bare) {
    status["reason"] = map.reason;
  }
  status["message"] = std::move(message);
  return status;
}

Error not_found(std::string_view group, std::string_view resource, std::string_view name) {
  return make(Errc::kNotFound, group, resource, name,
              quoted_name(group, resource, name) + " not found");
}

Error path_not_found() {
  return Error(Errc::kNotFound, std::string(mapping(Errc::kNotFound).message));
}

Error already_exists(std::string_view group, std::string_view resource, std::string_view name) {
  return make(Errc::kAlreadyExists, group, resource, name,
              quoted_name(group, resource, name) + " already exists");
}

Error conflict(std::string_view group, std::string_view resource, std::string_view name,
               std::string_view reason) {
  std::string message = "Operation cannot be fulfilled on " + quoted_name(group, resource, name);
  message.append(": ").append(reason);
  return make(Errc::kConflict, group, resource, name, std::move(message));
}

Error modified(std::string_view group, std::string_view resource, std::string_view name) {
  return conflict(group, resource, name,
                  "the object has been modified; please apply your changes to the latest version "
                  "and try again");
}

Error invalid(std::string_view group, std::string_view kind, std::string_view name,
              std::vector<Cause> causes) {
  std::string message = quoted_name(group, kind, name) + " is invalid";
  std::vector<std::string> texts;
  for (const Cause& cause : causes) {
    std::string text = (cause.field.empty() ? "<nil>" : cause.field) + ": " + cause.message;
    bool known = false;
    for (const std::string& earlier : texts) {
      known = known || earlier == text;
    }
    if (!known) {
      texts.push_back(std::move(text));
    }
  }
  if (texts.size() == 1) {
    message.append(": ").append(texts.front());
  } else if (!texts.empty()) {
    message.append(": [");
    for (std::size_t i = 0; i < texts.size(); ++i) {
      message.append(i == 0 ? "" : ", ").append(texts[i]);
    }
    message.append("]");
  }
  Error error = make(Errc::kInvalid, group, kind, name, std::move(message));
  error.edit().causes = std::move(causes);
  return error;
}

Error forbidden(std::string_view group, std::string_view resource, std::string_view name,
                std::string_view reason) {
  std::string message;
  if (!resource.empty()) {
    message = name.empty() ? qualified(resource, group) : quoted_name(group, resource, name);
    message.append(" is ");
  }
  message.append("forbidden: ").append(reason);
  return make(Errc::kForbidden, group, resource, name, std::move(message));
}

Error bad_request(std::string message) { return Error(Errc::kBadRequest, std::move(message)); }

Error method_not_allowed() {
  return Error(Errc::kMethodNotAllowed, std::string(mapping(Errc::kMethodNotAllowed).message));
}

Error wildcard_not_allowed(std::string_view verb, std::string_view qualified_resource) {
  std::string message(verb);
  message.append(" is not supported on resources of kind ")
      .append(go_quote(qualified_resource))
      .append(" in the `*` logical cluster");
  const std::size_t dot = qualified_resource.find('.');
  const std::string_view group =
      dot == std::string_view::npos ? std::string_view() : qualified_resource.substr(dot + 1);
  return make(Errc::kMethodNotAllowed, group, qualified_resource.substr(0, dot), "",
              std::move(message));
}

Error unauthorized() { return Error(Errc::kUnauthorized, "Unauthorized"); }

Error internal(std::string_view cause) {
  Error error(Errc::kInternal, std::string(kFault).append(cause));
  error.edit().causes.push_back({"", std::string(cause), ""});
  return error;
}

Error unclassified(std::string message) {
  Error error(Errc::kInternal, std::move(message));
  error.edit().http_status = 500;
  return error;
}

Error unavailable(std::string message, int retry_after_seconds) {
  Error error(Errc::kUnavailable, std::move(message));
  error.edit().retry_after_seconds = retry_after_seconds;
  return error;
}

Error decode_error(std::string_view kind, std::string_view version, std::string_view cause) {
  std::string message(kind);
  message.append(" in version ")
      .append(go_quote(version))
      .append(" cannot be handled as a ")
      .append(kind)
      .append(": ")
      .append(cause);
  return bad_request(std::move(message));
}

Error unrecognized_error(std::string_view kind, std::string_view cause, std::string_view body) {
  constexpr std::size_t kShown = 64;
  std::string message = "the object provided is unrecognized (must be of type ";
  message.append(kind).append("): ").append(cause).append(" (");
  if (body.empty()) {
    message.append("<empty>");
  } else {
    const bool text = body.find_first_of("{\"") != std::string_view::npos;
    const std::size_t limit = text ? kShown * 4 : kShown;
    for (const char c : body.substr(0, limit)) {
      if (text) {
        message.push_back(c);
      } else {
        append_hex(message, static_cast<unsigned char>(c));
      }
    }
    message.append(body.size() > limit ? " ..." : "");
  }
  message.append(")");
  return bad_request(std::move(message));
}

Error invalid_patch() { return Error(Errc::kInvalid); }

Error store_fault(std::string_view operation, std::string_view group, std::string_view resource) {
  Error error =
      make(Errc::kServerTimeout, group, resource, {},
           "The " + std::string(operation) + " operation against " + qualified(resource, group) +
               " could not be completed at this time, please try again.");
  error.edit().retry_after_seconds = kStorePause;
  return error;
}

Cause field_required(std::string field, std::string_view detail) {
  std::string message = "Required value";
  if (!detail.empty()) {
    message.append(": ").append(detail);
  }
  return {"FieldValueRequired", std::move(message), std::move(field)};
}

Cause field_invalid(std::string field, const Json& value, std::string_view detail) {
  std::string message = "Invalid value: " + printed(value);
  if (!detail.empty()) {
    message.append(": ").append(detail);
  }
  return {"FieldValueInvalid", std::move(message), std::move(field)};
}

Cause field_not_supported(std::string field, const Json& value,
                          const std::vector<std::string>& supported) {
  std::string message = "Unsupported value: " + printed(value);
  for (std::size_t i = 0; i < supported.size(); ++i) {
    message.append(i == 0 ? ": supported values: " : ", ").append(go_quote(supported[i]));
  }
  return {"FieldValueNotSupported", std::move(message), std::move(field)};
}

Cause field_duplicate(std::string field, const Json& value) {
  return {"FieldValueDuplicate", "Duplicate value: " + printed(value), std::move(field)};
}

Cause field_forbidden(std::string field, std::string_view detail) {
  return {"FieldValueForbidden", std::string("Forbidden: ").append(detail), std::move(field)};
}

Cause field_too_long(std::string field, std::size_t limit) {
  return {
      "FieldValueTooLong",
      "Too long: may not be more than " + std::to_string(limit) + (limit == 1 ? " byte" : " bytes"),
      std::move(field)};
}

Cause field_too_many(std::string field, std::size_t actual, std::size_t limit) {
  return {"FieldValueTooMany",
          "Too many: " + std::to_string(actual) + ": must have at most " + std::to_string(limit) +
              (limit == 1 ? " item" : " items"),
          std::move(field)};
}

Cause field_type_invalid(std::string field, std::string_view expected, const Json& value) {
  const std::string type = "\"" + std::string(value.type_name()) + "\"";
  std::string message = "Invalid value: " + type + ": " + field + " in body must be of type ";
  message.append(expected).append(": ").append(type);
  return {"FieldValueTypeInvalid", std::move(message), std::move(field)};
}

}  // namespace kintsugi::krm
