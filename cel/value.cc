#include "cel/internal/value.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "cel/internal/text.h"

namespace kintsugi::cel {

Value Value::of_kind(Kind kind) noexcept {
  Value out;
  out.kind_ = kind;
  return out;
}

Value Value::error(std::string message) {
  Value out = string(std::move(message));
  out.kind_ = Kind::kError;
  return out;
}

Value Value::no_overload() {
  Value out = string_view("no such overload");
  out.kind_ = Kind::kError;
  return out;
}

Value Value::missing(const Value& key) { return error("no such key: " + key.print()); }

Value Value::boolean(bool value) noexcept {
  Value out = of_kind(Kind::kBool);
  out.integer_ = value ? 1 : 0;
  return out;
}

Value Value::integer(std::int64_t value) noexcept {
  Value out = of_kind(Kind::kInt);
  out.integer_ = value;
  return out;
}

Value Value::unsigned_integer(std::uint64_t value) noexcept {
  Value out = of_kind(Kind::kUint);
  out.integer_ = static_cast<std::int64_t>(value);
  return out;
}

Value Value::real(double value) noexcept {
  Value out = of_kind(Kind::kDouble);
  out.real_ = value;
  return out;
}

Value Value::string(std::string text) {
  Value out = of_kind(Kind::kString);
  if (!text.empty()) {
    auto owner = std::make_shared<const std::string>(std::move(text));
    out.text_ = *owner;
    out.owner_ = std::move(owner);
  }
  return out;
}

Value Value::string_view(std::string_view text) noexcept {
  Value out = of_kind(Kind::kString);
  out.text_ = text;
  return out;
}

Value Value::part_of(const Value& whole, std::string_view part) {
  Value out = string_view(part);
  out.owner_ = whole.owner_;
  return out;
}

Value Value::bytes(std::string bytes) {
  Value out = string(std::move(bytes));
  out.kind_ = Kind::kBytes;
  return out;
}

Value Value::duration(std::int64_t nanoseconds) noexcept {
  Value out = of_kind(Kind::kDuration);
  out.integer_ = nanoseconds;
  return out;
}

Value Value::timestamp(std::int64_t seconds, std::int32_t nanos) noexcept {
  Value out = of_kind(Kind::kTimestamp);
  out.integer_ = seconds;
  out.nanos_ = nanos;
  return out;
}

Value Value::list(std::vector<Value> items) {
  Value out = of_kind(Kind::kList);
  auto data = std::make_shared<ListData>();
  data->size = items.size();
  data->items = std::move(items);
  out.owner_ = std::move(data);
  return out;
}

Value Value::merged_list(std::vector<Value> items, const krm::Schema& schema) {
  Value out = list(std::move(items));
  out.schema_ = &schema;
  return out;
}

Value Value::concatenation(Value left, Value right) {
  if (left.is_native() && left.size() == 0) {
    return right;
  }
  if (left.is_native() && right.size() == 0) {
    return left;  // a list of the object is another kind of list once something was added
  }
  if (left.size() == 0 && right.size() == 0) {
    return list({});
  }
  Value out = of_kind(Kind::kList);
  auto data = std::make_shared<ListData>();
  data->size = std::min(left.size() + right.size(), kEndless);
  data->left = std::make_shared<const Value>(std::move(left));
  data->right = std::make_shared<const Value>(std::move(right));
  out.owner_ = std::move(data);
  return out;
}

Value Value::map(std::shared_ptr<const MapData> data) {
  Value out = of_kind(Kind::kMap);
  out.owner_ = std::move(data);
  return out;
}

Value Value::type(std::string name) {
  Value out = string(std::move(name));
  out.kind_ = Kind::kType;
  return out;
}

Value Value::none() { return of_kind(Kind::kOptional); }

Value Value::optional(Value value) {
  Value out = of_kind(Kind::kOptional);
  out.owner_ = std::make_shared<const Value>(std::move(value));
  return out;
}

Value Value::opaque(std::shared_ptr<const Opaque> value) {
  Value out = of_kind(Kind::kOpaque);
  out.owner_ = std::move(value);
  return out;
}

bool Value::is_number() const noexcept {
  return kind_ == Kind::kInt || kind_ == Kind::kUint || kind_ == Kind::kDouble;
}

const Value* Value::boxed() const noexcept {
  return kind_ == Kind::kOptional ? static_cast<const Value*>(owner_.get()) : nullptr;
}

const Opaque* Value::opaque() const noexcept {
  return kind_ == Kind::kOpaque ? static_cast<const Opaque*>(owner_.get()) : nullptr;
}

std::size_t Value::size() const noexcept {
  switch (kind_) {
    case Kind::kString:
      return rune_count(text_);
    case Kind::kBytes:
      return text_.size();
    case Kind::kList:
      return json_ != nullptr ? json_->size() : static_cast<const ListData*>(owner_.get())->size;
    case Kind::kMap:
      return json_ != nullptr ? json_->size()
                              : static_cast<const MapData*>(owner_.get())->entries.size();
    default:
      return 1;
  }
}

bool Value::sized() const noexcept {
  return kind_ == Kind::kString || kind_ == Kind::kBytes || kind_ == Kind::kList ||
         kind_ == Kind::kMap;
}

Value Value::at(std::size_t index) const {
  const Value* here = this;
  while (here->json_ == nullptr) {
    const auto* data = static_cast<const ListData*>(here->owner_.get());
    if (data->left == nullptr) {
      return data->items[index];
    }
    const std::size_t left = data->left->size();
    here = index < left ? data->left.get() : data->right.get();
    index -= index < left ? 0 : left;
  }
  return from_json(here->json_->items()[index], *here->schema_->items);
}

bool Value::element(const Value& index, Value& out) const {
  std::int64_t place = index.integer();
  if (index.is(Kind::kDouble)) {
    const double real = index.real();
    const bool whole = real >= -9e15 && real <= 9e15 && real == std::floor(real);
    if (!whole) {
      out = error("unsupported index value " + index.print() + " in list");
      return true;
    }
    place = static_cast<std::int64_t>(real);
  } else if (!index.is(Kind::kInt) && !index.is(Kind::kUint)) {
    out = error("unsupported index type '" + std::string(index.type_name()) + "' in list");
    return true;
  }
  if (place < 0 || static_cast<std::uint64_t>(place) >= size()) {
    return false;
  }
  out = at(static_cast<std::size_t>(place));
  return true;
}

const std::vector<Value>* Value::own_items() const noexcept {
  if (kind_ != Kind::kList || json_ != nullptr) {
    return nullptr;
  }
  const auto* data = static_cast<const ListData*>(owner_.get());
  return data->left == nullptr ? &data->items : nullptr;
}

std::vector<Value> Value::items() const {
  std::vector<Value> out;
  out.reserve(size());
  std::vector<const Value*> open = {this};
  while (!open.empty()) {
    const Value* here = open.back();
    open.pop_back();
    if (here->json_ != nullptr) {
      for (const krm::Json& each : here->json_->items()) {
        out.push_back(from_json(each, *here->schema_->items));
      }
      continue;
    }
    const auto* data = static_cast<const ListData*>(here->owner_.get());
    if (data->left != nullptr) {
      open.push_back(data->right.get());
      open.push_back(data->left.get());
    } else {
      out.insert(out.end(), data->items.begin(), data->items.end());
    }
  }
  return out;
}

bool map_key(const Value& key, std::string& out) {
  switch (key.kind()) {
    case Kind::kString:
      out = 's';
      out += key.text();
      return true;
    case Kind::kBool:
      out = key.is_true() ? "b1" : "b0";
      return true;
    case Kind::kInt:
      out = 'i' + std::to_string(key.integer());
      return true;
    case Kind::kUint:
      out = 'i' + std::to_string(key.unsigned_integer());
      return true;
    case Kind::kDouble: {
      const double value = key.real();
      if (std::isnan(value) || value != std::floor(value)) {
        out = 'd' + go_double(value);
      } else if (value >= -9223372036854775808.0 && value < 9223372036854775808.0) {
        out = 'i' + std::to_string(static_cast<std::int64_t>(value));
      } else if (value >= 0 && value < 18446744073709551616.0) {
        out = 'i' + std::to_string(static_cast<std::uint64_t>(value));
      } else {
        out = 'd' + go_double(value);
      }
      return true;
    }
    default:
      return false;
  }
}

namespace {

/// Keys that are equal when their values are.
bool value_key(const Value& key, std::string& out) {
  switch (key.kind()) {
    case Kind::kNull:
      out = "n";
      return true;
    case Kind::kDuration:
      out = 'u' + std::to_string(key.integer());
      return true;
    case Kind::kTimestamp:
      out = 't' + std::to_string(key.integer()) + '.' + std::to_string(key.nanos());
      return true;
    case Kind::kType:
      out = 'y';
      out += key.text();
      return true;
    default:
      return map_key(key, out);
  }
}

}  // namespace

bool MapData::new_key(const Value& key, std::string& out) {
  if (value_key(key, out)) {
    return true;
  }
  if (key.is(Kind::kBytes) || key.identity() == nullptr) {
    return false;
  }
  constexpr std::size_t kFirst = 1'000'000'000;  // so that later ones sort behind
  out = 'p' + std::to_string(kFirst + composite.size());
  out = composite.emplace(key.identity(), out).first->second;
  return true;
}

bool Value::is_native() const noexcept {
  return json_ == nullptr || schema_ == dynamic_schema().get();
}

const void* Value::identity() const noexcept {
  return json_ != nullptr ? static_cast<const void*>(json_) : owner_.get();
}

bool Value::is_index() const noexcept {
  return is_number() || is(Kind::kString) || is(Kind::kBool);
}

bool Value::find(const Value& key, Value& out) const {
  if (json_ == nullptr) {
    const auto* data = static_cast<const MapData*>(owner_.get());
    if (data->lazy != nullptr) {
      return key.is(Kind::kString) && data->lazy->find(key.text(), out);
    }
    std::string text;
    if (!value_key(key, text)) {
      const auto known = data->composite.find(key.identity());
      if (known == data->composite.end()) {
        return false;
      }
      text = known->second;
    }
    const auto& entries = data->entries;
    const auto found = entries.find(text);
    if (found == entries.end()) {
      return false;
    }
    out = found->second.second;
    return true;
  }
  if (!key.is(Kind::kString)) {
    out = no_overload();
    return true;
  }
  const bool object = schema_->additional == nullptr;
  std::string name;
  std::string_view wanted = key.text();
  if (object && wanted.find("__") != std::string_view::npos) {
    if (!unescape_name(wanted, name)) {
      return false;
    }
    wanted = name;
  }
  const krm::Json* member = json_->find(wanted);
  if (member == nullptr || (object && member->is_null())) {
    return false;
  }
  const krm::Schema* schema = member_schema(wanted);
  if (schema == nullptr) {
    return false;
  }
  out = from_json(*member, *schema);
  return true;
}

void Value::each_key(const std::function<bool(Value key)>& visit) const {
  if (json_ == nullptr) {
    for (const auto& [key, entry] : static_cast<const MapData*>(owner_.get())->entries) {
      if (!visit(entry.first)) {
        return;
      }
    }
    return;
  }
  for (const krm::JsonMember& member : json_->members()) {
    if (member_schema(member.key) == nullptr) {
      continue;
    }
    std::string escaped;
    const bool other =
        schema_->additional == nullptr && escape_name(member.key, escaped) && escaped != member.key;
    if (!visit(other ? string(std::move(escaped)) : string_view(member.key))) {
      return;
    }
  }
}

std::vector<Value> Value::keys() const {
  std::vector<Value> out;
  each_key([&](Value key) {
    out.push_back(std::move(key));
    return true;
  });
  return out;
}

std::string_view Value::type_name() const noexcept {
  static constexpr std::array<std::string_view, 16> kNames = {"error",
                                                              "null_type",
                                                              "bool",
                                                              "int",
                                                              "uint",
                                                              "double",
                                                              "string",
                                                              "bytes",
                                                              "google.protobuf.Duration",
                                                              "google.protobuf.Timestamp",
                                                              "list",
                                                              "map",
                                                              "type",
                                                              "optional_type",
                                                              "",
                                                              "unknown"};
  return kind_ == Kind::kOpaque ? opaque()->type : kNames[static_cast<std::size_t>(kind_)];
}

std::string_view Value::inner_type_name() const noexcept {
  switch (kind_) {
    case Kind::kError:
      return "*types.Err";
    case Kind::kNull:
      return "types.Null";
    case Kind::kBool:
      return "types.Bool";
    case Kind::kInt:
      return "types.Int";
    case Kind::kUint:
      return "types.Uint";
    case Kind::kDouble:
      return "types.Double";
    case Kind::kString:
      return "types.String";
    case Kind::kBytes:
      return "types.Bytes";
    case Kind::kDuration:
      return "types.Duration";
    case Kind::kTimestamp:
      return "types.Timestamp";
    case Kind::kList:
      return is_native()                                 ? "*types.baseList"
             : schema_->list_type == krm::ListType::kSet ? "*common.unstructuredSetList"
             : schema_->list_type == krm::ListType::kMap ? "*common.unstructuredMapList"
                                                         : "*common.unstructuredList";
    case Kind::kMap:
      return is_native() ? "*types.baseMap" : "*common.unstructuredMap";
    case Kind::kType:
      return "*types.Type";
    case Kind::kOptional:
      return "*types.Optional";
    case Kind::kOpaque: {
      const std::string_view type = opaque()->type;
      return type == "kubernetes.Quantity" ? "cel.Quantity"
             : type == "kubernetes.URL"    ? "cel.URL"
             : type == "kubernetes.Semver" ? "cel.Semver"
             : type == "net.IP"            ? "cel.IP"
             : type == "net.CIDR"          ? "cel.CIDR"
                                           : type;
    }
    case Kind::kUnknown:
      return "*common.unknownPreserved";
  }
  return "";
}

std::string Value::print() const {
  switch (kind_) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return is_true() ? "true" : "false";
    case Kind::kInt:
      return std::to_string(integer_);
    case Kind::kUint:
      return std::to_string(unsigned_integer());
    case Kind::kDouble:
      return go_double(real_);
    case Kind::kDuration:
      return go_duration(integer_);
    case Kind::kTimestamp:
      return format_timestamp(integer_, nanos_);
    default:
      return std::string(text_);
  }
}

bool Value::is_zero() const {
  switch (kind_) {
    case Kind::kNull:
      return true;
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kUint:
    case Kind::kDuration:
      return integer_ == 0;
    case Kind::kDouble:
      return real_ == 0;
    case Kind::kString:
    case Kind::kBytes:
      return text_.empty();
    case Kind::kTimestamp:
      return integer_ == kMinTimestamp && nanos_ == 0;
    case Kind::kList:
    case Kind::kMap:
      return is_native() && size() == 0;  // values of the object do not say that they are zero
    case Kind::kOptional:
      return owner_ == nullptr || boxed()->is_zero();
    default:
      return false;
  }
}

}  // namespace kintsugi::cel
