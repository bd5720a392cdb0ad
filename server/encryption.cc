#include "server/encryption.h"

#include <utility>

#include "base/digest.h"
#include "base/log.h"
#include "base/secret_file.h"
#include "base/strings.h"
#include "server/files.h"

namespace kintsugi::server {
namespace {

std::string content_digest(std::string_view text) {
  const auto bytes = sha256(text);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Expected<std::shared_ptr<const store::ValueCodec>> parse_at(const std::string& file,
                                                            std::string_view text) {
  auto codec = store::ValueCodec::parse(text);
  if (!codec) {
    return fail(std::move(codec.error()).at(file));
  }
  return codec;
}

}  // namespace

std::string encryption_config_path(const Layout& layout) {
  return layout.pki() + "/encryption.yaml";
}

Expected<void> ensure_encryption_config(const Layout& layout) {
  const std::string path = encryption_config_path(layout);
  if (file_exists(path)) {
    return {};
  }
  std::string bytes = random_bytes(32);
  std::string secret = base64_encode(bytes);
  std::string text =
      "# Made by `kintsugi up`; docs/configuration.md, \"Secrets at rest\". Without this file the\n"
      "# Secrets of all shards are lost: keep a copy of it, apart from the data.\n"
      "apiVersion: apiserver.config.k8s.io/v1\n"
      "kind: EncryptionConfiguration\n"
      "resources:\n"
      "- resources: [secrets]\n"
      "  providers:\n"
      "  - aesgcm:\n"
      "      keys:\n"
      "      - name: up-" +
      hex_encode(random_bytes(4)) +
      "\n"
      "        secret: " +
      secret +
      "\n"
      "  - identity: {}\n";
  const auto made = create_file(path, text, 0600);
  wipe(bytes);
  wipe(secret);
  wipe(text);
  if (!made) {
    return fail(made.error().clone());
  }
  return {};
}

Expected<std::shared_ptr<const store::ValueCodec>> read_encryption_config(const std::string& file) {
  auto text = read_secret_file(file);
  if (!text) {
    return fail(std::move(text.error()));
  }
  return parse_at(file, text->view());
}

Expected<std::unique_ptr<ShardEncryption>> ShardEncryption::open(store::Store& inner,
                                                                 const Layout& layout,
                                                                 const std::string& file) {
  const bool is_named = !file.empty();
  std::unique_ptr<ShardEncryption> made(
      new ShardEncryption(inner, is_named ? file : encryption_config_path(layout), is_named));
  if (auto loaded = made->reload(); !loaded) {
    return fail(std::move(loaded.error()));
  }
  return made;
}

Expected<void> ShardEncryption::reload() {
  if (!is_named_ && !file_exists(file_)) {
    if (!digest_.empty()) {
      return fail(Errc::kConfig, file_ + ": is gone; the keys that were read from it stay");
    }
    return {};
  }
  auto text = read_secret_file(file_);
  if (!text) {
    return fail(std::move(text.error()));
  }
  std::string digest = content_digest(text->view());
  if (digest == digest_) {
    return {};
  }
  auto codec = parse_at(file_, text->view());
  if (!codec) {
    return fail(std::move(codec.error()));
  }
  log_info("encryption at rest",
           {{"file", file_}, {"resources", join((*codec)->describe(), "; ")}});
  store_.set_codec(std::move(*codec));
  digest_ = std::move(digest);
  return {};
}

}  // namespace kintsugi::server
