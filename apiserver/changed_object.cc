#include "apiserver/changed_object.h"

#include <string>
#include <string_view>
#include <utility>

#include "apiserver/served_kind.h"
#include "apiserver/stored_object.h"

namespace kintsugi::apiserver {
namespace {

using krm::Json;

Json decoded(const ResourcePtr& def, std::string_view value, store::Revision revision) {
  std::string version;
  if (def != nullptr) {
    const Expected<StoredView> stored = StoredView::parse(value);
    const ResourceVersion* written = stored ? written_version(*def, stored->stamp) : nullptr;
    version = def->api_version(written == nullptr ? def->storage_version().name : written->name);
  }
  Expected<Json> object = decode_stored(
      value, version, def == nullptr ? std::string_view() : std::string_view(def->kind), revision);
  return object ? std::move(*object) : Json::object();
}

Json metadata_alone(std::string_view value, store::Revision revision) {
  const Expected<StoredView> stored = StoredView::parse(value);
  if (!stored) {
    return Json::object();
  }
  constexpr std::string_view kKey = "\"managedFields\":";
  const auto [before, after] = metadata_of(*stored);
  const std::string_view fields = metadata_member(*stored, "managedFields");
  std::string text = "{\"metadata\":";
  if (fields.empty()) {
    text += before;
  } else {
    const auto begin = static_cast<std::size_t>(fields.data() - before.data());
    text += before.substr(0, begin - kKey.size());
    text += before.substr(begin + fields.size() + 1);  // the comma: a resourceVersion follows
  }
  text += std::to_string(revision);
  text += after;
  text += '}';
  Expected<Json> object = Json::parse(text);
  return object ? std::move(*object) : Json::object();
}

}  // namespace

struct ChangedObject::State {
  ResourcePtr def;
  SharedBytes value;
  store::Revision revision = 0;
  std::shared_ptr<const Json> whole;
  std::shared_ptr<const Json> metadata;
};

ChangedObject::ChangedObject(std::shared_ptr<const Json> object) {
  if (object != nullptr) {
    state_ = std::make_shared<State>();
    state_->whole = std::move(object);
  }
}

ChangedObject::ChangedObject(ResourcePtr def, SharedBytes value, store::Revision revision) {
  if (StoredView::parse(value.view())) {
    state_ = std::make_shared<State>();
    state_->def = std::move(def);
    state_->value = std::move(value);
    state_->revision = revision;
  }
}

ChangedObject::operator std::shared_ptr<const Json>() const {
  return state_ == nullptr ? nullptr : read();
}

const std::shared_ptr<const Json>& ChangedObject::read() const {
  State& state = *state_;
  if (state.whole == nullptr) {
    state.whole =
        std::make_shared<const Json>(decoded(state.def, state.value.view(), state.revision));
  }
  return state.whole;
}

const Json& ChangedObject::meta() const {
  State& state = *state_;
  if (state.whole != nullptr) {
    return *state.whole;
  }
  if (state.metadata == nullptr) {
    state.metadata =
        std::make_shared<const Json>(metadata_alone(state.value.view(), state.revision));
  }
  return *state.metadata;
}

}  // namespace kintsugi::apiserver
