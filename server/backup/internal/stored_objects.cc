#include "server/backup/internal/stored_objects.h"

#include <utility>

#include "apiserver/stored_object.h"
#include "server/encryption.h"
#include "server/files.h"

namespace kintsugi::server {

Expected<StoredObjects> StoredObjects::of(const Layout& layout) {
  const std::string file = encryption_config_path(layout);
  if (!file_exists(file)) {
    return StoredObjects(store::ValueCodec::none());
  }
  auto codec = read_encryption_config(file);
  if (!codec) {
    return fail(std::move(codec.error()));
  }
  return StoredObjects(std::move(*codec));
}

Expected<std::string> StoredObjects::open(const store::EntryView& row) const {
  auto opened = codec_->open(row.key, row.value);
  if (!opened) {
    return fail(std::move(opened.error()));
  }
  return opened->is_sealed ? std::move(opened->plain) : std::string(row.value);
}

Expected<krm::Json> StoredObjects::read(const store::EntryView& row) const {
  const auto opened = open(row);
  const auto stored = opened ? apiserver::StoredView::parse(*opened) : fail(opened.error().clone());
  return stored ? krm::Json::parse(stored->text()) : fail(stored.error().clone());
}

Expected<std::string> StoredObjects::changed(
    const store::EntryView& row, const std::function<void(krm::Json& object)>& change) const {
  const auto opened = open(row);
  const auto stored = opened ? apiserver::StoredView::parse(*opened) : fail(opened.error().clone());
  auto object = stored ? krm::Json::parse(stored->text()) : fail(stored.error().clone());
  if (!object) {
    return fail(std::move(object.error()));
  }
  change(*object);
  return codec_->seal(row.key, apiserver::encode_stored(*object, stored->stamp));
}

}  // namespace kintsugi::server
