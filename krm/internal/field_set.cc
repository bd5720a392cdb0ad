#include "krm/internal/field_set.h"

#include <algorithm>
#include <utility>

namespace kintsugi::krm {

namespace {

/// A text without anything that has more than one form in JSON.
bool is_plain(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
           c == '.' || c == '_' || c == '/';
  });
}

/// {"type":"Ready"}: an object of one text, written as Json::dump() writes it.
bool is_canonical(std::string_view text) noexcept {
  constexpr std::string_view kBegin = "{\"", kMiddle = "\":\"", kEnd = "\"}";
  if (!text.starts_with(kBegin) || !text.ends_with(kEnd)) {
    return false;
  }
  const std::size_t middle = text.find(kMiddle, kBegin.size());
  if (middle == std::string_view::npos || middle + kMiddle.size() + kEnd.size() > text.size()) {
    return false;
  }
  const std::size_t value = middle + kMiddle.size();
  return is_plain(text.substr(kBegin.size(), middle - kBegin.size())) &&
         is_plain(text.substr(value, text.size() - kEnd.size() - value));
}

}  // namespace

struct FieldSet::Child {
  std::string element;
  bool member = false;
  FieldSet below;
};

FieldSet::FieldSet() noexcept = default;
FieldSet::FieldSet(const FieldSet& other) = default;
FieldSet::FieldSet(FieldSet&& other) noexcept = default;
FieldSet& FieldSet::operator=(const FieldSet& other) = default;
FieldSet& FieldSet::operator=(FieldSet&& other) noexcept = default;
FieldSet::~FieldSet() = default;

const FieldSet::Child* FieldSet::child(std::string_view element) const noexcept {
  const auto it =
      std::lower_bound(children_.begin(), children_.end(), element,
                       [](const Child& each, std::string_view key) { return each.element < key; });
  return it != children_.end() && it->element == element ? &*it : nullptr;
}

void FieldSet::insert(const std::vector<std::string>& path) {
  FieldSet* set = this;
  for (std::size_t i = 0; i < path.size(); ++i) {
    auto it = std::lower_bound(
        set->children_.begin(), set->children_.end(), path[i],
        [](const Child& each, const std::string& key) { return each.element < key; });
    if (it == set->children_.end() || it->element != path[i]) {
      it = set->children_.insert(it, Child{path[i], false, {}});
    }
    if (i + 1 == path.size()) {
      it->member = true;
    }
    set = &it->below;
  }
}

bool FieldSet::has(const std::vector<std::string>& path) const {
  const FieldSet* set = this;
  const Child* found = nullptr;
  for (const std::string& element : path) {
    found = set->child(element);
    if (found == nullptr) {
      return false;
    }
    set = &found->below;
  }
  return found != nullptr && found->member;
}

void FieldSet::for_each(const std::function<void(const std::string& element, bool member,
                                                 const FieldSet& below)>& visit) const {
  for (const Child& each : children_) {
    visit(each.element, each.member, each.below);
  }
}

bool FieldSet::has_element(std::string_view element) const noexcept {
  const Child* found = child(element);
  return found != nullptr && found->member;
}

const FieldSet* FieldSet::below(std::string_view element) const noexcept {
  const Child* found = child(element);
  return found == nullptr || found->below.empty() ? nullptr : &found->below;
}

void FieldSet::add(std::string element, bool member, FieldSet below) {
  if (!member && below.empty()) {
    return;
  }
  const auto place = std::lower_bound(
      children_.begin(), children_.end(), element,
      [](const Child& each, const std::string& key) { return each.element < key; });
  if (place == children_.end() || place->element != element) {
    children_.insert(place, Child{std::move(element), member, std::move(below)});
  }
}

std::size_t FieldSet::size() const noexcept {
  std::size_t count = 0;
  for (const Child& each : children_) {
    count += (each.member ? 1U : 0U) + each.below.size();
  }
  return count;
}

bool FieldSet::operator==(const FieldSet& other) const {
  return std::equal(children_.begin(), children_.end(), other.children_.begin(),
                    other.children_.end(), [](const Child& a, const Child& b) {
                      return a.element == b.element && a.member == b.member && a.below == b.below;
                    });
}

FieldSet FieldSet::union_with(const FieldSet& other) const {
  FieldSet out;
  auto a = children_.begin();
  auto b = other.children_.begin();
  while (a != children_.end() || b != other.children_.end()) {
    const int order = a == children_.end()         ? 1
                      : b == other.children_.end() ? -1
                                                   : a->element.compare(b->element);
    if (order < 0) {
      out.children_.push_back(*a++);
    } else if (order > 0) {
      out.children_.push_back(*b++);
    } else {
      out.children_.push_back(
          Child{a->element, a->member || b->member, a->below.union_with(b->below)});
      ++a;
      ++b;
    }
  }
  return out;
}

FieldSet FieldSet::intersection(const FieldSet& other) const {
  FieldSet out;
  for (const Child& each : children_) {
    if (const Child* twin = other.child(each.element)) {
      Child made{each.element, each.member && twin->member, each.below.intersection(twin->below)};
      if (made.member || !made.below.empty()) {
        out.children_.push_back(std::move(made));
      }
    }
  }
  return out;
}

FieldSet FieldSet::difference(const FieldSet& other) const {
  FieldSet out;
  for (const Child& each : children_) {
    const Child* twin = other.child(each.element);
    if (twin == nullptr) {
      out.children_.push_back(each);
      continue;
    }
    Child made{each.element, each.member && !twin->member, each.below.difference(twin->below)};
    if (made.member || !made.below.empty()) {
      out.children_.push_back(std::move(made));
    }
  }
  return out;
}

FieldSet FieldSet::difference_below(const FieldSet& other) const {
  FieldSet out;
  for (const Child& each : children_) {
    const Child* twin = other.child(each.element);
    if (twin == nullptr) {
      out.children_.push_back(each);
    } else if (!twin->member) {
      Child made{each.element, each.member, each.below.difference_below(twin->below)};
      if (made.member || !made.below.empty()) {
        out.children_.push_back(std::move(made));
      }
    }
  }
  return out;
}

FieldSet FieldSet::only_below(const FieldSet& other) const {
  FieldSet out;
  for (const Child& each : children_) {
    const Child* twin = other.child(each.element);
    if (twin == nullptr) {
      continue;
    }
    if (twin->member) {
      out.children_.push_back(each);
      continue;
    }
    Child made{each.element, false, each.below.only_below(twin->below)};
    if (!made.below.empty()) {
      out.children_.push_back(std::move(made));
    }
  }
  return out;
}

void FieldSet::collect(std::vector<std::string>& prefix,
                       std::vector<std::vector<std::string>>& out) const {
  for (const Child& each : children_) {
    prefix.push_back(each.element);
    if (each.member) {
      out.push_back(prefix);
    }
    each.below.collect(prefix, out);
    prefix.pop_back();
  }
}

std::vector<std::vector<std::string>> FieldSet::paths() const {
  std::vector<std::vector<std::string>> out;
  std::vector<std::string> prefix;
  collect(prefix, out);
  return out;
}

std::string FieldSet::path_text(const std::vector<std::string>& path) {
  std::string out;
  for (const std::string& element : path) {
    const std::string_view body = std::string_view(element).substr(2);
    switch (element.front()) {
      case 'f':
        out += '.';
        out += body;
        break;
      case 'k': {
        out += '[';
        const auto keys = Json::parse(body);
        bool first = true;
        if (keys) {
          for (const JsonMember& key : keys->members()) {
            if (!first) {
              out += ',';
            }
            first = false;
            out += key.key + "=" + key.value.dump();
          }
        }
        out += ']';
        break;
      }
      case 'v':
        out += "[=";
        out += body;
        out += ']';
        break;
      default:
        out += '[';
        out += body;
        out += ']';
    }
  }
  return out;
}

Json FieldSet::to_json() const {
  Json out = Json::object();
  Json::Object& members = out.edit_members();
  members.reserve(children_.size());
  for (const Child& each : children_) {
    Json below = each.below.to_json();
    if (each.member && !each.below.empty()) {
      below["."] = Json::object();
    }
    members.push_back({each.element, std::move(below)});
  }
  return out;
}

Expected<FieldSet> FieldSet::from_json(const Json& fields) {
  FieldSet out;
  if (fields.is_null()) {
    return out;
  }
  if (!fields.is_object()) {
    return fail(Errc::kBadRequest, "expected object in managed fields");
  }
  out.children_.reserve(fields.size());
  for (const JsonMember& member : fields.members()) {
    if (member.key == ".") {
      continue;
    }
    if (member.key.size() < 2 || member.key[1] != ':') {
      return fail(Errc::kBadRequest, "missing colon in managed field " + member.key);
    }
    Child made;
    switch (member.key[0]) {
      case 'f':
      case 'i':
        made.element = member.key;
        break;
      case 'k':
      case 'v': {
        if (is_canonical(std::string_view(member.key).substr(2))) {
          made.element = member.key;
          break;
        }
        const auto value = Json::parse(std::string_view(member.key).substr(2));
        if (!value || (member.key[0] == 'k' && !value->is_object())) {
          return fail(Errc::kBadRequest, "malformed managed field " + member.key);
        }
        made.element = member.key.substr(0, 2) + value->dump();
        break;
      }
      default:
        continue;  // a form that is not known yet
    }
    auto below = from_json(member.value);
    if (!below) {
      return below;
    }
    made.member = below->empty() || member.value.find(".") != nullptr;
    made.below = std::move(*below);
    out.children_.push_back(std::move(made));
  }
  std::sort(out.children_.begin(), out.children_.end(),
            [](const Child& a, const Child& b) { return a.element < b.element; });
  out.children_.erase(
      std::unique(out.children_.begin(), out.children_.end(),
                  [](const Child& a, const Child& b) { return a.element == b.element; }),
      out.children_.end());
  return out;
}

}  // namespace kintsugi::krm
