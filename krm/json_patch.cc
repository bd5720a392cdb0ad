#include "krm/json_patch.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/strings.h"
#include "krm/go_text.h"
#include "krm/status.h"

namespace kintsugi::krm {
namespace {

constexpr std::string_view kLead = "error decoding patch: ";

std::string go_type(const Json& value) {
  return value.is_bool() ? "bool" : value.is_number() ? "number" : std::string(value.type_name());
}

/// "~1" is '/', "~0" is '~'.
std::string unescape(std::string_view token) {
  std::string out;
  for (std::size_t i = 0; i < token.size(); ++i) {
    if (token[i] == '~' && i + 1 < token.size() && (token[i + 1] == '0' || token[i + 1] == '1')) {
      out.push_back(token[i + 1] == '0' ? '~' : '/');
      ++i;
    } else {
      out.push_back(token[i]);
    }
  }
  return out;
}

/// strconv.Atoi, and the negative counts from `size`; nullopt outside 0..size-1.
std::optional<std::size_t> to_index(std::string_view token, std::size_t size) {
  if (token.size() > 1 && token.front() == '+' && token[1] != '-') {
    token.remove_prefix(1);
  }
  std::int64_t index = 0;
  const auto result = std::from_chars(token.data(), token.data() + token.size(), index);
  if (result.ec != std::errc() || result.ptr != token.data() + token.size()) {
    return std::nullopt;
  }
  const auto count = static_cast<std::int64_t>(size);
  index += index < 0 ? count : 0;
  if (index < 0 || index >= count) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(index);
}

/// Equal in every digit's form: Kubernetes compares the texts, where 3 is not 3.0.
bool same(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) {
    return a.type() == b.type() && a == b;
  }
  if (a.type() != b.type() || a.size() != b.size()) {
    return false;
  }
  if (a.is_array()) {
    return std::equal(a.items().begin(), a.items().end(), b.items().begin(), same);
  }
  if (a.is_object()) {
    return std::equal(a.members().begin(), a.members().end(), b.members().begin(),
                      [](const JsonMember& x, const JsonMember& y) {
                        return x.key == y.key && same(x.value, y.value);
                      });
  }
  return a == b;
}

Json* child(Json& parent, std::string_view token) {
  if (parent.is_object()) {
    return parent.find(token);
  }
  const std::optional<std::size_t> index = to_index(token, parent.size());
  return parent.is_array() && index ? &parent.edit_items()[*index] : nullptr;
}

}  // namespace

/// One application of a patch: the document and the bytes copied so far.
class JsonPatchRun {
 public:
  explicit JsonPatchRun(Json document) : document_(std::move(document)) {}

  bool run(const JsonPatch& patch) {
    for (const JsonPatch::Operation& operation : patch.operations_) {
      if (!step(operation)) {
        return false;
      }
    }
    return true;
  }
  [[nodiscard]] Json take() { return std::move(document_); }
  [[nodiscard]] std::string take_why() { return std::move(why_); }

 private:
  /// Where a path ends: its last token in an existing container; null container: no such place.
  struct Place {
    Json* container = nullptr;
    std::string token;
  };

  bool refuse(std::string_view what, std::string_view path) {
    why_ = std::string(what) + ": " + go_quote(path);
    return false;
  }

  Place locate(std::string_view path) {
    const std::vector<std::string_view> tokens = split(path, '/');
    if (tokens.size() < 2) {
      return {};
    }
    Json* container = &document_;
    for (std::size_t i = 1; i + 1 < tokens.size() && container != nullptr; ++i) {
      container = child(*container, unescape(tokens[i]));
    }
    if (container != nullptr && !container->is_object() && !container->is_array()) {
      container = nullptr;
    }
    return {container, unescape(tokens.back())};
  }

  bool step(const JsonPatch::Operation& operation) {
    const std::string& op = operation.op;
    const bool moves = op == "move" || op == "copy";
    if (op != "add" && op != "remove" && op != "replace" && op != "test" && !moves) {
      return refuse("unexpected kind", op);
    }
    if (!operation.has_path || (moves && !operation.has_from)) {
      return refuse("operation without path or from", op);
    }
    if (op == "add") {
      return add(operation.path, operation.value);
    }
    if (op == "remove") {
      return remove(operation.path);
    }
    if (op == "replace") {
      return replace(operation.path, operation.value);
    }
    return op == "test" ? test(operation.path, operation.value) : transfer(operation);
  }

  bool add(const std::string& path, Json value) {
    if (path.empty()) {
      document_ = std::move(value);
      return true;
    }
    const Place place = locate(path);
    if (place.container == nullptr) {
      return refuse("add operation does not apply: doc is missing path", path);
    }
    if (place.container->is_object()) {
      (*place.container)[place.token] = std::move(value);
      return true;
    }
    Json::Array& items = place.container->edit_items();
    if (place.token == "-") {
      items.push_back(std::move(value));
      return true;
    }
    const std::optional<std::size_t> index = to_index(place.token, items.size() + 1);
    if (!index) {
      return refuse("unable to access invalid index", path);
    }
    items.insert(items.begin() + static_cast<std::ptrdiff_t>(*index), std::move(value));
    return true;
  }

  bool remove(const std::string& path) {
    const Place place = locate(path);
    if (place.container != nullptr && place.container->erase(place.token)) {
      return true;
    }
    if (place.container != nullptr && place.container->is_array()) {
      Json::Array& items = place.container->edit_items();
      if (const std::optional<std::size_t> index = to_index(place.token, items.size())) {
        items.erase(items.begin() + static_cast<std::ptrdiff_t>(*index));
        return true;
      }
    }
    return refuse("unable to remove nonexistent key", path);
  }

  bool replace(const std::string& path, const Json& value) {
    if (path.empty()) {
      document_ = value;
      return true;
    }
    const Place place = locate(path);
    if (place.container != nullptr && place.container->is_object()) {
      return add(path, value);
    }
    Json* target = place.container == nullptr ? nullptr : child(*place.container, place.token);
    if (target == nullptr) {
      return refuse("replace operation does not apply: doc is missing path", path);
    }
    *target = value;
    return true;
  }

  bool test(const std::string& path, const Json& value) {
    const Place place = locate(path);
    if (!path.empty() && place.container == nullptr) {
      return refuse("test operation does not apply: is missing path", path);
    }
    const Json* found = path.empty() ? &document_ : child(*place.container, place.token);
    if (found == nullptr && place.container->is_array()) {
      return refuse("unable to access invalid index", path);
    }
    const bool equal = found == nullptr ? value.is_null() : same(*found, value);
    return equal || refuse("testing value failed", path);
  }

  bool transfer(const JsonPatch::Operation& operation) {
    const Place place = locate(operation.from);
    Json* found = operation.from.empty()       ? &document_
                  : place.container == nullptr ? nullptr
                                               : child(*place.container, place.token);
    const bool absent_member =
        found == nullptr && place.container != nullptr && place.container->is_object();
    if (found == nullptr && !(operation.op == "copy" && absent_member)) {
      return refuse("doc is missing from path", operation.from);
    }
    if (operation.op == "copy") {
      Json value = absent_member ? Json() : *found;
      copied_ += value.dump().size();
      return copied_ <= JsonPatch::kMaxCopyBytes
                 ? add(operation.path, std::move(value))
                 : refuse("copied more than allowed", operation.from);
    }
    if (operation.path == operation.from) {
      return true;
    }
    // Into itself: the target's parent would be gone.
    if (operation.path.starts_with(operation.from + "/")) {
      return refuse("move into its own child", operation.path);
    }
    Json value = std::move(*found);
    return remove(operation.from) && add(operation.path, std::move(value));
  }

  Json document_;
  std::size_t copied_ = 0;
  std::string why_;
};

Expected<JsonPatch> JsonPatch::parse(std::string_view body) {
  Json::ParseReport report;
  Expected<Json> json =
      Json::parse(body, {.max_depth = 10'000, .collect_duplicates = true}, &report);
  if (!json) {
    return fail(std::move(json).error().at(kLead.substr(0, kLead.size() - 2)));
  }
  if (!json->is_array()) {
    // Go leaves the list empty for null.
    if (json->is_null()) {
      return JsonPatch();
    }
    return fail(Errc::kBadRequest, std::string(kLead) + "json: cannot unmarshal " + go_type(*json) +
                                       " into Go value of type []handlers.jsonPatchOp");
  }
  if (json->size() > kMaxOperations) {
    return fail(Errc::kRequestEntityTooLarge,
                "Request entity too large: The allowed maximum operations in a JSON patch is " +
                    std::to_string(kMaxOperations) + ", got " + std::to_string(json->size()));
  }
  JsonPatch patch;
  for (const std::string& path : report.duplicate_fields) {
    patch.strict_errors_.push_back("json patch duplicate field " + go_quote(path));
  }
  std::size_t index = 0;
  for (const Json& item : json->items()) {
    if (!item.is_object() && !item.is_null()) {
      return fail(Errc::kBadRequest, std::string(kLead) + "json: cannot unmarshal " +
                                         go_type(item) +
                                         " into Go value of type handlers.jsonPatchOp");
    }
    Operation operation;
    for (const JsonMember& member : item.members()) {
      const bool is_text = member.key == "op" || member.key == "path" || member.key == "from";
      if (is_text && !member.value.is_string() && !member.value.is_null()) {
        return fail(Errc::kBadRequest,
                    std::string(kLead) + "json: cannot unmarshal " + go_type(member.value) +
                        " into Go struct field jsonPatchOp." + member.key + " of type string");
      }
      if (member.key == "op") {
        operation.op = member.value.as_string();
      } else if (member.key == "path" && member.value.is_string()) {
        operation.has_path = true;
        operation.path = member.value.as_string();
      } else if (member.key == "from" && member.value.is_string()) {
        operation.has_from = true;
        operation.from = member.value.as_string();
      } else if (member.key == "value") {
        operation.value = member.value;
      } else if (member.key != "path" && member.key != "from") {
        patch.strict_errors_.push_back("json patch unknown field " +
                                       go_quote("[" + std::to_string(index) + "]." + member.key));
      }
    }
    patch.operations_.push_back(std::move(operation));
    ++index;
  }
  return patch;
}

Expected<Json> JsonPatch::apply(Json document, std::string* why) const {
  JsonPatchRun run(std::move(document));
  if (!run.run(*this)) {
    if (why != nullptr) {
      *why = run.take_why();
    }
    return fail(invalid_patch());
  }
  return run.take();
}

}  // namespace kintsugi::krm
