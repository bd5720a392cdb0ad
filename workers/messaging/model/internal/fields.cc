#include "workers/messaging/model/internal/fields.h"

#include <limits>
#include <utility>

#include "base/strings.h"
#include "krm/quantity.h"

namespace kintsugi::workers {

namespace {
constexpr std::size_t kMostProblems = 8;
constexpr std::int64_t kNsPerMs = 1'000'000;
}  // namespace

void FieldProblems::add(std::string_view field, std::string_view what) {
  if (list_.size() < kMostProblems) {
    list_.push_back(std::string(field) + ": " + std::string(what));
  }
}

std::string FieldProblems::text() const { return join(list_, "; "); }

Fields::Fields(const krm::Json* object, std::string path, FieldProblems& problems)
    : object_(object), path_(std::move(path)), problems_(&problems) {}

std::string Fields::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

void Fields::problem(std::string_view key, std::string_view what) const {
  problems_->add(path_of(key), what);
}

const krm::Json* Fields::member(std::string_view key) const noexcept {
  const krm::Json* value = object_ == nullptr ? nullptr : object_->find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

const krm::Json* Fields::typed(std::string_view key, krm::Json::Type type,
                               std::string_view name) const {
  const krm::Json* value = member(key);
  if (value != nullptr && value->type() != type) {
    problem(key, "must be " + std::string(name));
    return nullptr;
  }
  return value;
}

Fields Fields::object(std::string_view key) const {
  return {typed(key, krm::Json::Type::kObject, "an object"), path_of(key), *problems_};
}

std::vector<Fields> Fields::objects(std::string_view key, std::size_t most) const {
  std::vector<Fields> list;
  const krm::Json* value = typed(key, krm::Json::Type::kArray, "a list");
  if (value == nullptr) {
    return list;
  }
  if (value->size() > most) {
    problem(key, "must have at most " + std::to_string(most) + " items");
    return list;
  }
  for (const krm::Json& item : value->items()) {
    std::string path = path_of(key) + "[" + std::to_string(&item - value->items().data()) + "]";
    if (!item.is_object()) {
      problems_->add(path, "must be an object");
      continue;
    }
    list.emplace_back(&item, std::move(path), *problems_);
  }
  return list;
}

std::vector<std::string> Fields::texts(std::string_view key, std::size_t most) const {
  std::vector<std::string> list;
  const krm::Json* value = typed(key, krm::Json::Type::kArray, "a list");
  if (value == nullptr) {
    return list;
  }
  if (value->size() > most) {
    problem(key, "must have at most " + std::to_string(most) + " items");
    return list;
  }
  for (const krm::Json& item : value->items()) {
    if (!item.is_string() || item.as_string().empty()) {
      problem(key, "must be a list of strings");
      return {};
    }
    list.emplace_back(item.as_string());
  }
  return list;
}

std::string Fields::text(std::string_view key, std::string_view otherwise) const {
  const krm::Json* value = typed(key, krm::Json::Type::kString, "a string");
  return std::string(value == nullptr ? otherwise : value->as_string());
}

std::string Fields::required_text(std::string_view key) const {
  std::string value = text(key);
  if (value.empty()) {
    problem(key, "is required");
  }
  return value;
}

bool Fields::boolean(std::string_view key, bool otherwise) const {
  const krm::Json* value = typed(key, krm::Json::Type::kBool, "true or false");
  return value == nullptr ? otherwise : value->as_bool();
}

std::optional<std::int64_t> Fields::integer(std::string_view key, std::int64_t least,
                                            std::int64_t most) const {
  const krm::Json* value = typed(key, krm::Json::Type::kInteger, "an integer");
  if (value == nullptr) {
    return std::nullopt;
  }
  if (value->as_integer() < least || value->as_integer() > most) {
    problem(key, most == std::numeric_limits<std::int64_t>::max()
                     ? "must be at least " + std::to_string(least)
                     : "must be " + std::to_string(least) + " to " + std::to_string(most));
    return std::nullopt;
  }
  return value->as_integer();
}

std::optional<std::int64_t> Fields::quantity(std::string_view key) const {
  const krm::Json* value = member(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_string() && !value->is_number()) {
    problem(key, "must be a quantity");
    return std::nullopt;
  }
  const Expected<krm::Quantity> parsed =
      krm::Quantity::parse(value->is_string() ? std::string(value->as_string()) : value->dump());
  if (!parsed) {
    problem(key, "must be a quantity");
    return std::nullopt;
  }
  if (parsed->is_negative() || parsed->ceiling() == std::numeric_limits<std::int64_t>::max()) {
    problem(key, "must be 0 to 2^63-2");
    return std::nullopt;
  }
  return parsed->ceiling();
}

std::optional<std::int64_t> Fields::duration_ms(std::string_view key) const {
  const krm::Json* value = typed(key, krm::Json::Type::kString, "a duration");
  if (value == nullptr) {
    return std::nullopt;
  }
  const std::optional<std::int64_t> ns = parse_go_duration_ns(value->as_string());
  if (!ns || *ns < kNsPerMs) {
    problem(key, "must be a duration of at least 1ms");
    return std::nullopt;
  }
  return *ns / kNsPerMs;
}

std::size_t Fields::choice(std::string_view key, std::initializer_list<std::string_view> values,
                           std::size_t otherwise) const {
  const krm::Json* value = typed(key, krm::Json::Type::kString, "a string");
  if (value == nullptr) {
    return otherwise;
  }
  std::size_t at = 0;
  std::string all;
  for (const std::string_view allowed : values) {
    if (value->as_string() == allowed) {
      return at;
    }
    all += (at++ == 0 ? "" : ", ") + std::string(allowed);
  }
  problem(key, "must be one of " + all);
  return otherwise;
}

krm::Json Fields::copy(std::string_view key, krm::Json::Type type) const {
  const krm::Json* value =
      typed(key, type, type == krm::Json::Type::kObject ? "an object" : "of another type");
  return value == nullptr ? krm::Json() : *value;
}

}  // namespace kintsugi::workers
