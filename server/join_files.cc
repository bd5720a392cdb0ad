#include "server/join_files.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "krm/path_prefixes.h"
#include "net/x509_maker.h"
#include "server/files.h"
#include "server/internal/pki.h"
#include "server/internal/up_files.h"
#include "server/kubeconfig.h"
#include "server/up_program.h"

namespace kintsugi::server {
namespace {

using krm::Json;

/// A name below pki/ and nothing else.
bool is_file_name(std::string_view name) {
  return !name.empty() && name.front() != '.' && name.size() <= 100 &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-.") ==
             std::string_view::npos &&
         name.find("..") == std::string_view::npos;
}

struct Joined {
  std::string role, name, root, proxy;
  std::map<std::string, std::string> authorities;                           ///< PEM by name
  std::map<std::string, std::pair<std::string, std::string>> certificates;  ///< file, PEM by use
};

Expected<Joined> read_answer(const Json& answer, const JoinKeys& keys) {
  Joined out{std::string(answer.text({"role"})),
             std::string(answer.text({"name"})),
             std::string(answer.text({"root"})),
             std::string(answer.text({"proxy"})),
             {},
             {}};
  const auto broken = [] {
    return fail(Errc::kConfig, "what the installation answers is no answer to a token");
  };
  for (const std::string& ca : Pki::authorities()) {
    out.authorities[ca] = answer.text({"authorities", ca});
    if (net::split_certificates(out.authorities[ca]).empty()) {
      return broken();
    }
  }
  const Json* certificates = answer.find("certificates");
  if (certificates == nullptr || !certificates->is_object() || !is_file_name(out.name)) {
    return broken();
  }
  for (const krm::JsonMember& one : certificates->members()) {
    const std::string file(one.value.text({"file"})), pem(one.value.text({"pem"}));
    const auto key = keys.key_pem.find(one.key);
    if (!is_file_name(file) || key == keys.key_pem.end() || !net::is_key_of(pem, key->second) ||
        file.find("-ca") != std::string::npos) {
      return broken();
    }
    out.certificates[one.key] = {file, pem};
  }
  return out.certificates.empty() ? Expected<Joined>(broken()) : std::move(out);
}

Expected<void> write_root_access(const Joined& joined, const JoinKeys& keys,
                                 const std::string& path) {
  const auto client = joined.certificates.find("client");
  if (client == joined.certificates.end()) {
    return fail(Errc::kConfig, "the installation gave no certificate of a client");
  }
  return write_file(path,
                    render_kubeconfig({{"root", joined.root + std::string(krm::kRootClusterPath)},
                                       {"base", joined.root}},
                                      client->second.first, joined.authorities.at("serving-ca"),
                                      client->second.second, keys.key_pem.at("client").view()),
                    0600);
}

}  // namespace

Expected<JoinKeys> make_join_keys() {
  JoinKeys keys;
  for (const char* use : {"serving", "client", "request-header"}) {
    auto made = net::make_signing_request("", {});
    if (!made) {
      return fail(std::move(made.error()));
    }
    keys.key_pem[use] = std::move(made->key_pem);
    keys.request_pem[use] = std::move(made->request_pem);
  }
  return keys;
}

std::string pinned_authorities(const std::string& pem, const std::string& hash) {
  std::string out;
  for (const std::string& certificate : net::split_certificates(pem)) {
    if (net::public_key_hash(certificate) == hash) {
      out += certificate;
    }
  }
  return out;
}

Expected<std::string> write_joined(const JoinPlace& place, const Json& answer,
                                   const JoinKeys& keys) {
  auto joined = read_answer(answer, keys);
  if (!joined) {
    return fail(std::move(joined.error()));
  }
  const Layout& layout = place.layout;
  const Pki pki(layout.pki());
  for (const std::string& folder : {layout.dir, layout.pki(), layout.run(), layout.logs(),
                                    layout.dir + "/proxy", layout.shard("root")}) {
    if (auto made = make_directories(folder); !made) {
      return fail(std::move(made.error()));
    }
  }
  const auto write = [](const std::string& path, std::string_view text, unsigned mode) {
    return write_file(path, text, mode);
  };
  Expected<void> done;
  for (const auto& [ca, pem] : joined->authorities) {
    done = done ? write(pki.certificate(ca), pem, 0644) : std::move(done);
  }
  for (const auto& [use, certificate] : joined->certificates) {
    done = done ? write(pki.key(certificate.first), keys.key_pem.at(use).view(), 0600)
                : std::move(done);
    done = done ? write(pki.certificate(certificate.first), certificate.second, 0644)
                : std::move(done);
  }
  const bool is_shard = joined->role == "shard", is_proxy = joined->role == "proxy";
  const std::string access = is_shard   ? layout.shard_kubeconfig("root")
                             : is_proxy ? layout.proxy_kubeconfig("root")
                                        : layout.shard("root") + "/reviewed.kubeconfig";
  done = done ? write_root_access(*joined, keys, access) : std::move(done);
  done = done ? write(layout.proxy_url_file(), joined->proxy + "\n", 0644) : std::move(done);
  if (is_proxy && !file_exists(layout.proxy_config())) {
    UpOptions options;
    options.layout = layout;
    options.address = place.address;
    options.port = place.port;
    done = done ? write(layout.proxy_config(), proxy_config_text(options), 0600) : std::move(done);
  }
  if (!done) {
    return fail(std::move(done.error()));
  }
  if (is_shard) {
    return "kintsugi shard --join " + layout.dir + " --name " + joined->name;
  }
  return is_proxy ? "kintsugi proxy --config " + layout.proxy_config()
                  : "topology.reviewed_kubeconfig: " + access;
}

}  // namespace kintsugi::server
