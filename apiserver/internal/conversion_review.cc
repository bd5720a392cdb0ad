#include "apiserver/internal/conversion_review.h"

#include <utility>

#include "krm/go_text.h"
#include "krm/names.h"

namespace kintsugi::apiserver::internal {
namespace {

using krm::Json;

constexpr std::string_view kGroup = "apiextensions.k8s.io/";

tl::unexpected<Error> refuse(std::string text) { return fail(conversion_failure(std::move(text))); }

std::string gvk(std::string_view api_version, std::string_view kind) {
  return std::string(api_version) + ", Kind=" + std::string(kind);
}

/// The convertedObjects of an answer that says Success.
Expected<Json> accepted_objects(const ConversionRequest& request, const Json& review) {
  const std::string wanted = std::string(kGroup) + request.review_version;
  const bool strict = request.review_version == "v1";
  if (strict &&
      (review.text({"apiVersion"}) != wanted || review.text({"kind"}) != "ConversionReview")) {
    return refuse("expected webhook response of " + gvk(wanted, "ConversionReview") + ", got " +
                  gvk(review.text({"apiVersion"}), review.text({"kind"})));
  }
  const Json* response = review.find("response");
  if (response == nullptr || !response->is_object()) {
    return refuse("no response provided");
  }
  if (strict && response->text({"uid"}) != request.uid) {
    return refuse("expected response.uid=" + krm::go_quote(request.uid) + ", got " +
                  krm::go_quote(response->text({"uid"})));
  }
  if (response->text({"result", "status"}) != "Success") {
    const std::string_view message = response->text({"result", "message"});
    return refuse(message.empty()
                      ? "response.result.status was '" +
                            std::string(response->text({"result", "status"})) + "', not 'Success'"
                      : std::string(message));
  }
  const Json* objects = response->find("convertedObjects");
  return objects == nullptr ? Json::array() : *objects;
}

/// Identity must stay.
std::string difference(const Json& original, const Json& converted) {
  struct Part {
    std::string_view member, name;
  };
  for (const Part& part :
       {Part{"name", "name"}, Part{"namespace", "namespace"}, Part{"uid", "UID"}}) {
    const std::string_view before = original.text({"metadata", part.member});
    const std::string_view after = converted.text({"metadata", part.member});
    if (before != after) {
      return "must have the same " + std::string(part.name) + ": " + std::string(before) +
             " != " + std::string(after);
    }
  }
  return {};
}

std::string_view go_type(const Json& value) {
  if (value.is_string()) {
    return "string";
  }
  if (value.is_bool()) {
    return "bool";
  }
  if (value.is_array()) {
    return "[]interface {}";
  }
  if (value.is_object()) {
    return "map[string]interface {}";
  }
  return value.is_null() ? "<nil>" : value.is_integer() ? "int64" : "float64";
}

/// Labels or annotations of the answer into `metadata`; the text says what is wrong with them.
std::string take_texts(std::string_view member, const Json& converted, Json& metadata) {
  const std::string name(member);
  const Json* given = converted.at({"metadata", member});
  if (given == nullptr || given->is_null()) {
    metadata.erase(member);
    return {};
  }
  if (!given->is_object()) {
    return "invalid metadata." + name + " of type " + std::string(go_type(*given)) +
           " in converted object";
  }
  for (const krm::JsonMember& each : given->members()) {
    if (!each.value.is_string()) {
      return "metadata." + name + "[" + each.key + "] must be a string, but is " +
             std::string(go_type(each.value)) + " in converted object";
    }
  }
  const Json* before = metadata.find(member);
  if (before == nullptr || !(*before == *given)) {
    std::vector<Cause> causes;
    if (member == "labels") {
      krm::validate_labels(*given, "metadata.labels", causes);
    } else {
      krm::validate_annotations(*given, "metadata.annotation", causes);
    }
    if (!causes.empty()) {
      return causes.front().field + ": " + causes.front().message;
    }
  }
  metadata[member] = *given;
  return {};
}

/// Everything in metadata is the original's but labels and annotations.
std::string restore_metadata(const Json& original, Json& converted) {
  const Json* given = converted.find("metadata");
  if (given == nullptr) {
    return "missing metadata in converted object";
  }
  if (!given->is_object()) {
    return "invalid metadata of type " + std::string(go_type(*given)) + " in converted object";
  }
  const Json* before = original.find("metadata");
  Json metadata = before == nullptr ? Json::object() : *before;
  for (std::string_view member : {"labels", "annotations"}) {
    std::string fault = take_texts(member, converted, metadata);
    if (!fault.empty()) {
      return fault;
    }
  }
  converted["metadata"] = std::move(metadata);
  return {};
}

/// "" when the object may stand for the original.
std::string check_object(const ConversionRequest& request, const Json& original, Json& converted) {
  const std::string_view version = converted.text({"apiVersion"});
  if (!converted.is_object() || version != request.desired) {
    return "invalid groupVersion (expected " + request.desired + ", received " +
           std::string(version) + ")";
  }
  if (converted.text({"kind"}) != original.text({"kind"})) {
    return "invalid kind (expected " + std::string(original.text({"kind"})) + ", received " +
           std::string(converted.text({"kind"})) + ")";
  }
  return difference(original, converted);
}

}  // namespace

Error conversion_failure(std::string message) {
  ErrorDetail detail;
  detail.message = std::move(message);
  detail.http_status = 500;
  return Error(Errc::kProtocol, std::move(detail));
}

std::string object_kind(const Json& object) {
  return gvk(object.text({"apiVersion"}), object.text({"kind"}));
}

std::string conversion_subject(const Json& object) {
  return "conversion webhook for " + object_kind(object);
}

Expected<std::string> review_version(const ConversionWebhook& webhook) {
  for (const std::string& version : webhook.review_versions) {
    if (version == "v1" || version == "v1beta1") {
      return version;
    }
  }
  return refuse("no supported conversion review versions");
}

std::string encode_review(const ConversionRequest& request) {
  std::string out = "{\"kind\":\"ConversionReview\",\"apiVersion\":\"";
  out += kGroup;
  out += request.review_version;
  out += "\",\"request\":{\"uid\":";
  krm::append_json_string(out, request.uid);
  out += ",\"desiredAPIVersion\":";
  krm::append_json_string(out, request.desired);
  out += ",\"objects\":[";
  for (std::size_t i = 0; i < request.objects.size(); ++i) {
    if (i != 0) {
      out += ',';
    }
    request.objects[i].dump_to(out);
  }
  out += "]}}";
  return out;
}

std::string failure_message(const ConversionRequest& request, std::string_view body) {
  constexpr std::size_t kLongest = 256;
  const Expected<Json> review = Json::parse(body);
  const Json* response = review ? review->find("response") : nullptr;
  if (response == nullptr || !response->is_object() ||
      (request.review_version == "v1" && response->text({"uid"}) != request.uid) ||
      response->text({"result", "status"}) == "Success") {
    return {};
  }
  std::string out;
  for (const char c : response->text({"result", "message"})) {
    if (out.size() == kLongest) {
      break;
    }
    if (c >= ' ' && c < 0x7f) {
      out += c;
    }
  }
  return out;
}

Expected<std::vector<Json>> decode_review(const ConversionRequest& request, std::string_view body) {
  const std::string subject = conversion_subject(request.objects.front());
  const Expected<Json> review = Json::parse(body);
  if (!review) {
    return refuse(subject + " failed: " + std::string(review.error().message()));
  }
  Expected<Json> objects = accepted_objects(request, *review);
  if (!objects) {
    return refuse(subject + " failed: " + std::string(objects.error().message()));
  }
  if (objects->size() != request.objects.size()) {
    return refuse(subject + " returned " + std::to_string(objects->size()) + " objects, expected " +
                  std::to_string(request.objects.size()));
  }
  std::vector<Json> out;
  out.reserve(objects->size());
  for (std::size_t i = 0; i < request.objects.size(); ++i) {
    Json converted = objects->items()[i];
    const std::string at = " at index " + std::to_string(i) + ": ";
    std::string fault = check_object(request, request.objects[i], converted);
    if (!fault.empty()) {
      return refuse(subject + " returned invalid object" + at + fault);
    }
    fault = restore_metadata(request.objects[i], converted);
    if (!fault.empty()) {
      return refuse(subject + " returned invalid metadata" + at + fault);
    }
    out.push_back(std::move(converted));
  }
  return out;
}

}  // namespace kintsugi::apiserver::internal
