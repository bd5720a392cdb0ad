#include "cel/internal/constructed.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/strings.h"
#include "krm/go_text.h"

namespace kintsugi::cel {
namespace {

using krm::Json;

constexpr std::size_t kDeepest = 300, kBytesPerPart = 64;

struct Constructed final : Opaque {
  Constructed(std::string type_name, Members values)
      : Opaque({}), name(std::move(type_name)), members(std::move(values)) {
    type = name;
  }
  [[nodiscard]] bool equals(const Opaque& other) const override {
    const auto* same = dynamic_cast<const Constructed*>(&other);
    return same != nullptr && same->name == name &&
           std::equal(members.begin(), members.end(), same->members.begin(), same->members.end(),
                      [](const auto& a, const auto& b) {
                        return a.first == b.first && a.second.equals(b.second).is_true();
                      });
  }
  const std::string name;
  const Members members;
};

const Constructed* constructed_of(const Value& value) {
  return value.is(Kind::kOpaque) ? dynamic_cast<const Constructed*>(value.opaque()) : nullptr;
}

tl::unexpected<Error> fault(std::string text) { return fail(Errc::kInvalid, std::move(text)); }

/// Turns values to JSON, and checks the names of the types on its way.
class Maker {
 public:
  /// @param path  name that the type of an object here has to have
  Expected<Json> make(const Value& value, const std::string& path) {
    parts_ += 1 + value.text().size() / kBytesPerPart;
    if (parts_ > kMostMade || depth_ > kDeepest) {
      return fault("the result is too large");
    }
    if (const Constructed* object = constructed_of(value)) {
      return members_of(*object, path);
    }
    switch (value.kind()) {
      case Kind::kNull:
        return Json();
      case Kind::kBool:
        return Json(value.is_true());
      case Kind::kInt:
        return Json(value.integer());
      case Kind::kUint:
        return Json(static_cast<std::int64_t>(
            std::min<std::uint64_t>(value.unsigned_integer(), INT64_MAX)));
      case Kind::kDouble:
        if (!std::isfinite(value.real())) {
          return fault("a number that JSON has none of cannot be a part of an object");
        }
        return Json(value.real());
      case Kind::kString:
        return Json(value.text());
      case Kind::kBytes:
        return Json(base64_encode(value.text()));
      case Kind::kList:
        return list(value, path);
      case Kind::kMap:
        return map(value, path);
      default:
        return fault("a value of type " + std::string(value.type_name()) +
                     " cannot be a part of an object");
    }
  }

 private:
  Expected<Json> members_of(const Constructed& object, const std::string& path) {
    if (object.name != path) {
      return fault("type mismatch: unexpected type name " + krm::go_quote(object.name) +
                   ", expected " + krm::go_quote(path) +
                   ", which matches field name path from root Object type");
    }
    Json out = Json::object();
    ++depth_;
    for (const auto& [name, value] : object.members) {
      Expected<Json> made = make(value, path + "." + name);
      if (!made) {
        return made;
      }
      out[name] = std::move(*made);
    }
    --depth_;
    return out;
  }

  Expected<Json> list(const Value& value, const std::string& path) {
    if (value.size() > kMostMade) {
      return fault("the result is too large");
    }
    Json out = Json::array();
    ++depth_;
    for (std::size_t i = 0; i < value.size(); ++i) {
      Expected<Json> made = make(value.at(i), path);
      if (!made) {
        return made;
      }
      out.push_back(std::move(*made));
    }
    --depth_;
    return out;
  }

  Expected<Json> map(const Value& value, const std::string& path) {
    Json out = Json::object();
    ++depth_;
    for (const Value& key : value.keys()) {
      if (!key.is(Kind::kString)) {
        return fault("map key " + key.print() + " is not string");
      }
      Value found;
      if (!value.find(key, found)) {
        continue;
      }
      Expected<Json> made = make(found, path);
      if (!made) {
        return made;
      }
      out[key.text()] = std::move(*made);
    }
    --depth_;
    return out;
  }

  std::size_t parts_ = 0, depth_ = 0;
};

}  // namespace

Value constructed(std::string name, Members members) {
  if (name == kPatchType) {
    for (const auto& [member, value] : members) {
      if (member != "value" && !value.is(Kind::kString)) {
        return Value::error("unexpected type " + std::string(value.inner_type_name()) +
                            " for JSONPatchType '" + member + "' field");
      }
    }
  }
  return Value::opaque(std::make_shared<const Constructed>(std::move(name), std::move(members)));
}

Expected<Json> made_object(const Value& value) {
  if (constructed_of(value) == nullptr) {
    return fault("unsupported return type from ApplyConfiguration expression: " +
                 std::string(value.type_name()));
  }
  return Maker().make(value, std::string(kObjectType));
}

Expected<Json> made_patch(const Value& list) {
  if (!list.is(Kind::kList) || list.size() > kMostMade) {
    return fault("type mismatch: JSONPatchType.expression should evaluate to array");
  }
  Maker maker;
  Json out = Json::array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Value item = list.at(i);
    const Constructed* step = constructed_of(item);
    if (step == nullptr || step->name != kPatchType) {
      return fault("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch");
    }
    Json made = Json::object({{"op", ""}, {"path", ""}});
    for (const auto& [member, value] : step->members) {
      const Constructed* object = constructed_of(value);
      Expected<Json> part = maker.make(value, object == nullptr ? std::string() : object->name);
      if (!part) {
        return part;
      }
      if (member != "from" || !value.text().empty()) {
        made[member] = std::move(*part);
      }
    }
    out.push_back(std::move(made));
  }
  return out;
}

}  // namespace kintsugi::cel
