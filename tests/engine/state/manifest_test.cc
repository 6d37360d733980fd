// SPDX-License-Identifier: Apache-2.0
#include "engine/state/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/base/error.h"
#include "engine/state/sealed_json.h"

namespace vicinal::state {
namespace {

Manifest Example() {
  Manifest manifest;
  manifest.id = {Store::kFeatures, "x/..\n\xC3\xA9", 7, "cora", 3};
  manifest.files = {{"matrix.vsec", {123456789012, 0xdeadbeef}}, {"row_ids.vsec", {64, 1}}};
  manifest.metadata = R"({"cols":12,"note":"a \"b\""})";
  return manifest;
}

TEST(ManifestTest, ParsesToWhatWasEncoded) {
  const auto text = EncodeManifest(Example());
  ASSERT_TRUE(text.ok()) << text.status();
  const auto parsed = ParseManifest("m", *text);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, Example());
  EXPECT_EQ(text->substr(0, 11), "{\"crc32c\":\"");
}

TEST(ManifestTest, EveryFlippedBitAndEveryTruncationIsFound) {
  const std::string text = *EncodeManifest(Example());
  for (size_t at = 0; at < text.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = text;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      EXPECT_EQ(ParseManifest("m", bad).status().code(), StatusCode::kDataLoss) << at;
    }
    EXPECT_EQ(ParseManifest("m", text.substr(0, at)).status().code(), StatusCode::kDataLoss) << at;
  }
}

TEST(ManifestTest, WrongMembersWithARightChecksumAreRefused) {
  using Json = nlohmann::json;
  Json good = *internal::UnsealJson("m", *EncodeManifest(Example()));
  good.erase("crc32c");
  ASSERT_TRUE(ParseManifest("m", internal::SealJson(good)).ok());
  for (const auto& [key, value] : std::vector<std::pair<std::string, Json>>{
           {"store", "other"},
           {"version", 0},
           {"version", -1},
           {"version", 1.5},
           {"version", 18446744073709551615u},
           {"name", 5},
           {"files", 1},
           {"files", {1}},
           {"files", {{{"name", "../x.vsec"}, {"bytes", 1}, {"checksum", 1}}}},
           {"files", {{{"name", "a.vsec"}, {"bytes", -1}, {"checksum", 1}}}},
           {"files", {{{"name", "a.vsec"}, {"bytes", 1}, {"checksum", 4294967296}}}},
           {"metadata", 1},
           {"graph", 1},
           {"graph_version", 0}}) {
    Json bad = good;
    bad[key] = value;
    EXPECT_EQ(ParseManifest("m", internal::SealJson(bad)).status().code(), StatusCode::kDataLoss) << key << value;
    bad.erase(key);
    EXPECT_FALSE(ParseManifest("m", internal::SealJson(bad)).ok()) << key;
  }
  good["major"] = 2;
  EXPECT_EQ(DetailOf(ParseManifest("m", internal::SealJson(good)).status())->reason, "STATE_FORMAT_TOO_NEW");
  good["major"] = 1, good["minor"] = 9, good["later"] = {1, 2};
  EXPECT_TRUE(ParseManifest("m", internal::SealJson(good)).ok());
}

TEST(ManifestTest, MetadataIsAnObject) {
  Manifest manifest = Example();
  for (const char* const bad : {"", "1", "[]", "{\"a\":1,\"a\":2}", "{"}) {
    manifest.metadata = bad;
    EXPECT_EQ(EncodeManifest(manifest).status().code(), StatusCode::kInvalidArgument) << bad;
  }
}

TEST(NamesTest, EncodeSafelyAndInjectively) {
  EXPECT_EQ(*EncodeName("cora-v1.2_x"), "cora-v1.2_x");
  EXPECT_EQ(*EncodeName("../etc"), "%2E.%2Fetc");
  EXPECT_EQ(*EncodeName("Cora"), "%43ora");
  EXPECT_EQ(*EncodeName("\xC3\xA9"), "%C3%A9");
  for (const std::string& bad : {std::string(), std::string("\xff"), std::string(4097, 'a')}) {
    EXPECT_EQ(EncodeName(bad).status().code(), StatusCode::kInvalidArgument);
  }
  const std::string path = *EncodeName(std::string(250, 'a') + "/" + std::string(400, '\x01'));
  std::string decoded;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    std::string part = path.substr(begin, end - begin);
    EXPECT_LE(part.size(), 255u);
    EXPECT_EQ(part.back() == '+', end != path.size());
    if (part.back() == '+') part.pop_back();
    decoded += *DecodeComponent(part);
    begin = end + 1;
  }
  EXPECT_EQ(decoded, std::string(250, 'a') + "/" + std::string(400, '\x01'));
  for (const char* const bad : {"", ".", "..", ".a", "A", "%", "%4", "%zz", "%61", "%2e", "a/b", "a+", "%2F%"}) {
    EXPECT_EQ(DecodeComponent(bad), std::nullopt) << bad;
  }
}

TEST(NamesTest, VersionsHaveOneSpelling) {
  EXPECT_EQ(ParseVersion("17"), 17);
  for (const char* const bad : {"", "0", "-1", "017", "1x", "99999999999999999999", "+1"}) {
    EXPECT_EQ(ParseVersion(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(*PathOf({Store::kFeatures, "default", 5, "cora", 3}), "graphs/cora/3/features/default/5");
  EXPECT_EQ(*PathOf({Store::kEdgeFeatures, "default", 6, "cora", 3}), "graphs/cora/3/edge_features/default/6");
  EXPECT_FALSE(PathOf({Store::kModels, "m", 0, "", 0}).ok());
}

}  // namespace
}  // namespace vicinal::state
