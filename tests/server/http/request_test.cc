// SPDX-License-Identifier: Apache-2.0
#include "server/http/request.h"

#include <gtest/gtest.h>

#include <string>

namespace vicinal::server {
namespace {

int RefusalOf(const std::string& bytes) {
  const auto request = ParseRequest(bytes);
  return request ? request->refused : -1;
}

TEST(HttpTest, AWholeRequestIsRead) {
  const std::string bytes =
      "POST /login?x=/y HTTP/1.1\r\nhOST:  localhost:8503\t\r\nX-Other: a:b\r\nCookie: a=1; b=2\r\nOrigin: http://a\r\n"
      "Content-Length: 7\r\n\r\ntoken=amore";
  const auto request = ParseRequest(bytes);
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->refused, 0);
  EXPECT_EQ(request->method, "POST");
  EXPECT_EQ(request->path, "/login");
  EXPECT_EQ(request->host, "localhost:8503");
  EXPECT_EQ(request->cookie, "a=1; b=2");
  EXPECT_EQ(request->origin, "http://a");
  EXPECT_EQ(request->body, "token=a");
  for (size_t n = 0; n + 4 < bytes.size(); ++n) EXPECT_FALSE(ParseRequest(bytes.substr(0, n)).has_value()) << n;
}

TEST(HttpTest, PathsAreDecodedOnce) {
  const auto path = [](const std::string& target) { return ParseRequest("GET " + target + " HTTP/1.0\r\n\r\n")->path; };
  EXPECT_EQ(path("/graphs/%3Ca%2e%252e"), "/graphs/<a.%2e");
  EXPECT_EQ(path("/a+b?c=%00"), "/a+b");
  for (const char* const bad : {"/graphs/g%00", "/%", "/%z1", "/%1"}) EXPECT_EQ(path(bad), "") << bad;
}

TEST(HttpTest, WhatIsNoRequestIsRefused) {
  for (const std::string line :
       {"GET / HTTP/1.1 x", "GET /", "GET  / HTTP/1.1", " GET / HTTP/1.1", "G{T / HTTP/1.1", "", "GET / a HTTP/1.1"}) {
    EXPECT_EQ(RefusalOf(line + "\r\n\r\n"), 400) << line;
  }
  EXPECT_EQ(RefusalOf(std::string("GET /\0 HTTP/1.1\r\n\r\n", 20)), 400);
  EXPECT_EQ(RefusalOf("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505);
  const std::string get = "GET / HTTP/1.1\r\n";
  for (const char* const header : {"Host: a\r\nHost: b", "Content-Length: 1\r\nContent-Length: 1", "no colon",
                                   ": no name", "A name: x", "Host : a", " folded: x", "Content-Length: -5",
                                   "Content-Length: ", "Content-Length: 1x", "X: a\rb", "X: \x01"}) {
    EXPECT_EQ(RefusalOf(get + header + "\r\n\r\n"), 400) << header;
  }
  EXPECT_EQ(RefusalOf(get + "Transfer-Encoding: chunked\r\n\r\n"), 501);
  EXPECT_EQ(RefusalOf(get + "Content-Length: 8193\r\n\r\n"), 413);
  EXPECT_EQ(RefusalOf(get + "Content-Length: 99999999999999999999999\r\n\r\n"), 413);
  EXPECT_EQ(RefusalOf(get + "X: " + std::string(kMostHeadBytes, 'a')), 431);
  EXPECT_EQ(RefusalOf(std::string(kMostHeadBytes - 1, 'a')), -1) << "more may come";
}

TEST(HttpTest, AnswersSayTheirLengthAndHeadHasNoBody) {
  HttpResponse response;
  response.headers.emplace_back("Allow", "GET");
  response.body = "page";
  const std::string head =
      "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 4\r\nConnection: close\r\nAllow: "
      "GET\r\n\r\n";
  EXPECT_EQ(Serialized(response, /*with_body=*/true), head + "page");
  EXPECT_EQ(Serialized(response, /*with_body=*/false), head);
}

}  // namespace
}  // namespace vicinal::server
