#include "server/internal/store_note.h"

#include <utility>

#include "server/etcd_password.h"
#include "server/files.h"

namespace kintsugi::server {
namespace {

using krm::Json;

struct TextField {
  const char* name;
  std::string store::EtcdParams::*member;
};
constexpr TextField kTexts[] = {{"prefix", &store::EtcdParams::prefix},
                                {"caFile", &store::EtcdParams::ca_file},
                                {"certFile", &store::EtcdParams::cert_file},
                                {"keyFile", &store::EtcdParams::key_file},
                                {"user", &store::EtcdParams::user}};
constexpr const char* kEndpoints = "endpoints";
constexpr const char* kInsecure = "insecure";
constexpr const char* kPasswordFile = "passwordFile";

std::string file_in(const std::string& folder) { return folder + '/' + kStoreNote; }

}  // namespace

Json to_json(const StoreNote& note) {
  const std::string password_file =
      note.password_file.empty() ? "" : absolute_path(note.password_file);
  Json endpoints = Json::array();
  for (const std::string& one : note.etcd.endpoints) {
    endpoints.push_back(Json(one));
  }
  Json object = Json::object({{kEndpoints, std::move(endpoints)},
                              {kInsecure, Json(note.etcd.insecure)},
                              {kPasswordFile, password_file}});
  for (const TextField& field : kTexts) {
    object[field.name] = note.etcd.*field.member;
  }
  return object;
}

Expected<void> write_store_note(const std::string& folder, const StoreNote& note) {
  return write_file(file_in(folder), to_json(note).dump_pretty(), 0600);
}

std::optional<StoreNote> parse_store_note(const Json& object) {
  const Json* const endpoints = object.find(kEndpoints);
  StoreNote note;
  if (endpoints != nullptr) {
    for (const Json& one : endpoints->items()) {
      note.etcd.endpoints.emplace_back(one.as_string());
    }
    for (const TextField& field : kTexts) {
      note.etcd.*field.member = object.text({field.name});
    }
    const Json* const insecure = object.find(kInsecure);
    note.etcd.insecure = insecure != nullptr && insecure->as_bool();
    note.password_file = object.text({kPasswordFile});
  }
  return note.etcd.endpoints.empty() || note.etcd.prefix.empty() ? std::nullopt
                                                                 : std::optional(std::move(note));
}

Expected<std::optional<StoreNote>> read_store_note(const std::string& folder) {
  const std::string file = file_in(folder);
  if (!file_exists(file)) {
    return std::optional<StoreNote>();
  }
  const auto text = read_file(file);
  if (!text) {
    return fail(text.error().clone());
  }
  const auto object = Json::parse(*text);
  auto note = object ? parse_store_note(*object) : std::nullopt;
  if (!note) {
    return fail(Errc::kConfig, file + ": does not say where the data is");
  }
  return note;
}

Expected<store::EtcdParams> access_of(const StoreNote& note) {
  auto password = read_etcd_password(note.password_file);
  if (!password) {
    return fail(std::move(password.error()));
  }
  store::EtcdParams params = note.etcd;
  params.password = std::move(*password);
  if (!note.password_file.empty()) {
    params.password_now = [file = note.password_file] { return read_etcd_password(file); };
  }
  return params;
}

}  // namespace kintsugi::server
