// SPDX-License-Identifier: Apache-2.0
// The reader against files made by hand: what is right is read exactly, what is wrong is refused with its reason, and
// nothing that a client may send ends the process.
#include "engine/model/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "tests/engine/model/safetensors_builder.h"

namespace vicinal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SafetensorsBuilder;
using testing::SafetensorsFile;

template <class T>
std::string Bytes(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

void ExpectBad(std::string_view file, const std::string& message) {
  const auto result = Safetensors::Parse(file);
  ASSERT_FALSE(result.ok()) << message;
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(DetailOf(result.status())->reason, "BAD_SAFETENSORS");
  EXPECT_THAT(std::string(result.status().message()), HasSubstr(message));
}

// One tensor "t" described by `description`, over `data`.
std::string OneTensor(const std::string& description, const std::string& data) {
  return SafetensorsFile("{\"t\":" + description + "}", data);
}

TEST(SafetensorsTest, ReadsTensorsOfEveryKindOfFloat) {
  const std::string file = SafetensorsBuilder()
                               .Add("a", {2, 2}, {1.5f, -2.0f, 0.0f, 3.0f})
                               .AddBytes("b", "F64", {1}, Bytes<double>({0.1}))
                               .AddBytes("c", "F16", {2}, Bytes<uint16_t>({0x3c00, 0xc000}))
                               .AddBytes("d", "BF16", {}, Bytes<uint16_t>({0x4049}))
                               .AddBytes("e", "F32", {0, 3}, "")
                               .Build();
  const auto parsed = Safetensors::Parse(file);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->entries().size(), 5);
  EXPECT_THAT(parsed->Find("a")->shape, ElementsAre(2, 2));
  EXPECT_THAT(*Safetensors::ToFloats(*parsed->Find("a"), "a"), ElementsAre(1.5f, -2.0f, 0.0f, 3.0f));
  EXPECT_THAT(*Safetensors::ToFloats(*parsed->Find("b"), "b"), ElementsAre(0.1f));
  EXPECT_THAT(*Safetensors::ToFloats(*parsed->Find("c"), "c"), ElementsAre(1.0f, -2.0f));
  EXPECT_THAT(*Safetensors::ToFloats(*parsed->Find("d"), "d"), ElementsAre(3.140625f));
  EXPECT_TRUE(Safetensors::ToFloats(*parsed->Find("e"), "e")->empty());
  EXPECT_EQ(parsed->Find("z"), nullptr);
}

TEST(SafetensorsTest, ReadsIntegersAndMetadata) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"n":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"m":{"dtype":"I32","shape":[2],"data_offsets":[8,16]}}   )";
  const std::string file = SafetensorsFile(header, Bytes<int64_t>({-7}) + Bytes<int32_t>({1, -2}));
  const auto parsed = Safetensors::Parse(file);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(*Safetensors::ToInts(*parsed->Find("n"), "n"), ElementsAre(-7));
  EXPECT_THAT(*Safetensors::ToInts(*parsed->Find("m"), "m"), ElementsAre(1, -2));
  EXPECT_THAT(std::string(Safetensors::ToFloats(*parsed->Find("n"), "n").status().message()), HasSubstr("'n' is I64"));
  const std::string floats = SafetensorsBuilder().Add("f", {1}, {1.0f}).Build();
  EXPECT_THAT(std::string(Safetensors::ToInts(*Safetensors::Parse(floats)->Find("f"), "f").status().message()),
              HasSubstr("'f' is F32"));
}

TEST(SafetensorsTest, AFileWithoutTensorsIsFine) {
  EXPECT_TRUE(Safetensors::Parse(SafetensorsFile("{}", ""))->entries().empty());
}

TEST(SafetensorsTest, RefusesHeadersThatDoNotFit) {
  ExpectBad("", "0 bytes");
  ExpectBad("1234567", "needs 8 for the length");
  ExpectBad(SafetensorsFile(3, "{}", ""), "truncated");
  ExpectBad(SafetensorsFile(uint64_t{4} << 30, "{}", ""), "claims 4294967296 bytes");
  ExpectBad(SafetensorsFile(std::numeric_limits<uint64_t>::max(), "{}", ""), "claims 18446744073709551615 bytes");
  ExpectBad(SafetensorsFile(0, "", ""), "not valid JSON");
}

TEST(SafetensorsTest, KnowsTheFilesThatAreSentByMistake) {
  EXPECT_THAT(Safetensors::Parse(std::string("PK\x03\x04") + std::string(60, 'x')).status().message(),
              HasSubstr("safetensors.torch.save_file"));
  EXPECT_THAT(Safetensors::Parse("{\"layers\": []}").status().message(), HasSubstr("begins like JSON"));
  // The length of a header may be 123, the code of '{'.
  const std::string header = "{}" + std::string(121, ' ');
  EXPECT_TRUE(Safetensors::Parse(SafetensorsFile(header, "")).ok());
}

TEST(SafetensorsTest, RefusesHeadersThatAreNotJsonObjects) {
  ExpectBad(SafetensorsFile("{", ""), "not valid JSON");
  ExpectBad(SafetensorsFile("[]", ""), "not a JSON object");
  ExpectBad(SafetensorsFile("{} x", ""), "not valid JSON");
  ExpectBad(SafetensorsFile("{\"\xff\":1}", ""), "UTF-8");
  ExpectBad(SafetensorsFile("{\"t\":1e999}", ""), "not valid JSON");
  ExpectBad(
      SafetensorsFile(
          R"({"t":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"t":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
          "1234"),
      "'t' occurs twice");
  ExpectBad(SafetensorsFile(R"({"__metadata__":{"a":1}})", ""), "__metadata__");
  ExpectBad(SafetensorsFile(R"({"__metadata__":[]})", ""), "__metadata__");
}

TEST(SafetensorsTest, RefusesDeepNestingWithoutRecursing) {
  const int depth = 1'000'000;
  ExpectBad(SafetensorsFile(std::string(depth, '['), ""), "nested deeper");
  std::string objects;
  for (int i = 0; i < depth; ++i) objects += "{\"a\":";
  ExpectBad(SafetensorsFile(objects, ""), "nested deeper");
}

TEST(SafetensorsTest, RefusesBadEntries) {
  const std::string data = "12345678";
  ExpectBad(OneTensor("3", data), "not described by an object");
  ExpectBad(OneTensor(R"({"shape":[2],"data_offsets":[0,8]})", data), "no dtype");
  ExpectBad(OneTensor(R"({"dtype":7,"shape":[2],"data_offsets":[0,8]})", data), "no dtype");
  ExpectBad(OneTensor(R"({"dtype":"F33","shape":[2],"data_offsets":[0,8]})", data), "unknown dtype 'F33'");
  ExpectBad(OneTensor(R"({"dtype":"F32","data_offsets":[0,8]})", data), "no usable shape");
  ExpectBad(OneTensor(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})", data), "something other than sizes");
  ExpectBad(OneTensor(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})", data), "something other than sizes");
  ExpectBad(OneTensor(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})", data), "data_offsets");
  ExpectBad(OneTensor(R"({"dtype":"F32","shape":[2],"data_offsets":[-8,0]})", data), "data_offsets");
  ExpectBad(OneTensor(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1})", data), "unknown key 'more'");
  ExpectBad(OneTensor(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})", data),
            "needs 12 bytes, its offsets give 8");
  ExpectBad(OneTensor(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]})", data), "overflows");
  ExpectBad(OneTensor(R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]})", data),
            "something other than sizes");
  ExpectBad(OneTensor(R"({"dtype":"F32","shape":[9223372036854775807],"data_offsets":[0,8]})", data), "overflows");
}

TEST(SafetensorsTest, RefusesOffsetsThatOverlapLeaveGapsOrLieOutside) {
  const auto two = [](const std::string& a, const std::string& b) {
    return SafetensorsFile(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":)" + a +
                               R"(},"b":{"dtype":"F32","shape":[1],"data_offsets":)" + b + "}}",
                           "12345678");
  };
  EXPECT_TRUE(Safetensors::Parse(two("[4,8]", "[0,4]")).ok());
  ExpectBad(two("[0,4]", "[0,4]"), "overlaps");
  ExpectBad(two("[0,4]", "[2,6]"), "overlaps");
  ExpectBad(two("[0,4]", "[5,9]"), "outside the 8 bytes");
  ExpectBad(two("[4,0]", "[4,8]"), "outside");
  ExpectBad(two("[0,4]", "[9223372036854775804,9223372036854775807]"), "outside");
  ExpectBad(OneTensor(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})", "12345678"), "gap before tensor 't'");
  ExpectBad(OneTensor(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})", "12345678"),
            "4 bytes after the last tensor");
}

TEST(SafetensorsTest, RefusesValuesThatAreNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::string file = SafetensorsBuilder()
                               .Add("i", {2}, {1.0f, infinity})
                               .AddBytes("n", "F64", {1}, Bytes<double>({std::numeric_limits<double>::quiet_NaN()}))
                               .AddBytes("big", "F64", {1}, Bytes<double>({1e300}))
                               .Build();
  const auto parsed = Safetensors::Parse(file);
  for (const char* name : {"i", "n", "big"}) {
    const auto values = Safetensors::ToFloats(*parsed->Find(name), name);
    EXPECT_EQ(values.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(DetailOf(values.status())->reason, "NOT_FINITE");
    EXPECT_THAT(std::string(values.status().message()), HasSubstr(name));
  }
}

TEST(SafetensorsTest, EveryTruncationIsRefused) {
  const std::string file = SafetensorsBuilder().AddRamp("conv.weight", {3, 2}).AddRamp("conv.bias", {3}).Build();
  ASSERT_TRUE(Safetensors::Parse(file).ok());
  for (size_t size = 0; size < file.size(); ++size)
    EXPECT_FALSE(Safetensors::Parse(std::string_view(file).substr(0, size)).ok()) << size;
}

TEST(SafetensorsTest, DamagedFilesNeverEndTheProcess) {
  const std::string good = SafetensorsBuilder()
                               .AddRamp("conv.weight", {3, 2})
                               .AddRamp("conv.bias", {3})
                               .AddBytes("n", "I64", {}, "12345678")
                               .Build();
  std::mt19937_64 random(20240607);
  int parsed = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string file = good;
    const int flips = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < flips; ++i) file[random() % file.size()] = static_cast<char>(random());
    const auto result = Safetensors::Parse(file);
    if (!result.ok()) continue;
    ++parsed;
    for (const auto& [name, entry] : result->entries()) {
      // Whatever was read lies inside the file.
      ASSERT_GE(entry.bytes.data(), file.data());
      ASSERT_LE(entry.bytes.data() + entry.bytes.size(), file.data() + file.size());
      (void)Safetensors::ToFloats(entry, name);
      (void)Safetensors::ToInts(entry, name);
    }
  }
  EXPECT_GT(parsed, 0);  // damage to the values alone is not to be seen
}

}  // namespace
}  // namespace vicinal
