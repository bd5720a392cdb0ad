#pragma once

#include <memory>
#include <vector>

#include "base/error.h"
#include "net/tls.h"
#include "net/upstream.h"
#include "store/etcd/etcd_store.h"

namespace kintsugi::store::etcd {

/// Where the members are, and the client's end of TLS.
struct Connection {
  std::vector<net::Url> urls;
  std::shared_ptr<net::TlsContext> tls;  ///< null: none of them needs it
};

/// Takes what may be at the end of `params.prefix` away.
/// @error kConfig names what is wrong with the parameters.
[[nodiscard]] Expected<Connection> understood_connection(EtcdParams& params);
/// The files read again.
[[nodiscard]] Expected<std::shared_ptr<net::TlsContext>> make_tls(
    const EtcdParams& params, const std::vector<net::Url>& urls);

}  // namespace kintsugi::store::etcd
