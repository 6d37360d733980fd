// SPDX-License-Identifier: Apache-2.0
// Addresses that gRPC takes, and what people write in their place.
#include "client/cpp/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "client/cpp/client.h"

namespace vicinal::client {
namespace {

using ::testing::HasSubstr;

std::string AddressFault(const std::string& address) { return std::string(CheckAddress(address).message()); }

TEST(AddressTest, WhatGrpcTakes) {
  for (const char* good : {"localhost:8500", "127.0.0.1:1", "gnn-1.my_zone.example.:65535", "[::1]:8500",
                           "[fe80::1%eth0]:8500", "dns:host:1", "dns:///host:8500", "dns:///[::1]:8500",
                           "dns://10.0.0.1/host:8500", "ipv4:10.0.0.1:80,10.0.0.2:81", "ipv6:[::1]:80", "unix:socket",
                           "unix:/run/v.sock", "unix:///run/v.sock", "unix-abstract:v", "xds:///v"}) {
    EXPECT_EQ(AddressFault(good), "") << good;
  }
}

TEST(AddressTest, PortsThatAreNone) {
  for (const char* bare : {"localhost", "127.0.0.1", "[::1]", "dns:///localhost", "ipv4:10.0.0.1"}) {
    EXPECT_THAT(AddressFault(bare), HasSubstr("the port is missing (the default port of a server is 8500)"));
  }
  for (const char* bad : {"h:", "h:0", "h:65536", "h:http", "h:-1", "h:+1", "h:8500x", "[::1]:x", "h:1:2",
                          "h:99999999999999999999", "ipv4:10.0.0.1:80,10.0.0.2:0"}) {
    EXPECT_THAT(AddressFault(bad), HasSubstr("is not a number from 1 to 65535; HOST:PORT (such as localhost:8500"))
        << bad;
  }
}

TEST(AddressTest, Urls) {
  for (const char* url : {"http://h:8500", "https://h:8500/", "grpc://h:8500/v1?x#y"}) {
    EXPECT_THAT(AddressFault(url), HasSubstr("this is a URL, not an address: write only h:8500"));
  }
  EXPECT_THAT(AddressFault("http://"), HasSubstr("this is a URL, not an address; HOST:PORT"));
  EXPECT_THAT(AddressFault("h:8500/"), HasSubstr("'/' follows the port, where an address ends"));
  EXPECT_THAT(AddressFault("h:8500/v1"), HasSubstr("'/v1' follows the port"));
  EXPECT_THAT(AddressFault("h/v1"), HasSubstr("the host 'h/v1' contains '/'"));
  EXPECT_THAT(AddressFault("dns://h:8500"), HasSubstr("no slash or by three"));
}

TEST(AddressTest, HostsThatAreNone) {
  EXPECT_THAT(AddressFault(""), HasSubstr("'': it is empty"));
  EXPECT_THAT(AddressFault(":8500"), HasSubstr("the host is missing"));
  EXPECT_THAT(AddressFault("h:8500 "), HasSubstr("it contains a space or a line break"));
  EXPECT_THAT(AddressFault("h:8500\n"), HasSubstr("'h:8500\\n': it contains a space or a line break"));
  EXPECT_THAT(AddressFault("me@h:8500"), HasSubstr("the host 'me@h' contains '@'"));
  EXPECT_THAT(AddressFault("a:1,b:2"), HasSubstr("the port '1,b:2' is not a number"));
  for (const char* bare : {"::1", "::1:8500", "fe80::1%eth0"}) {
    EXPECT_THAT(AddressFault(bare), HasSubstr("an IPv6 address must be in brackets, followed by the port"));
  }
  EXPECT_THAT(AddressFault("[::1:8500"), HasSubstr("'[::1:8500' is not an IPv6 address in brackets"));
  EXPECT_THAT(AddressFault("[host]:8500"), HasSubstr("'[host]' is not an IPv6 address in brackets"));
  EXPECT_THAT(AddressFault("[::1]8500"), HasSubstr("a colon and the port must follow"));
  EXPECT_THAT(AddressFault("ipv4:host:80"), HasSubstr("'host' is not an IPv4 address"));
  EXPECT_THAT(AddressFault("ipv6:::1"), HasSubstr("is not an IPv6 address in brackets"));
  EXPECT_THAT(AddressFault("unix:"), HasSubstr("needs the path of a socket"));
  EXPECT_THAT(AddressFault("unix://run/v.sock"), HasSubstr("unix: must be followed by a path or by ///PATH"));
  EXPECT_THAT(AddressFault("unix:/" + std::string(107, 'x')), HasSubstr("at most 107 bytes"));
}

TEST(AddressTest, AnyBytesAreHarmless) {
  std::mt19937 random(3);
  const std::string alphabet("ah0189:./[]-_@%, dnsuxipv46\0\n\xFF", 30);
  for (int round = 0; round < 5000; ++round) {
    std::string address;
    for (size_t left = random() % 12; left > 0; --left) address += alphabet[random() % alphabet.size()];
    const std::string fault = AddressFault(address);
    const bool printable = fault.find_first_of(std::string("\0\n\xFF", 3)) == std::string::npos;
    ASSERT_TRUE(printable) << ::testing::PrintToString(address);
    if (fault.empty()) {
      ASSERT_NE(address.find(':'), std::string::npos) << address;
    }
  }
}

TEST(AddressTest, AClientIsNotMadeForAnAddressThatCannotBe) {
  ClientOptions options;
  options.target = "localhost";
  const auto client = Client::Connect(options);
  ASSERT_EQ(client.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(client.status().message()),
              HasSubstr("the server's address 'localhost': the port is missing"));
}

}  // namespace
}  // namespace vicinal::client
