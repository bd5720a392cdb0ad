#include "net/ticket_keys.h"

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/x509.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "net/internal/tls_internal.h"
#include "net/testing/support.h"

namespace kintsugi::net {
namespace {

using testing::Certificates;
using testing::must;

constexpr std::int64_t kNoon = 1'700'000'000 / TicketKeys::kInterval * TicketKeys::kInterval;
const std::string kSecret(32, 's');
const std::string kOther(32, 'o');

std::vector<Secret> secrets_of(const std::vector<std::string>& texts) {
  std::vector<Secret> secrets;
  for (const std::string& text : texts) {
    secrets.push_back(Secret::copy_of(text));
  }
  return secrets;
}

std::shared_ptr<TicketKeys> keys_of(const std::vector<std::string>& texts) {
  auto keys = std::make_shared<TicketKeys>();
  keys->set(secrets_of(texts));
  return keys;
}

bool opens(TicketKeys& keys, const TicketKeys::Key& key, std::int64_t now) {
  const auto found = keys.opening(now, key.name);
  return found && found->cipher == key.cipher && found->mac == key.mac;
}

TEST(TicketKeys, WhenSecretsAreEqual_PERF213_ReplicasOpenEachOthersTickets) {
  const auto one = keys_of({kSecret}), two = keys_of({kSecret}), stranger = keys_of({kOther});
  const TicketKeys::Key key = one->sealing(kNoon, true);
  EXPECT_TRUE(opens(*two, key, kNoon));
  EXPECT_FALSE(opens(*stranger, key, kNoon));
  EXPECT_FALSE(opens(*keys_of({}), key, kNoon));
}

TEST(TicketKeys, SE144_WhenAKeyGoes_ItsBytesAreOverwritten) {
  alignas(TicketKeys::Key) unsigned char place[sizeof(TicketKeys::Key)];
  auto* const key = new (place) TicketKeys::Key(keys_of({kSecret})->sealing(kNoon, true));
  const std::array<unsigned char, 32> zero{};
  ASSERT_NE(key->cipher, zero);
  ASSERT_NE(key->mac, zero);
  key->~Key();
  const std::string_view left(reinterpret_cast<const char*>(place), sizeof place);
  EXPECT_EQ(left.substr(offsetof(TicketKeys::Key, cipher), 64), std::string(64, '\0'));
}

TEST(TicketKeys, WhenAnHourIsOver_PERF213_AnotherKeySeals) {
  const auto keys = keys_of({kSecret});
  const TicketKeys::Key key = keys->sealing(kNoon, true);
  EXPECT_EQ(keys->sealing(kNoon + TicketKeys::kInterval - 1, true).name, key.name);
  const TicketKeys::Key next = keys->sealing(kNoon + TicketKeys::kInterval, true);
  EXPECT_NE(next.name, key.name);
  EXPECT_NE(next.cipher, key.cipher);
  EXPECT_NE(next.mac, key.mac);
}

TEST(TicketKeys, WhileATicketIsGood_PERF213_ItsKeyIsKnown) {
  const auto keys = keys_of({kSecret});
  const TicketKeys::Key key = keys->sealing(kNoon + TicketKeys::kInterval - 1, true);
  EXPECT_TRUE(opens(*keys, key, kNoon + TicketKeys::kInterval - 1 + TicketKeys::kLifetime));
  EXPECT_FALSE(opens(*keys, key, kNoon + 3 * TicketKeys::kInterval));
  EXPECT_TRUE(opens(*keys, key, kNoon - 1)) << "a replica whose clock is behind";
  EXPECT_FALSE(opens(*keys, key, kNoon - TicketKeys::kInterval - 1));
}

TEST(TicketKeys, WhenASecretIsPutInFront_PERF213_TheOldOneOpens) {
  const auto keys = keys_of({kSecret});
  const TicketKeys::Key old = keys->sealing(kNoon, true);
  keys->set(secrets_of({kOther, kSecret}));
  EXPECT_NE(keys->sealing(kNoon, true).name, old.name);
  EXPECT_TRUE(opens(*keys, old, kNoon));
  keys->set(secrets_of({kOther}));
  EXPECT_FALSE(opens(*keys, old, kNoon));
}

TEST(TicketKeys, WhenTheProtocolIsTls12_SealsWithWhatOnlyTheProcessKnows) {
  const auto keys = keys_of({kSecret});
  const TicketKeys::Key key = keys->sealing(kNoon, false);
  EXPECT_NE(key.name, keys->sealing(kNoon, true).name);
  EXPECT_FALSE(opens(*keys_of({kSecret}), key, kNoon));
  keys->set(secrets_of({kOther}));
  EXPECT_TRUE(opens(*keys, key, kNoon)) << "it outlives a change of the secrets";
}

/// A client with a certificate, and what it keeps.
class Caller {
 public:
  explicit Caller(int version = TLS1_3_VERSION) {
    TlsParams params;
    params.certificate_pem = Certificates::get().client.certificate_pem;
    params.key_pem = Certificates::get().client.key_pem;
    params.ca_pem = Certificates::get().ca.certificate_pem;
    context_ = must(TlsContext::client(params));
    SSL_CTX_set_max_proto_version(context_->native(), version);
  }

  struct Seen {
    bool done = false, resumed = false;
    std::string certificate;  // of the client, as the server has it
  };

  Seen call(const TlsContext& server) {
    const SslPtr here(SSL_new(context_->native())), there(SSL_new(server.native()));
    SSL_set_connect_state(here.get());
    SSL_set_accept_state(there.get());
    SSL_set_ex_data(here.get(), tls_session_slot_index(), &slot_);
    BIO *left = nullptr, *right = nullptr;
    BIO_new_bio_pair(&left, 0, &right, 0);
    SSL_set_bio(here.get(), left, left);
    SSL_set_bio(there.get(), right, right);
    if (slot_.get() != nullptr) {
      SSL_set_session(here.get(), slot_.get());
    }
    Seen seen;
    int client = 0, accepted = 0;
    for (int i = 0; i < 10 && (client != 1 || accepted != 1); ++i) {
      client = client == 1 ? 1 : SSL_do_handshake(here.get());
      const SessionScope scope;
      accepted = accepted == 1 ? 1 : SSL_do_handshake(there.get());
    }
    char nothing = 0;
    (void)SSL_read(here.get(), &nothing, 1);  // takes the ticket
    seen.done = client == 1 && accepted == 1;
    seen.resumed = SSL_session_reused(there.get()) == 1 && SSL_session_reused(here.get()) == 1;
    if (X509* certificate = SSL_get0_peer_certificate(there.get()); certificate != nullptr) {
      unsigned char* der = nullptr;
      const int size = i2d_X509(certificate, &der);
      seen.certificate.assign(reinterpret_cast<const char*>(der),
                              static_cast<std::size_t>(std::max(size, 0)));
      OPENSSL_free(der);
    }
    EXPECT_EQ(ERR_peek_error(), 0U);
    SSL_set_shutdown(here.get(), SSL_SENT_SHUTDOWN);
    return seen;
  }

  TlsSessionSlot slot_;

 private:
  std::shared_ptr<TlsContext> context_;
};

std::shared_ptr<TlsContext> server_with(const std::shared_ptr<TicketKeys>& keys) {
  TlsParams params;
  params.certificate_pem = Certificates::get().server.certificate_pem;
  params.key_pem = Certificates::get().server.key_pem;
  params.request_client_certificate = true;
  auto context = must(TlsContext::server(params));
  use_ticket_keys(*context, keys);
  return context;
}

TEST(TicketKeys, WhenAnotherReplicaIsCalled_PERF213_ItResumesWithTheCertificate) {
  const auto one = server_with(keys_of({kSecret})), two = server_with(keys_of({kSecret}));
  Caller caller;
  const Caller::Seen first = caller.call(*one);
  ASSERT_TRUE(first.done);
  EXPECT_FALSE(first.resumed);
  ASSERT_FALSE(first.certificate.empty());
  for (int i = 0; i < 3; ++i) {
    const SSL_SESSION* before = caller.slot_.get();
    const Caller::Seen again = caller.call(i % 2 == 0 ? *two : *one);
    EXPECT_TRUE(again.done && again.resumed);
    EXPECT_EQ(again.certificate, first.certificate);
    EXPECT_NE(caller.slot_.get(), before) << "a ticket is good once";
  }
}

TEST(TicketKeys, WhenTheSecretIsAnother_AllOfTheHandshakeIsDone) {
  Caller caller;
  ASSERT_TRUE(caller.call(*server_with(keys_of({kSecret}))).done);
  const Caller::Seen again = caller.call(*server_with(keys_of({kOther})));
  EXPECT_TRUE(again.done);
  EXPECT_FALSE(again.resumed);
  EXPECT_FALSE(again.certificate.empty());
}

TEST(TicketKeys, WhenTheProtocolIsTls12_OnlyTheProcessResumes) {
  const auto one = keys_of({kSecret});
  Caller caller(TLS1_2_VERSION);
  ASSERT_TRUE(caller.call(*server_with(one)).done);
  EXPECT_TRUE(caller.call(*server_with(one)).resumed);
  const Caller::Seen again = caller.call(*server_with(keys_of({kSecret})));
  EXPECT_TRUE(again.done);
  EXPECT_FALSE(again.resumed);
}

}  // namespace
}  // namespace kintsugi::net
