#include "kinds/policies/webhooks/internal/admission_review.h"

#include <algorithm>

#include "base/strings.h"
#include "krm/go_text.h"
#include "net/outgoing.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;

constexpr std::string_view kGroup = "admission.k8s.io/";
constexpr std::string_view kKind = "AdmissionReview";
constexpr std::size_t kMostNotes = 64, kLongestNote = 10U << 10;  // [bytes]
constexpr int kLeastCode = 400, kMostCode = 599;

tl::unexpected<Error> refuse(std::string_view text) {
  return fail(Errc::kProtocol, std::string(text));
}

tl::unexpected<Error> not_understood() { return refuse(net::kNotUnderstood); }

bool is_null(const Json* value) { return value == nullptr || value->is_null(); }

/// Members that are there have the types that the reference's decoder wants.
bool is_typed(const Json& response) {
  const auto fits = [&response](std::string_view member, auto is) {
    const Json* value = response.find(member);
    return is_null(value) || is(*value);
  };
  const auto is_text = [](const Json& value) { return value.is_string(); };
  const auto is_texts = [](const Json& value) {
    return value.is_array() && std::all_of(value.items().begin(), value.items().end(),
                                           [](const Json& each) { return each.is_string(); });
  };
  const auto is_map = [](const Json& value) {
    return value.is_object() &&
           std::all_of(value.members().begin(), value.members().end(),
                       [](const krm::JsonMember& each) { return each.value.is_string(); });
  };
  return fits("uid", is_text) && fits("allowed", [](const Json& v) { return v.is_bool(); }) &&
         fits("status", [](const Json& v) { return v.is_object(); }) && fits("patch", is_text) &&
         fits("patchType", is_text) && fits("warnings", is_texts) &&
         fits("auditAnnotations", is_map);
}

Expected<std::string> patch_of(const Json& response, bool strict, bool mutating) {
  const Json* type = response.find("patchType");
  const std::string_view text = response.text({"patch"});
  const bool typed = !is_null(type);
  if (!mutating) {
    if (strict && !text.empty()) {
      return refuse("validating webhook may not return response.patch");
    }
    if (strict && typed) {
      return refuse("validating webhook may not return response.patchType");
    }
    return std::string();
  }
  if (strict && !text.empty() && !typed) {
    return refuse("webhook returned response.patch but not response.patchType");
  }
  if (strict && text.empty() && typed) {
    return refuse("webhook returned response.patchType but not response.patch");
  }
  if (strict && typed && type->as_string() != "JSONPatch") {
    return refuse("webhook returned invalid response.patchType");
  }
  std::optional<std::string> patch = base64_decode(text);
  if (!patch) {
    return not_understood();
  }
  return std::move(*patch);
}

}  // namespace

std::string encode_admission_review(const AdmissionQuestion& question) {
  Json request = question.request.document(question.resource, question.kind);
  request["uid"] = question.uid;
  std::string out = "{\"kind\":\"AdmissionReview\",\"apiVersion\":\"";
  out.append(kGroup).append(question.review_version).append("\",\"request\":");
  request.dump_to(out);
  out.pop_back();
  const auto add = [&out](std::string_view member, const Json* object) {
    out.append(",\"").append(member).append("\":");
    if (object == nullptr) {
      out += "null";
    } else {
      object->dump_to(out);
    }
  };
  add("object", question.object);
  add("oldObject", question.old_object);
  return out + "}}";
}

Expected<AdmissionAnswer> decode_admission_review(std::string_view review_version,
                                                  std::string_view uid, bool mutating,
                                                  std::string_view body) {
  const Expected<Json> review = Json::parse(body);
  const bool strict = review_version == "v1";
  if (!review || !review->is_object() || (strict && review->text({"kind"}) != kKind)) {
    return not_understood();
  }
  const Json* response = review->find("response");
  if (is_null(response)) {
    return refuse("webhook response was absent");
  }
  if (!response->is_object() || !is_typed(*response)) {
    return not_understood();
  }
  if (strict && response->text({"uid"}) != uid) {
    return refuse("expected response.uid to be that of the request");
  }
  if (strict && review->text({"apiVersion"}) != std::string(kGroup).append(review_version)) {
    return refuse("expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview");
  }
  AdmissionAnswer out;
  if (Expected<std::string> patch = patch_of(*response, strict, mutating); !patch) {
    return fail(std::move(patch.error()));
  } else {
    out.patch = std::move(*patch);
  }
  const Json* allowed = response->find("allowed");
  out.allowed = !is_null(allowed) && allowed->as_bool();
  if (const Json* result = response->find("status"); !is_null(result)) {
    out.result = *result;
  }
  if (const Json* warnings = response->find("warnings"); !is_null(warnings)) {
    for (const Json& warning : warnings->items()) {
      if (out.warnings.size() < kMostNotes) {
        out.warnings.emplace_back(warning.as_string());
      }
    }
  }
  if (const Json* notes = response->find("auditAnnotations"); !is_null(notes)) {
    for (const krm::JsonMember& note : notes->members()) {
      if (out.annotations.size() < kMostNotes) {
        out.annotations.emplace_back(note.key, note.value.as_string().substr(0, kLongestNote));
      }
    }
  }
  return out;
}

Json denial_status(std::string_view webhook, const Json& result) {
  std::string message = "admission webhook " + krm::go_quote(webhook) + " denied the request";
  const std::string_view said = result.text({"message"});
  const std::string_view reason = result.text({"reason"});
  if (!said.empty()) {
    message.append(": ").append(said);
  } else if (!reason.empty()) {
    message.append(": ").append(reason);
  } else {
    message += " without explanation";
  }
  const Json* code = result.find("code");
  const std::int64_t given = code == nullptr ? 0 : code->as_integer();
  Json out = Json::object({{"kind", "Status"},
                           {"apiVersion", "v1"},
                           {"metadata", Json::object()},
                           {"status", "Failure"},
                           {"message", std::move(message)}});
  if (!reason.empty()) {
    out["reason"] = reason;
  }
  if (const Json* details = result.find("details"); details != nullptr && details->is_object()) {
    out["details"] = *details;
  }
  out["code"] = given < kLeastCode ? kLeastCode : std::min<std::int64_t>(given, kMostCode);
  return out;
}

Error denial_error(const Json& status) {
  ErrorDetail detail;
  detail.message = status.text({"message"});
  detail.http_status = static_cast<int>(status.find("code")->as_integer());
  return Error(Errc::kForbidden, std::move(detail));
}

}  // namespace kintsugi::kinds
