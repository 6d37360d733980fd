// SPDX-License-Identifier: Apache-2.0
// Archives written and read back, the repository's own data sets, and archives cut short or damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "client/cpp/formats/files.h"
#include "client/cpp/formats/npy.h"
#include "tests/support/temporary_directory.h"

namespace vicinal::client {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

std::string NpzPath(const std::string& name) {
  static const TemporaryDirectory folder;
  return folder / name;
}

TEST(NpzTest, WritesWhatItReads) {
  const std::string path = NpzPath("back.npz");
  const Array a = MakeArray<float>({1.5f, -2}, {2}), b = MakeArray<int64_t>({1, 2, 3, 4}, {2, 2});
  ASSERT_TRUE(WriteNpz(path, {{"a", a}, {"b", b}}).ok());
  const auto npz = Npz::Open(path);
  ASSERT_TRUE(npz.ok()) << npz.status();
  EXPECT_TRUE(npz->Has("a"));
  EXPECT_FALSE(npz->Has("c"));
  EXPECT_EQ(npz->Read("a")->data, a.data);
  EXPECT_EQ(npz->Read("b")->shape, b.shape);
  const absl::Status missing = npz->Read("c").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("contains no array 'c', but 'a', 'b'"));
}

TEST(NpzTest, ReadsADataSet) {
  const auto npz = Npz::Open(VICINAL_TEST_DATA "/graphs/cora.npz");
  ASSERT_TRUE(npz.ok()) << npz.status();
  EXPECT_THAT(npz->names(), Contains("edge_index"));
  EXPECT_EQ(npz->Read("edge_index")->shape, (std::vector<int64_t>{2, 10556}));
  EXPECT_EQ(npz->Read("test_mask")->type, ElementType::kBool);
}

TEST(NpzTest, RefusesWhatIsNoArchive) {
  EXPECT_EQ(Npz::Open("/nonexistent.npz").status().code(), absl::StatusCode::kNotFound);
  const std::string path = NpzPath("text.npz");
  ASSERT_TRUE(WriteFile(path, "0 1\n1 2\n").ok());
  EXPECT_THAT(std::string(Npz::Open(path).status().message()), HasSubstr("is not a complete .npz"));
  EXPECT_THAT(std::string(Npz::Open("/").status().message()), HasSubstr("Is a directory"));
  EXPECT_THAT(std::string(Npz::Open("/dev/zero").status().message()), HasSubstr("a device, not a file"));
}

// Reads everything; only that nothing worse than an error happens is checked.
void ReadAll(const std::string& path) {
  const auto npz = Npz::Open(path);
  if (!npz.ok()) return;
  for (const std::string& name : npz->names()) {
    const auto array = npz->Read(name);
    if (!array.ok()) continue;
    ASSERT_EQ(ByteSize(array->type, array->shape).value(), static_cast<int64_t>(array->data.size()));
  }
}

TEST(NpzTest, TruncatedAndDamagedArchivesAreHarmless) {
  const std::string path = NpzPath("damaged.npz");
  ASSERT_TRUE(WriteNpz(path, {{"x", MakeArray<float>({1, 2, 3, 4}, {4})}, {"y", MakeArray<int32_t>({1}, {1})}}).ok());
  const std::string bytes = ReadFile(path).value();
  for (size_t size = 0; size < bytes.size(); size += 7) {
    ASSERT_TRUE(WriteFile(path, bytes.substr(0, size)).ok());
    EXPECT_FALSE(Npz::Open(path).ok()) << size;
  }
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::string damaged = bytes;
    for (int i = 0; i < 3; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
    ASSERT_TRUE(WriteFile(path, damaged).ok());
    ReadAll(path);
  }
}

TEST(NpzTest, DamagedContentIsNoticed) {
  const std::string path = NpzPath("content.npz");
  std::vector<float> values(5000);
  std::mt19937 random(6);
  for (float& value : values) value = static_cast<float>(random());
  ASSERT_TRUE(WriteNpz(path, {{"x", MakeArray(values, {5000})}}).ok());
  std::string bytes = ReadFile(path).value();
  bytes[bytes.size() / 2] ^= 0x40;
  ASSERT_TRUE(WriteFile(path, bytes).ok());
  const auto npz = Npz::Open(path);
  ASSERT_TRUE(npz.ok()) << npz.status();
  EXPECT_THAT(std::string(npz->Read("x").status().message()), HasSubstr("array 'x'"));
}

}  // namespace
}  // namespace vicinal::client
