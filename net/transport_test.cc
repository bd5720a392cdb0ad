// Transports and sessions over sockets in memory: what TLS costs while nothing and while much
// happens.
#include "net/transport.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <openssl/evp.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/testing/executed.h"
#include "net/testing/support.h"

namespace kintsugi::net {
namespace {

using testing::Certificates;
using testing::must;
using Result = Transport::Result;

/// Both ends of a connection, each in the buffers of a loop of its own.
class Ends {
 public:
  using Scratch = std::array<IoScratch, 2>;

  explicit Ends(Scratch& scratch, const TlsContext& server_tls, const TlsContext& client_tls,
                bool release = true)
      : Ends(scratch, sockets()) {
    set_tls(server, server_tls, true, release);
    set_tls(client, client_tls, false, release);
    for (int i = 0; i < 6; ++i) {  // more flights than a handshake has
      (void)take(client);
      (void)take(server);
    }
  }

  /// @returns the plain text that has come
  static std::string take(Transport& end) {
    bool full = false;
    std::string got;
    while (end.receive(full) == Result::kOk) {
      if (end.handshake() == Result::kOk) {
        std::string_view plain;
        EXPECT_EQ(end.decrypt(plain), Result::kOk);
        got += plain;
      }
      (void)end.hold();
    }
    (void)end.handshake();
    (void)end.send();
    return got;
  }

  static void give(Transport& end, std::string_view text) {
    end.begin_send();
    end.put(text);
    ASSERT_EQ(end.send(), Result::kOk);
  }

  Transport server, client;

 private:
  static std::pair<int, int> sockets() {
    std::array<int, 2> fds{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds.data()), 0);
    return {fds[0], fds[1]};
  }
  static void set_tls(Transport& end, const TlsContext& context, bool server, bool release) {
    SslPtr ssl(SSL_new(context.native()));
    server ? SSL_set_accept_state(ssl.get()) : SSL_set_connect_state(ssl.get());
    if (!release) {
      SSL_clear_mode(ssl.get(), SSL_MODE_RELEASE_BUFFERS);
    }
    end.set_tls(std::move(ssl));
  }
  Ends(Scratch& scratch, std::pair<int, int> fds)
      : server(scratch[0], fds.first), client(scratch[1], fds.second) {}
};

class Transports : public ::testing::Test {
 protected:
  std::unique_ptr<Ends> connect(bool release = true) {
    return std::make_unique<Ends>(*scratch_, *server_tls_, *client_tls_, release);
  }
  std::unique_ptr<Ends::Scratch> scratch_ = std::make_unique<Ends::Scratch>();
  std::shared_ptr<TlsContext> server_tls_ = Certificates::server_tls();
  std::shared_ptr<TlsContext> client_tls_ = Certificates::client_tls();
};

TEST_F(Transports, WhenBytesCome_PERF211_TheyAreReadInTheBuffersOfTheLoop) {
  const auto ends = connect();
  const std::string text(40'000, 'x');
  Ends::give(ends->client, text);
  bool full = false;
  std::string_view plain;
  ASSERT_EQ(ends->server.receive(full), Result::kOk);
  ASSERT_EQ(ends->server.decrypt(plain), Result::kOk);
  EXPECT_EQ(plain, text);
  EXPECT_EQ(static_cast<const void*>(plain.data()), (*scratch_)[0].plain.data());
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(Transports, WhenTheyAreIdle_PERF211_NoBufferOfTlsIsKept) {
  const std::string text(60'000, 'x');
  // Heap of one connection, both ends, after much went both ways.
  const auto heap_of_one = [&](bool release) {
    constexpr std::size_t kConnections = 20;
    std::vector<std::unique_ptr<Ends>> all;
    all.reserve(kConnections);
    const std::size_t before = ::mallinfo2().uordblks;
    for (std::size_t i = 0; i < kConnections; ++i) {
      const auto& ends = all.emplace_back(connect(release));
      for (int round = 0; round < 3; ++round) {
        Ends::give(ends->client, text);
        EXPECT_EQ(Ends::take(ends->server).size(), text.size());
        Ends::give(ends->server, text);
        EXPECT_EQ(Ends::take(ends->client).size(), text.size());
      }
    }
    return (::mallinfo2().uordblks - before) / kConnections;
  };
  (void)heap_of_one(true);  // what OpenSSL keeps for good
  const std::size_t released = heap_of_one(true), kept = heap_of_one(false);
  constexpr std::size_t kRecord = IoScratch::kRecord;
  EXPECT_LT(released, 2 * 3 * kRecord);
  EXPECT_GT(kept, released + 4 * kRecord) << "two buffers at each end";
}

TEST_F(Transports, WhenRecordsAreSealedAndOpened_PERF212_NoAlgorithmIsLookedUp) {
  const std::vector<std::string> fetches = {
      "EVP_CIPHER_fetch", "EVP_MD_fetch",      "EVP_MAC_fetch",       "EVP_KDF_fetch",
      "EVP_RAND_fetch",   "EVP_KEYMGMT_fetch", "EVP_SIGNATURE_fetch", "EVP_KEYEXCH_fetch"};
  const SecondThread second;
  const auto ends = connect();
  const std::string text(4'000, 'x');
  const auto exchange = [&] {
    Ends::give(ends->client, text);
    EXPECT_EQ(Ends::take(ends->server).size(), text.size());
  };
  exchange();
  Executed steady(fetches);
  steady.run(exchange);
  EXPECT_GT(steady.counts().instructions, 1'000U);
  EXPECT_EQ(steady.counts().calls, 0U);
}

TEST_F(Transports, WhenAnAlgorithmIsLookedUp_PERF212_ItIsSeen) {
  Executed fetching({"EVP_MD_fetch"});
  fetching.run([] { EVP_MD_free(EVP_MD_fetch(nullptr, "SHA256", nullptr)); });
  EXPECT_EQ(fetching.counts().calls, 1U);
}
#endif

TEST_F(Transports, WhenMuchIsSent_PERF215_RecordsAreFull) {
  struct Record {
    unsigned char type;
    std::size_t size;
  };
  std::vector<Record> records;
  const auto ends = connect();
  SSL_set_msg_callback(
      ends->client.ssl(), [](int writes, int /*version*/, int type, const void* bytes,
                             std::size_t size, SSL* /*ssl*/, void* argument) {
        if (writes == 0 && type == SSL3_RT_HEADER && size == SSL3_RT_HEADER_LENGTH) {
          const auto* header = static_cast<const unsigned char*>(bytes);
          static_cast<std::vector<Record>*>(argument)->push_back(
              {header[0], std::size_t{header[3]} << 8 | header[4]});
        }
      });
  SSL_set_msg_callback_arg(ends->client.ssl(), &records);
  constexpr std::size_t kTail = 1'000, kOverhead = 17;  // the type and the tag
  const std::string text(3 * IoScratch::kRecord + kTail, 'x');
  Ends::give(ends->server, text);
  EXPECT_EQ(Ends::take(ends->client).size(), text.size());
  ASSERT_EQ(records.size(), 4U);
  for (std::size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].type, SSL3_RT_APPLICATION_DATA);
    EXPECT_EQ(records[i].size, (i < 3 ? IoScratch::kRecord : kTail) + kOverhead);
  }
}

TEST_F(Transports, WhenMuchWasSaid_PERF215_SE041_ThePeersChainIsStillThere) {
  TlsParams params;
  params.ca_pem = Certificates::get().ca.certificate_pem;
  params.certificate_pem =
      Certificates::get().client.certificate_pem + Certificates::get().other_ca.certificate_pem;
  params.key_pem = Certificates::get().client.key_pem;
  client_tls_ = must(TlsContext::client(params));
  const auto ends = connect();
  for (int i = 0; i < 3; ++i) {
    Ends::give(ends->client, std::string(20'000, 'x'));
    EXPECT_EQ(Ends::take(ends->server).size(), 20'000U);
  }
  EXPECT_EQ(ends->server.peer_certificates_der().size(), 2U);
}

}  // namespace
}  // namespace kintsugi::net
