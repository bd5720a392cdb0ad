#include "auth/web_socket_token.h"

#include <gtest/gtest.h>

#include <string>

#include "base/strings.h"

namespace kintsugi::auth {
namespace {

std::string bearer(std::string_view token) {
  return "base64url.bearer.authorization.k8s.io." + base64url_encode(token);
}

http::RequestHead offer(std::string_view subprotocols) {
  http::RequestHead head;
  head.method = "GET";
  head.version = 1;
  head.protocol = "websocket";
  head.headers.add("sec-websocket-protocol", subprotocols);
  return head;
}

TEST(WebSocketToken, WhenOfferedNextToAnother_AM313_BecomesTheAuthorization) {
  http::RequestHead head = offer("base64.binary.k8s.io, " + bearer("a.b-c"));
  EXPECT_EQ(chosen_subprotocol(head), "base64.binary.k8s.io");
  adopt_web_socket_token(head);
  EXPECT_EQ(head.headers.get("authorization"), "Bearer a.b-c");
  EXPECT_EQ(head.headers.get("sec-websocket-protocol"), "base64.binary.k8s.io");
}

TEST(WebSocketToken, WhenOfferedInFieldsOfTheirOwn_AM313_IsFound) {
  http::RequestHead head = offer(bearer("t"));
  head.headers.add("sec-websocket-protocol", "one,two");
  adopt_web_socket_token(head);
  EXPECT_EQ(head.headers.get("authorization"), "Bearer t");
  EXPECT_EQ(head.headers.get("sec-websocket-protocol"), "one, two");
  EXPECT_EQ(chosen_subprotocol(head), "one");
}

TEST(WebSocketToken, WhenItCannotBeOne_AM313_ChangesNothing) {
  for (const std::string& offered :
       {bearer("alone"), "x, " + bearer("one") + ", " + bearer("two"), "x, " + bearer(""),
        "x, " + bearer("two\r\nlines"), "x, " + bearer("caf\xc3\xa9"), bearer("t") + "=, x,",
        std::string("x, base64url.bearer.authorization.k8s.io.!")}) {
    http::RequestHead head = offer(offered);
    adopt_web_socket_token(head);
    EXPECT_FALSE(head.headers.contains("authorization")) << offered;
    EXPECT_EQ(head.headers.get("sec-websocket-protocol"), offered);
  }
}

TEST(WebSocketToken, WhenTheRequestIsAnotherOrHasCredentials_ChangesNothing) {
  http::RequestHead head = offer("x, " + bearer("t"));
  head.protocol = "";
  adopt_web_socket_token(head);
  EXPECT_FALSE(head.headers.contains("authorization"));
  head = offer("x, " + bearer("t"));
  head.headers.add("authorization", "Basic abc");
  adopt_web_socket_token(head);
  EXPECT_EQ(head.headers.get("authorization"), "Basic abc");
}

}  // namespace
}  // namespace kintsugi::auth
