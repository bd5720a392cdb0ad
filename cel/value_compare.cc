#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "cel/internal/text.h"
#include "cel/internal/value.h"

namespace kintsugi::cel {

namespace {

template <class T>
int order(const T& a, const T& b) {
  return a < b ? -1 : a == b ? 0 : 1;
}

/// -1, 0, 1; 2 when one is not a number.
int compare_numbers(const Value& a, const Value& b) {
  if (a.is(Kind::kDouble) || b.is(Kind::kDouble)) {
    if (a.is(Kind::kDouble) && b.is(Kind::kDouble)) {
      return std::isnan(a.real()) || std::isnan(b.real()) ? 2 : order(a.real(), b.real());
    }
    if (b.is(Kind::kDouble)) {
      const int reversed = compare_numbers(b, a);
      return reversed == 2 ? 2 : -reversed;
    }
    const double value = a.real();
    if (std::isnan(value)) {
      return 2;
    }
    if (b.is(Kind::kInt)) {
      if (value < -9223372036854775808.0) {
        return -1;
      }
      if (value >= 9223372036854775808.0) {
        return 1;
      }
      return order(value, static_cast<double>(b.integer()));
    }
    if (value < 0) {
      return -1;
    }
    if (value >= 18446744073709551616.0) {
      return 1;
    }
    return order(value, static_cast<double>(b.unsigned_integer()));
  }
  if (a.is(Kind::kInt) && b.is(Kind::kInt)) {
    return order(a.integer(), b.integer());
  }
  if (a.is(Kind::kUint) && b.is(Kind::kUint)) {
    return order(a.unsigned_integer(), b.unsigned_integer());
  }
  if (a.is(Kind::kInt)) {
    return a.integer() < 0 ? -1
                           : order(static_cast<std::uint64_t>(a.integer()), b.unsigned_integer());
  }
  return -compare_numbers(b, a);
}

constexpr std::size_t kPartBytes = 64;

std::uint64_t parts_of(const krm::Json& json, std::uint64_t most) {
  std::uint64_t count = json.as_string().size() / kPartBytes;
  if (json.is_array()) {
    for (const krm::Json& each : json.items()) {
      count += count < most ? 1 + parts_of(each, most - count) : 0;
    }
  } else if (json.is_object()) {
    for (const krm::JsonMember& each : json.members()) {
      count +=
          count < most ? 1 + each.key.size() / kPartBytes + parts_of(each.value, most - count) : 0;
    }
  }
  return count;
}

Value merge_lists(const Value& left, const Value& right) {
  const krm::Schema& schema = *left.schema();
  std::vector<Value> items = left.items();
  if (schema.list_type == krm::ListType::kSet) {
    std::set<std::string> known;
    const auto identity = [](const Value& value) {
      std::string key;
      return map_key(value, key) ? key : std::string(value.type_name()) + ' ' + value.print();
    };
    for (const Value& each : items) {
      known.insert(identity(each));
    }
    for (Value& each : right.items()) {
      if (known.insert(identity(each)).second) {
        items.push_back(std::move(each));
      }
    }
    return Value::merged_list(std::move(items), schema);
  }
  const auto key_of = [&](const Value& item) {
    std::string out;
    for (const std::string& name : schema.list_map_keys) {
      Value part;
      std::string text;
      if (item.is(Kind::kMap) && item.find(Value::string_view(name), part) && map_key(part, text)) {
        out += std::to_string(text.size()) + ':' + text;
      }
      out += '/';
    }
    return out;
  };
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < items.size(); ++i) {
    places[key_of(items[i])] = i;
  }
  for (Value& each : right.items()) {
    const auto [place, fresh] = places.try_emplace(key_of(each), items.size());
    if (fresh) {
      items.push_back(std::move(each));
    } else {
      items[place->second] = std::move(each);
    }
  }
  return Value::merged_list(std::move(items), schema);
}

}  // namespace

Value add_lists(const Value& left, const Value& right) {
  if (left.schema() != nullptr && left.schema()->list_type != krm::ListType::kAtomic) {
    return merge_lists(left, right);
  }
  return Value::concatenation(left, right);
}

bool Value::has_parts() const noexcept {
  return kind_ == Kind::kList || kind_ == Kind::kMap || kind_ == Kind::kUnknown ||
         kind_ == Kind::kOptional;
}

std::uint64_t Value::parts(std::uint64_t most) const {
  if (json_ != nullptr) {
    return parts_of(*json_, most);
  }
  std::uint64_t count = 0;
  const auto add = [&](const Value& each) {
    count += count < most ? 1 + each.text_.size() / kPartBytes +
                                (each.has_parts() ? each.parts(most - count) : 0)
                          : 0;
  };
  if (const std::vector<Value>* items = own_items()) {
    for (const Value& each : *items) {
      add(each);
    }
  } else if (kind_ == Kind::kList) {
    const auto* data = static_cast<const ListData*>(owner_.get());
    count = data->left->parts(most);
    count += count < most ? data->right->parts(most - count) : 0;
  } else if (kind_ == Kind::kMap) {
    for (const auto& [key, entry] : static_cast<const MapData*>(owner_.get())->entries) {
      count += key.size() / kPartBytes;
      add(entry.second);
    }
  } else if (const Value* inner = boxed()) {
    add(*inner);
  }
  return count;
}

Value Value::compare(const Value& other) const {
  if (is_error()) {
    return *this;
  }
  if (other.is_error()) {
    return other;
  }
  if (is_number() && other.is_number()) {
    const int result = compare_numbers(*this, other);
    return result == 2 ? error("NaN values cannot be ordered") : integer(result);
  }
  if (kind_ != other.kind_) {
    return no_overload();
  }
  switch (kind_) {
    case Kind::kBool:
    case Kind::kDuration:
      return integer(order(integer_, other.integer_));
    case Kind::kString:
    case Kind::kBytes:
      return integer(order(text_, other.text_));
    case Kind::kTimestamp:
      return integer(order(std::pair(integer_, nanos_), std::pair(other.integer_, other.nanos_)));
    default:
      return no_overload();
  }
}

Value Value::equals(const Value& other) const {
  if (is_error()) {
    return *this;
  }
  if (other.is_error()) {
    return other;
  }
  if (is_number() && other.is_number()) {
    return boolean(compare_numbers(*this, other) == 0);
  }
  if (kind_ == Kind::kUnknown) {
    return boolean(other.json_ != nullptr && *json_ == *other.json_);
  }
  if (kind_ != other.kind_) {
    const bool view =
        json_ != nullptr && !other.is(Kind::kNull) && (kind_ == Kind::kList || kind_ == Kind::kMap);
    return view || kind_ == Kind::kOpaque ? no_overload() : boolean(false);
  }
  switch (kind_) {
    case Kind::kNull:
      return boolean(true);
    case Kind::kBool:
    case Kind::kDuration:
      return boolean(integer_ == other.integer_);
    case Kind::kTimestamp:
      return boolean(integer_ == other.integer_ && nanos_ == other.nanos_);
    case Kind::kString:
    case Kind::kBytes:
    case Kind::kType:
      return boolean(text_ == other.text_);
    case Kind::kOptional:
      if (owner_ == nullptr || other.owner_ == nullptr) {
        return boolean(owner_ == other.owner_);
      }
      return boxed()->equals(*other.boxed());
    case Kind::kOpaque:
      return opaque()->type == other.opaque()->type ? boolean(opaque()->equals(*other.opaque()))
                                                    : no_overload();
    case Kind::kList:
      if (schema_ != nullptr && schema_->list_type == krm::ListType::kSet) {
        return set_equals(other);
      }
      if (schema_ != nullptr && schema_->list_type == krm::ListType::kMap) {
        return map_list_equals(other);
      }
      return list_equals(other);
    case Kind::kMap:
      return map_equals(other);
    default:
      return boolean(false);
  }
}

Value Value::list_equals(const Value& other) const {
  if (size() != other.size()) {
    return boolean(false);
  }
  if (json_ != nullptr && json_ == other.json_ && schema_ == other.schema_) {
    return boolean(true);
  }
  const std::vector<Value> mine = items();
  const std::vector<Value> theirs = other.items();
  Value failed;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const Value same = mine[i].equals(theirs[i]);
    if (same.is_error() && json_ == nullptr) {
      failed = same;
    } else if (!same.is_true()) {
      return same;
    }
  }
  return failed.is_error() ? failed : boolean(true);
}

Value Value::set_equals(const Value& other) const {
  if (size() != other.size()) {
    return boolean(false);
  }
  std::set<std::string> mine;
  const auto identity = [](const Value& value) {
    std::string key;
    return map_key(value, key) ? key : "?" + std::string(value.json() ? value.json()->dump() : "");
  };
  for (const Value& each : items()) {
    mine.insert(identity(each));
  }
  std::set<std::string> seen;
  for (const Value& each : other.items()) {
    std::string key = identity(each);
    if (mine.count(key) == 0) {
      return boolean(false);
    }
    seen.insert(std::move(key));
  }
  return boolean(seen.size() == mine.size());
}

Value Value::map_list_equals(const Value& other) const {
  if (size() != other.size()) {
    return boolean(false);
  }
  const auto key_of = [this](const Value& item) {
    std::string out;
    for (const std::string& name : schema_->list_map_keys) {
      Value part;
      std::string text;
      if (item.is(Kind::kMap) && item.find(string_view(name), part) && map_key(part, text)) {
        out += std::to_string(text.size()) + ':' + text;
      }
      out += '/';
    }
    return out;
  };
  std::map<std::string, Value> mine;
  for (Value& each : items()) {
    std::string key = key_of(each);
    mine[std::move(key)] = std::move(each);
  }
  std::set<std::string> seen;
  for (const Value& each : other.items()) {
    std::string key = key_of(each);
    const auto found = mine.find(key);
    if (found == mine.end()) {
      return boolean(false);
    }
    if (Value same = found->second.equals(each); !same.is_true()) {
      return same;
    }
    seen.insert(std::move(key));
  }
  return boolean(seen.size() == mine.size());
}

Value Value::map_equals(const Value& other) const {
  if (size() != other.size()) {
    return boolean(false);
  }
  if (json_ == nullptr) {
    for (const auto& [key, entry] : static_cast<const MapData*>(owner_.get())->entries) {
      Value theirs;
      if (!other.find(entry.first, theirs)) {
        return boolean(false);
      }
      if (Value same = entry.second.equals(theirs); !same.is_true()) {
        return same;
      }
    }
    return boolean(true);
  }
  if (json_ == other.json_ && schema_ == other.schema_) {
    return boolean(true);
  }
  for (const krm::JsonMember& member : json_->members()) {
    if (member_schema(member.key) == nullptr) {
      if (other.json_ == nullptr) {
        return no_overload();
      }
      const krm::Json* theirs = other.json_->find(member.key);
      if (theirs != nullptr && !(*theirs == member.value)) {
        return boolean(false);
      }
      continue;
    }
    const Value key = string_view(member.key);
    Value mine;
    Value theirs;
    const bool found = find(key, mine);
    if (found != other.find(key, theirs)) {
      return boolean(false);
    }
    if (!found) {
      continue;
    }
    if (Value same = mine.equals(theirs); !same.is_true()) {
      return same;
    }
  }
  return boolean(true);
}

}  // namespace kintsugi::cel
