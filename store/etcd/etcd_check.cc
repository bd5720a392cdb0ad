#include "store/etcd/etcd_check.h"

#include <utility>

#include "store/etcd/internal/connection.h"
#include "store/etcd/internal/introduction.h"

namespace kintsugi::store {

net::Task<Expected<void>> check_etcd(net::Loop& loop, EtcdParams params) {
  auto connection = etcd::understood_connection(params);
  if (!connection) {
    co_return fail(std::move(connection.error()));
  }
  const etcd::Keys keys(params.prefix + "/");
  etcd::Client client(loop, {std::move(connection->urls), std::move(connection->tls)});
  etcd::MemberChoice choice(client.members());
  etcd::Introduction introduction(loop, client, choice, params, keys, "");
  net::Task<Expected<void>> authenticating = introduction.authenticate();
  Expected<void> known = co_await authenticating;
  if (!known) {
    co_return known;
  }
  net::Task<Expected<void>> looking = introduction.look_at_members();
  Expected<void> fit = co_await looking;
  if (!fit) {
    co_return fit;
  }
  net::Task<Expected<etcd::Introduction::Read>> reading = introduction.read_meta();
  Expected<etcd::Introduction::Read> read = co_await reading;
  if (!read) {
    co_return fail(std::move(read.error()));
  }
  co_return Expected<void>();
}

}  // namespace kintsugi::store
