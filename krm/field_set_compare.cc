#include <algorithm>
#include <map>
#include <utility>

#include "krm/internal/field_set.h"
#include "krm/internal/typed_walk.h"

namespace kintsugi::krm {

namespace {

using Path = std::vector<std::string>;

Path extended(const Path& path, std::string element) {
  Path out = path;
  out.push_back(std::move(element));
  return out;
}

class SetBuilder {
 public:
  explicit SetBuilder(FieldSet& out) : out_(out) {}

  void visit(const Schema* schema, const Json& value) {
    const Atom atom = atom_of(schema, value);
    if (atom.atomic || atom.shape == Shape::kLeaf) {
      out_.insert(path_);
    } else if (atom.shape == Shape::kList) {
      list(*schema, value);
    } else {
      map(schema, value);
    }
  }

 private:
  void list(const Schema& schema, const Json& value) {
    std::map<std::string, int> seen;
    for (const Json& item : value.items()) {
      ++seen[list_item_element(schema, item)];
    }
    for (const Json& item : value.items()) {
      std::string element = list_item_element(schema, item);
      if (element.empty()) {
        continue;
      }
      const bool once = seen[element] == 1;
      path_.push_back(std::move(element));
      if (once) {
        visit(schema.items.get(), item);
      }
      out_.insert(path_);
      path_.pop_back();
    }
  }

  void map(const Schema* schema, const Json& value) {
    for (const JsonMember& member : value.members()) {
      path_.push_back("f:" + member.key);
      visit(member_schema(schema, member.key), member.value);
      if (member.value.is_null() || (member.value.is_object() && member.value.size() == 0) ||
          !declares(schema, member.key)) {
        out_.insert(path_);
      }
      path_.pop_back();
    }
  }

  FieldSet& out_;
  Path path_;
};

class Comparer {
 public:
  /// @param whole  of objects: without metadata.managedFields
  explicit Comparer(FieldChanges& out, bool whole = false) : out_(out), whole_(whole) {}

  /// At least one of the two is there.
  void visit(const Schema* schema, const Json* before, const Json* after, const Path& path) {
    bool leaf = false;
    if (after == nullptr) {
      walk(atom_of(schema, *before), schema, before, after, path, leaf);
    } else if (before == nullptr || atom_of(schema, *before) == atom_of(schema, *after)) {
      walk(atom_of(schema, *after), schema, before, after, path, leaf);
    } else {
      bool ignored = false;
      walk(atom_of(schema, *before), schema, before, after, path, ignored);
      walk(atom_of(schema, *after), schema, before, after, path, leaf);
    }
    if (!leaf) {
      if (before == nullptr) {
        out_.added.insert(path);
      } else if (after == nullptr) {
        out_.removed.insert(path);
      }
    }
  }

 private:
  void as_leaf(const Json* before, const Json* after, const Path& path, bool& leaf) {
    leaf = true;
    if (before == nullptr) {
      out_.added.insert(path);
    } else if (after == nullptr) {
      out_.removed.insert(path);
    } else if (!(*before == *after)) {
      out_.modified.insert(path);
    }
  }

  void walk(Atom atom, const Schema* schema, const Json* before, const Json* after,
            const Path& path, bool& leaf) {
    const auto count = [&](const Json* value) {
      if (value == nullptr) {
        return std::size_t{0};
      }
      return atom.shape == Shape::kList ? value->items().size() : value->members().size();
    };
    if (atom.shape == Shape::kLeaf || atom.atomic || (count(before) == 0 && count(after) == 0)) {
      as_leaf(before, after, path, leaf);
    } else if (atom.shape == Shape::kList) {
      list(*schema, before, after, path);
    } else {
      map(schema, before, after, path);
    }
  }

  void map(const Schema* schema, const Json* before, const Json* after, const Path& path) {
    static const Json::Object kNone;
    const Json::Object& left = before == nullptr ? kNone : before->members();
    const Json::Object& right = after == nullptr ? kNone : after->members();
    auto a = left.begin();
    auto b = right.begin();
    while (a != left.end() || b != right.end()) {
      const int order = a == left.end() ? 1 : b == right.end() ? -1 : a->key.compare(b->key);
      const std::string& key = order <= 0 ? a->key : b->key;
      const Json* old_value = order <= 0 ? &a->value : nullptr;
      const Json* new_value = order >= 0 ? &b->value : nullptr;
      const bool skipped =
          whole_ && key == "managedFields" && path.size() == 1 && path[0] == "f:metadata";
      if (!skipped &&
          (old_value == nullptr || new_value == nullptr || !(*old_value == *new_value))) {
        visit(member_schema(schema, key), old_value, new_value, extended(path, "f:" + key));
      }
      if (order <= 0) {
        ++a;
      }
      if (order >= 0) {
        ++b;
      }
    }
  }

  struct Items {
    std::vector<const Json*> before, after;
  };

  void list(const Schema& schema, const Json* before, const Json* after, const Path& path) {
    std::map<std::string, Items> items;
    if (before != nullptr) {
      for (const Json& item : before->items()) {
        items[list_item_element(schema, item)].before.push_back(&item);
      }
    }
    if (after != nullptr) {
      for (const Json& item : after->items()) {
        items[list_item_element(schema, item)].after.push_back(&item);
      }
    }
    for (const auto& [element, both] : items) {
      if (!element.empty()) {
        compare_items(schema, both, extended(path, element));
      }
    }
  }

  void compare_items(const Schema& schema, const Items& both, const Path& path) {
    const std::size_t left = both.before.size();
    const std::size_t right = both.after.size();
    if (left <= 1 && right <= 1) {
      visit(schema.items.get(), left == 0 ? nullptr : both.before[0],
            right == 0 ? nullptr : both.after[0], path);
    } else if (left >= 2 && right >= 2) {
      const bool same =
          left == right && std::equal(both.before.begin(), both.before.end(), both.after.begin(),
                                      [](const Json* a, const Json* b) { return *a == *b; });
      if (!same) {
        out_.modified.insert(path);
      }
    } else if (left >= 2) {
      if (right != 0) {
        visit(schema.items.get(), nullptr, both.after[0], path);
      }
      out_.removed.insert(path);
    } else {
      if (left != 0) {
        visit(schema.items.get(), both.before[0], nullptr, path);
      }
      out_.added.insert(path);
    }
  }

  FieldChanges& out_;
  const bool whole_;
};

}  // namespace

std::string list_item_element(const Schema& list, const Json& item) {
  if (list.list_type == ListType::kSet) {
    if (item.is_null() || item.is_object() || item.is_array()) {
      return {};
    }
    return "v:" + item.dump();
  }
  if (list.list_type != ListType::kMap || !item.is_object()) {
    return {};
  }
  if (list.list_map_keys.size() == 1) {  // without an object of them
    const std::string& key = list.list_map_keys.front();
    if (const Json* value = item.find(key)) {
      std::string out = "k:{";
      append_json_string(out, key);
      out += ':';
      value->dump_to(out);
      out += '}';
      return out;
    }
  }
  Json keys = Json::object();
  for (const std::string& key : list.list_map_keys) {
    if (const Json* value = item.find(key)) {
      keys[key] = *value;
    } else if (list.items != nullptr) {
      const SchemaProperty* property = list.items->property(key);
      if (property != nullptr && property->schema->default_value) {
        keys[key] = *property->schema->default_value;
      } else if (property != nullptr && property->always &&
                 property->schema->type == SchemaType::kString) {
        keys[key] = Json("");  // as the reference's schema of builtin kinds has it
      }
    }
  }
  return keys.size() == 0 ? std::string() : "k:" + keys.dump();
}

FieldSet fields_of(const Schema* schema, const Json& object) {
  FieldSet out;
  SetBuilder(out).visit(schema, object);
  return out;
}

FieldChanges compare_fields(const Schema* schema, const Json& before, const Json& after) {
  FieldChanges out;
  Comparer(out).visit(schema, &before, &after, {});
  return out;
}

FieldChanges compare_objects(const Schema* schema, const Json& before, const Json& after) {
  FieldChanges out;
  Comparer(out, true).visit(schema, &before, &after, {});
  return out;
}

}  // namespace kintsugi::krm
