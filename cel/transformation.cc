#include "cel/transformation.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "cel/internal/checker.h"
#include "cel/internal/evaluator.h"
#include "cel/internal/program.h"
#include "cel/internal/schema_type.h"
#include "cel/rules.h"

namespace kintsugi::cel {

class Transformation {
 public:
  krm::SchemaPtr schema;
  DeclarationPtr self;  // types of the tree point into it
  ExprPtr root;
  std::size_t slots = 1;
};

namespace {

constexpr std::size_t kBytesOfPart = 64;  // as Value::parts() counts text
constexpr std::uint64_t kMostParts = static_cast<std::uint64_t>(kMaxRequest) / kBytesOfPart;

/// nullopt: JSON has no such value.
std::optional<krm::Json> json_of(const Value& value) {
  if (value.json() != nullptr) {
    return *value.json();
  }
  switch (value.kind()) {
    case Kind::kNull:
      return krm::Json();
    case Kind::kBool:
      return krm::Json(value.is_true());
    case Kind::kInt:
      return krm::Json(value.integer());
    case Kind::kUint:
      if (value.integer() < 0) {
        return std::nullopt;
      }
      return krm::Json(value.integer());
    case Kind::kDouble:
      if (!std::isfinite(value.real())) {
        return std::nullopt;
      }
      return krm::Json(value.real());
    case Kind::kString:
      return krm::Json(value.text());
    case Kind::kBytes:
      return krm::Json(base64_encode(value.text()));
    case Kind::kList: {
      krm::Json out = krm::Json::array();
      for (const Value& item : value.items()) {
        std::optional<krm::Json> made = json_of(item);
        if (!made) {
          return std::nullopt;
        }
        out.push_back(std::move(*made));
      }
      return out;
    }
    case Kind::kMap: {
      krm::Json out = krm::Json::object();
      for (const Value& key : value.keys()) {
        Value member;
        std::optional<krm::Json> made;
        if (key.is(Kind::kString) && value.find(key, member)) {
          made = json_of(member);
        }
        if (!made) {
          return std::nullopt;
        }
        out[key.text()] = std::move(*made);
      }
      return out;
    }
    default:
      return std::nullopt;
  }
}

Error failed(std::string_view text) {
  return Error(Errc::kInvalid, "error executing transformation: " + std::string(text));
}

}  // namespace

TransformationPtr compile_transformation(std::string_view source, const krm::SchemaPtr& self,
                                         std::string& fault) {
  auto out = std::make_shared<Transformation>();
  out->schema = self;
  out->self = self == nullptr ? nullptr : declare(*self, false);
  if (out->self == nullptr) {
    fault = "error creating CEL environment: the field has no type";
    return nullptr;
  }
  std::vector<SourceError> errors;
  out->root = parse(source, errors);
  Checked checked;
  if (out->root != nullptr) {
    checked = check(*out->root, {{"self", out->self->type}}, errors);
    if (errors.empty()) {
      check_literals(*out->root, errors);
    }
  }
  if (out->root == nullptr || !errors.empty()) {
    fault = "error compiling CEL program: " + format_errors(source, std::move(errors));
    return nullptr;
  }
  Value broken;
  if (const Value* constant = broken_constant(*out->root, broken)) {
    fault = "error creating CEL program: " + std::string(constant->text());
    return nullptr;
  }
  out->slots = std::max<std::size_t>(checked.slots, 1);
  return out;
}

Expected<krm::Json> evaluate_transformation(const Transformation& transformation,
                                            const krm::Json& value, std::uint64_t& spent) {
  std::vector<Value> slots(transformation.slots);
  slots[0] = Value::from_json(value, *transformation.schema);
  if (slots[0].is_error()) {
    return fail(failed(slots[0].text()));
  }
  const Evaluation made = evaluate(*transformation.root, std::move(slots), kCallLimit);
  spent += made.charge;
  if (made.value.is_error()) {
    return fail(failed(made.value.text()));
  }
  if (made.value.parts(kMostParts + 1) > kMostParts) {
    return fail(failed("the result is too large"));
  }
  std::optional<krm::Json> json = json_of(made.value);
  if (!json) {
    return fail(failed("the result has a type that JSON does not have: " +
                       std::string(made.value.type_name())));
  }
  return std::move(*json);
}

}  // namespace kintsugi::cel
