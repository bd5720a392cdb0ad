#include <algorithm>
#include <utility>

#include "krm/strict.h"
#include "krm/structural.h"
#include "krm/types/builtin_types.h"

namespace kintsugi::krm {

namespace {

bool is_meta_field(std::string_view name) {
  return name == "apiVersion" || name == "kind" || name == "metadata";
}

std::string child_path(const std::string& path, std::string_view key) {
  std::string out = path;
  if (!out.empty()) {
    out += '.';
  }
  out += key;
  return out;
}

/// Others have no fields.
bool has_parts(const Json& value) noexcept { return value.is_object() || value.is_array(); }

std::string item_path(const std::string& path, std::size_t index) {
  return path + '[' + std::to_string(index) + ']';
}

class Pruner {
 public:
  explicit Pruner(std::vector<std::string>& dropped) : dropped_(dropped) {}

  void object(const Schema& schema, Json& value, const std::string& path, bool root) {
    const bool resource = root || schema.embedded_resource;
    Json::Object& members = value.edit_members();
    std::erase_if(members, [&](JsonMember& member) {
      if (resource && is_meta_field(member.key)) {
        return false;
      }
      const SchemaProperty* property = schema.property(member.key);
      const Schema* next = property != nullptr ? property->schema.get() : schema.additional.get();
      if (next != nullptr) {
        if (has_parts(member.value)) {
          visit(next, member.value, child_path(path, member.key));
        }
        return false;
      }
      if (schema.preserve_unknown) {
        return false;
      }
      dropped_.push_back(child_path(path, member.key));
      return true;
    });
  }

 private:
  void visit(const Schema* schema, Json& value, const std::string& path) {
    if (value.is_object()) {
      object(*schema, value, path, false);
    } else if (value.is_array()) {
      if (schema->items == nullptr && schema->preserve_unknown) {
        return;
      }
      static const Schema& nothing = *new Schema();
      const Schema* items = schema->items ? schema->items.get() : &nothing;
      std::size_t index = 0;
      for (Json& item : value.edit_items()) {
        visit(items, item, item_path(path, index++));
      }
    }
  }

  std::vector<std::string>& dropped_;
};

class Coercer {
 public:
  explicit Coercer(std::vector<std::string>* unknown) : unknown_(unknown) {}

  Expected<void> visit(const Schema& schema, Json& value, const std::string& path, bool root) {
    if (value.is_array()) {
      if (schema.items == nullptr) {
        return {};
      }
      std::size_t index = 0;
      for (Json& item : value.edit_items()) {
        if (auto done = visit(*schema.items, item, item_path(path, index++), false); !done) {
          return done;
        }
      }
      return {};
    }
    if (!value.is_object()) {
      return {};
    }
    const bool resource = root || schema.embedded_resource;
    for (JsonMember& member : value.edit_members()) {
      if (resource && is_meta_field(member.key)) {
        if (auto done = meta_field(member, path); !done) {
          return done;
        }
        continue;
      }
      if (!has_parts(member.value)) {
        continue;
      }
      const SchemaProperty* property = schema.property(member.key);
      const Schema* next = property != nullptr ? property->schema.get() : schema.additional.get();
      if (next == nullptr) {
        continue;
      }
      if (auto done = visit(*next, member.value, child_path(path, member.key), false); !done) {
        return done;
      }
    }
    return {};
  }

 private:
  Expected<void> meta_field(JsonMember& member, const std::string& path) {
    const std::string here = child_path(path, member.key);
    if (member.key != "metadata") {
      if (!member.value.is_string()) {
        return fail(Errc::kBadRequest,
                    here + ": Invalid value: " + member.value.dump() + ": must be a string");
      }
      return {};
    }
    std::vector<std::string> dropped;
    const std::string given = path.empty() ? std::string() : member.value.dump();
    if (auto done = decode_typed(*object_meta_schema(), member.value, &dropped, here); !done) {
      return path.empty() ? std::move(done)
                          : fail(Errc::kBadRequest, here + ": Invalid value: " + given + ": " +
                                                        std::string(done.error().message()));
    }
    if (unknown_ != nullptr) {
      unknown_->insert(unknown_->end(), dropped.begin(), dropped.end());
    }
    return {};
  }

  std::vector<std::string>* unknown_;
};

bool lacks_value(const Json& value, const Schema& schema) {
  return value.is_null() && !schema.nullable;
}

void drop_nulls(const Schema& schema, Json& value) {
  if (value.is_object()) {
    std::erase_if(value.edit_members(), [&](JsonMember& member) {
      const SchemaProperty* property = schema.property(member.key);
      const Schema* next = property != nullptr ? property->schema.get() : schema.additional.get();
      if (next == nullptr) {
        return false;
      }
      if (member.value.is_null()) {
        const bool free_form = next->type == SchemaType::kAny && property == nullptr;
        return !free_form && !next->nullable && !next->default_value;
      }
      drop_nulls(*next, member.value);
      return false;
    });
  } else if (value.is_array() && schema.items) {
    for (Json& item : value.edit_items()) {
      drop_nulls(*schema.items, item);
    }
  }
}

}  // namespace

std::vector<std::string> prune(const Schema& schema, Json& object) {
  std::vector<std::string> dropped;
  if (object.is_object()) {
    Pruner(dropped).object(schema, object, {}, true);
  }
  std::sort(dropped.begin(), dropped.end());
  return dropped;
}

Expected<void> coerce_metadata(const Schema& schema, Json& object,
                               std::vector<std::string>* unknown) {
  auto done = Coercer(unknown).visit(schema, object, {}, true);
  if (unknown != nullptr) {
    std::sort(unknown->begin(), unknown->end());
  }
  return done;
}

void fill_defaults(const Schema& schema, Json& value) {
  if (value.is_object()) {
    for (const SchemaProperty& property : schema.properties) {
      if (!property.schema->default_value) {
        continue;
      }
      const Json* member = value.find(property.name);
      if (member == nullptr || lacks_value(*member, *property.schema)) {
        value[property.name] = *property.schema->default_value;
      }
    }
    for (JsonMember& member : value.edit_members()) {
      if (const SchemaProperty* property = schema.property(member.key)) {
        fill_defaults(*property->schema, member.value);
      } else if (schema.additional) {
        if (lacks_value(member.value, *schema.additional) && schema.additional->default_value) {
          member.value = *schema.additional->default_value;
        }
        fill_defaults(*schema.additional, member.value);
      }
    }
  } else if (value.is_array() && schema.items) {
    for (Json& item : value.edit_items()) {
      if (lacks_value(item, *schema.items) && schema.items->default_value) {
        item = *schema.items->default_value;
      }
      fill_defaults(*schema.items, item);
    }
  }
}

void apply_defaults(const Schema& schema, Json& value) {
  fill_defaults(schema, value);
  drop_nulls(schema, value);
}

}  // namespace kintsugi::krm
