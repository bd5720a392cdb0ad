// What shards hear of the Partitions that the proxy stores (KK-201).
#include "base/digest.h"
#include "base/strings.h"
#include "base/version.h"
#include "server/proxy_control.h"
#include "shards/own_requests.h"
#include "store/compared.h"

namespace kintsugi::server {
namespace {

constexpr std::string_view kSourceKey = "kintsugi.partitions/source";  // no key of an object

}  // namespace

/// With kcp's command line the shards are kcp's: they have Partitions of their own, and slices that
/// follow those.
bool ProxyControl::tells_partitions() const noexcept {
  return config_.topology.groups.partitions != proxy::GroupMode::kShard &&
         !config_.kcp_command_line && !config_.has_plain_servers();
}

/// A name for the store, which nobody else knows: the proxies that share it are one source.
Expected<void> ProxyControl::read_note_source() {
  const std::string made = sha256_hex(random_bytes(32)).substr(0, 32);
  auto source = store::get_or_put(*store_, kSourceKey, made);
  if (!source) {
    return fail(std::move(source.error()));
  }
  note_source_ = std::move(*source);
  return {};
}

void ProxyControl::start_notes() {
  topology::PartitionNotesParams params;
  params.source = note_source_;  // "" on a late store
  params.owner = [this](std::string_view cluster) -> std::optional<topology::ShardId> {
    const auto fact = feed_->index().cluster(cluster);
    return fact ? std::optional(fact->owner) : std::nullopt;
  };
  params.send = [this](topology::ShardId id, net::FetchRequest request,
                       topology::PartitionNotesParams::Answered done) {
    const topology::ShardInfo* shard = feed_->index().shard(id);
    net::Upstream* upstream = shard == nullptr ? nullptr : feed_->upstream(shard->spec.name);
    request.headers.set("user-agent", "kintsugi-proxy/" + std::string(product_version()));
    return upstream == nullptr
               ? nullptr
               : shards::own_fetch(loop_, *upstream, std::move(request), std::move(done));
  };
  notes_ = std::make_unique<topology::PartitionNotes>(loop_, *objects_, std::move(params));
  notes_->set_active(!store_->is_shared());  // then with the duty
  feed_->add_listener(*notes_);
}

}  // namespace kintsugi::server
