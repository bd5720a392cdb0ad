#include "krm/json.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include "base/recycled_memory.h"

namespace kintsugi::krm {

/// Length and bytes in one allocation.
struct Json::Text {
  std::size_t size;

  [[nodiscard]] const char* data() const noexcept {
    return reinterpret_cast<const char*>(this) + sizeof(Text);
  }
  [[nodiscard]] std::string_view view() const noexcept { return {data(), size}; }

  [[nodiscard]] static Text* make(std::string_view text) {
    if (text.empty()) {
      return nullptr;
    }
    void* memory = recycled_malloc(sizeof(Text) + text.size());
    if (memory == nullptr) {
      std::abort();
    }
    std::memcpy(static_cast<char*>(memory) + sizeof(Text), text.data(), text.size());
    return new (memory) Text{text.size()};
  }
};

namespace {

const Json::Array kNoItems;
const Json::Object kNoMembers;

/// Objects of up to so many members are looked through: their sizes tell most keys apart.
constexpr std::size_t kFew = 16;

Json::Object::const_iterator lower_bound(const Json::Object& members, std::string_view key) {
  return std::lower_bound(
      members.begin(), members.end(), key,
      [](const JsonMember& member, std::string_view wanted) { return member.key < wanted; });
}

}  // namespace

Json::Json(std::nullptr_t) noexcept {}
Json::Json(bool value) noexcept : type_(Type::kBool) { payload_.boolean = value; }
Json::Json(int value) noexcept : type_(Type::kInteger) { payload_.integer = value; }
Json::Json(std::int64_t value) noexcept : type_(Type::kInteger) { payload_.integer = value; }
Json::Json(std::uint64_t value) : type_(Type::kInteger) {
  if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    payload_.integer = static_cast<std::int64_t>(value);
  } else {
    type_ = Type::kBigNumber;
    payload_.text = Text::make(std::to_string(value));
  }
}
Json::Json(double value) noexcept : type_(Type::kDouble) { payload_.real = value; }
Json::Json(std::string_view value) : type_(Type::kString) { payload_.text = Text::make(value); }
Json::Json(const char* value) : Json(std::string_view(value)) {}
// NOLINTNEXTLINE(performance-unnecessary-value-param): the contract takes it by value
Json::Json(std::string value) : Json(std::string_view(value)) {}
Json::Json(Array value) : type_(Type::kArray) { payload_.array = new Array(std::move(value)); }

Json::Json(const Json& other) : payload_(other.payload_), type_(other.type_) {
  if (type_ >= Type::kBigNumber) {
    copy_payload(other);
  }
}

Json& Json::operator=(const Json& other) {
  Json copy(other);
  std::swap(payload_, copy.payload_);
  std::swap(type_, copy.type_);
  return *this;
}

void Json::copy_payload(const Json& other) {
  switch (other.type_) {
    case Type::kBigNumber:
    case Type::kString:
      payload_.text = other.payload_.text == nullptr ? nullptr : Text::make(other.as_text());
      break;
    case Type::kArray:
      payload_.array = new Array(*other.payload_.array);
      break;
    case Type::kObject:
      payload_.object = new Object(*other.payload_.object);
      break;
    default:
      break;
  }
}

void Json::release_payload() noexcept {
  switch (type_) {
    case Type::kBigNumber:
    case Type::kString:
      recycled_free(payload_.text);
      break;
    case Type::kArray:
      delete payload_.array;
      break;
    case Type::kObject:
      delete payload_.object;
      break;
    default:
      break;
  }
}

Json Json::array(std::initializer_list<Json> items) { return Json(Array(items)); }

Json Json::object(std::initializer_list<std::pair<std::string_view, Json>> members) {
  Json out;
  out.edit_members().reserve(members.size());
  for (const auto& [key, value] : members) {
    out[key] = value;
  }
  return out;
}

Json Json::big_number(std::string text) {
  Json out;
  out.payload_.text = Text::make(text);
  out.type_ = Type::kBigNumber;
  return out;
}

std::string_view Json::as_text() const noexcept {
  return payload_.text == nullptr ? std::string_view() : payload_.text->view();
}

bool Json::is_number() const noexcept {
  return type_ == Type::kInteger || type_ == Type::kDouble || type_ == Type::kBigNumber;
}

std::string_view Json::type_name() const noexcept {
  switch (type_) {
    case Type::kNull:
      return "null";
    case Type::kBool:
      return "boolean";
    case Type::kInteger:
      return "integer";
    case Type::kDouble:
    case Type::kBigNumber:
      return "number";
    case Type::kString:
      return "string";
    case Type::kArray:
      return "array";
    case Type::kObject:
      return "object";
  }
  return "null";
}

bool Json::as_bool(bool otherwise) const noexcept {
  return type_ == Type::kBool ? payload_.boolean : otherwise;
}

std::int64_t Json::as_integer(std::int64_t otherwise) const noexcept {
  return type_ == Type::kInteger ? payload_.integer : otherwise;
}

double Json::as_double(double otherwise) const noexcept {
  switch (type_) {
    case Type::kInteger:
      return static_cast<double>(payload_.integer);
    case Type::kDouble:
      return payload_.real;
    case Type::kBigNumber: {
      const std::string_view text = as_text();
      double value = otherwise;
      const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
      return result.ec == std::errc() ? value : otherwise;
    }
    default:
      return otherwise;
  }
}

std::string_view Json::as_string(std::string_view otherwise) const noexcept {
  return type_ == Type::kString ? as_text() : otherwise;
}

const Json::Array& Json::items() const noexcept {
  return type_ == Type::kArray ? *payload_.array : kNoItems;
}

const Json::Object& Json::members() const noexcept {
  return type_ == Type::kObject ? *payload_.object : kNoMembers;
}

Json::Array& Json::edit_items() {
  if (type_ != Type::kArray) {
    *this = Json(Array());
  }
  return *payload_.array;
}

Json::Object& Json::edit_members() {
  if (type_ != Type::kObject) {
    Json fresh;
    fresh.payload_.object = new Object();
    fresh.type_ = Type::kObject;
    *this = std::move(fresh);
  }
  return *payload_.object;
}

std::size_t Json::size() const noexcept {
  return type_ == Type::kArray ? payload_.array->size() : members().size();
}

const Json* Json::find(std::string_view key) const noexcept {
  const Object& all = members();
  if (all.size() <= kFew) {
    for (const JsonMember& member : all) {
      if (member.key == key) {
        return &member.value;
      }
    }
    return nullptr;
  }
  const auto found = lower_bound(all, key);
  return found != all.end() && found->key == key ? &found->value : nullptr;
}

Json* Json::find(std::string_view key) noexcept {
  return const_cast<Json*>(static_cast<const Json*>(this)->find(key));
}

const Json* Json::at(std::initializer_list<std::string_view> path) const noexcept {
  const Json* current = this;
  for (const std::string_view key : path) {
    current = current->find(key);
    if (current == nullptr) {
      return nullptr;
    }
  }
  return current;
}

Json* Json::at(std::initializer_list<std::string_view> path) noexcept {
  return const_cast<Json*>(static_cast<const Json*>(this)->at(path));
}

std::string_view Json::text(std::initializer_list<std::string_view> path) const noexcept {
  const Json* found = at(path);
  return found == nullptr ? std::string_view() : found->as_string();
}

Json& Json::operator[](std::string_view key) {
  Object& all = edit_members();
  if (all.empty() || all.back().key < key) {
    all.push_back(JsonMember{std::string(key), Json()});
    return all.back().value;
  }
  const auto found = lower_bound(all, key);
  if (found->key == key) {
    return all[static_cast<std::size_t>(found - all.cbegin())].value;
  }
  return all.insert(found, JsonMember{std::string(key), Json()})->value;
}

Json& Json::make(std::initializer_list<std::string_view> path) {
  Json* current = this;
  for (const std::string_view key : path) {
    current = &(*current)[key];
  }
  return *current;
}

bool Json::erase(std::string_view key) {
  if (type_ != Type::kObject) {
    return false;
  }
  const auto found = lower_bound(*payload_.object, key);
  if (found == payload_.object->cend() || found->key != key) {
    return false;
  }
  payload_.object->erase(found);
  return true;
}

void Json::push_back(Json value) { edit_items().push_back(std::move(value)); }

bool Json::operator==(const Json& other) const noexcept {
  if (type_ == other.type_) {
    switch (type_) {
      case Type::kNull:
        return true;
      case Type::kBool:
        return payload_.boolean == other.payload_.boolean;
      case Type::kInteger:
        return payload_.integer == other.payload_.integer;
      case Type::kDouble:
        return payload_.real == other.payload_.real;
      case Type::kBigNumber:
      case Type::kString:
        return as_text() == other.as_text();
      case Type::kArray:
        return *payload_.array == *other.payload_.array;
      case Type::kObject:
        return *payload_.object == *other.payload_.object;
    }
  }
  if (type_ == Type::kDouble && other.is_number()) {
    return other == *this;
  }
  if (type_ == Type::kBigNumber && other.type_ == Type::kDouble) {
    return as_text() == other.dump();  // what a double from 1e19 to 1e21 turns into when written
  }
  if (type_ != Type::kInteger || other.type_ != Type::kDouble) {
    return false;
  }
  // Compared as integers: a double above 2^53 must not swallow its neighbours. But what it is
  // written as is still itself.
  const double real = other.payload_.real;
  constexpr double kLimit = 9223372036854775808.0;
  constexpr double kExact = 9007199254740992.0;
  if (real >= -kLimit && real < kLimit && static_cast<std::int64_t>(real) == payload_.integer &&
      static_cast<double>(static_cast<std::int64_t>(real)) == real) {
    return true;
  }
  return (real > kExact || real < -kExact) && dump() == other.dump();
}

}  // namespace kintsugi::krm
