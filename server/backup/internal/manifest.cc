#include "server/backup/internal/manifest.h"

#include <numeric>
#include <utility>

namespace kintsugi::server {
namespace {

using krm::Json;

Json number(std::uint64_t value) { return Json(static_cast<std::int64_t>(value)); }

std::uint64_t number_of(const Json& object, std::string_view key) {
  const Json* found = object.find(key);
  return found == nullptr ? 0 : static_cast<std::uint64_t>(found->as_integer());
}

std::string text_of(const Json& object, std::string_view key) {
  return std::string(object.text({key}));
}

template <class T, class Write>
Json array_of(const std::vector<T>& items, Write write) {
  Json out = Json::array();
  for (const T& item : items) {
    out.push_back(write(item));
  }
  return out;
}

template <class Read>
auto items_of(const Json& object, std::string_view key, Read read) {
  std::vector<decltype(read(object))> out;
  if (const Json* list = object.find(key)) {
    for (const Json& item : list->items()) {
      out.push_back(read(item));
    }
  }
  return out;
}

Json write_text(const std::string& text) { return Json(text); }
std::string read_text(const Json& json) { return std::string(json.as_string()); }

Json write_file_entry(const BackupFile& file) {
  return Json::object(
      {{"name", file.name}, {"bytes", number(file.bytes)}, {"sha256", file.sha256}});
}
BackupFile read_file_entry(const Json& json) {
  return {text_of(json, "name"), number_of(json, "bytes"), text_of(json, "sha256")};
}

Json write_store(const BackedUpStore& store) {
  return Json::object({{"name", store.name},
                       {"incarnation", store.incarnation},
                       {"after", number(store.after)},
                       {"revision", number(store.revision)},
                       {"keys", number(store.keys)},
                       {"damaged", array_of(store.damaged, write_text)},
                       {"rows", array_of(store.rows, write_file_entry)},
                       {"live", array_of(store.live, write_file_entry)}});
}
BackedUpStore read_store(const Json& json) {
  return {text_of(json, "name"),
          text_of(json, "incarnation"),
          number_of(json, "after"),
          number_of(json, "revision"),
          number_of(json, "keys"),
          items_of(json, "damaged", read_text),
          items_of(json, "rows", read_file_entry),
          items_of(json, "live", read_file_entry)};
}

std::uint64_t bytes_of(const std::vector<BackupFile>& files) {
  return std::accumulate(
      files.begin(), files.end(), std::uint64_t{0},
      [](std::uint64_t sum, const BackupFile& file) { return sum + file.bytes; });
}

}  // namespace

const BackedUpStore* BackupManifest::find(std::string_view store) const noexcept {
  for (const BackedUpStore& one : stores) {
    if (one.name == store) {
      return &one;
    }
  }
  return nullptr;
}

std::uint64_t BackupManifest::keys() const noexcept {
  return std::accumulate(
      stores.begin(), stores.end(), std::uint64_t{0},
      [](std::uint64_t sum, const BackedUpStore& store) { return sum + store.keys; });
}

std::uint64_t BackupManifest::bytes() const noexcept {
  std::uint64_t sum = bytes_of(files);
  for (const BackedUpStore& store : stores) {
    sum += bytes_of(store.rows) + bytes_of(store.live);
  }
  return sum;
}

std::string write_manifest(BackupManifest& manifest, const BackupSeal& seal) {
  Json content = Json::object({{"format", Json(BackupManifest::kFormat)},
                               {"id", manifest.id},
                               {"time", Json(manifest.time)},
                               {"version", manifest.version},
                               {"sealed", Json(manifest.is_sealed)},
                               {"cut", manifest.is_exact ? "exact" : "loose"},
                               {"parent", manifest.parent},
                               {"parentMark", manifest.parent_mark},
                               {"stores", array_of(manifest.stores, write_store)},
                               {"files", array_of(manifest.files, write_file_entry)},
                               {"elsewhere", array_of(manifest.elsewhere, write_text)}});
  manifest.mark = seal.mark_of(content.dump());
  return Json::object({{"backup", std::move(content)}, {"mark", manifest.mark}}).dump_pretty();
}

Expected<BackupManifest> read_manifest(std::string_view text, const Secret& key) {
  const auto json = Json::parse(text);
  const Json* content = json ? json->find("backup") : nullptr;
  if (content == nullptr) {
    return fail(Errc::kCorrupt, "is cut off, or no manifest");
  }
  const Json* format = content->find("format");
  if (format == nullptr || format->as_integer() != BackupManifest::kFormat) {
    return fail(Errc::kConfig, "has another format than " +
                                   std::to_string(BackupManifest::kFormat) +
                                   ", which this program knows");
  }
  BackupManifest out;
  out.id = text_of(*content, "id");
  out.time = static_cast<std::int64_t>(number_of(*content, "time"));
  out.version = text_of(*content, "version");
  const Json* sealed = content->find("sealed");
  out.is_sealed = sealed != nullptr && sealed->as_bool();
  out.is_exact = content->text({"cut"}) == "exact";
  out.parent = text_of(*content, "parent");
  out.parent_mark = text_of(*content, "parentMark");
  out.stores = items_of(*content, "stores", read_store);
  out.files = items_of(*content, "files", read_file_entry);
  out.elsewhere = items_of(*content, "elsewhere", read_text);
  out.mark = text_of(*json, "mark");
  if (out.is_sealed == key.empty()) {
    return fail(Errc::kConfig, out.is_sealed ? "is encrypted: say --key-file"
                                             : "is not encrypted, but --key-file is given");
  }
  const BackupSeal seal = out.is_sealed ? BackupSeal(key, out.id) : BackupSeal();
  if (seal.mark_of(content->dump()) != out.mark) {
    return fail(Errc::kCorrupt, out.is_sealed ? "was made with another key, or has been changed"
                                              : "has been changed");
  }
  return out;
}

}  // namespace kintsugi::server
