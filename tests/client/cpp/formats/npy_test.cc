// SPDX-License-Identifier: Apache-2.0
// Headers written out by hand as numpy writes them; every truncation and every damaged header byte must end in an error
// or in an array that is what it says, never in a wild read.
#include "client/cpp/formats/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace vicinal::client {
namespace {

using ::testing::HasSubstr;

std::string Npy(const std::string& header, const std::string& data, char major = 1) {
  std::string bytes = std::string("\x93NUMPY", 6) + major + '\0';
  bytes += static_cast<char>(header.size() & 0xFF);
  bytes += static_cast<char>(header.size() >> 8);
  if (major >= 2) bytes += std::string(2, '\0');
  return bytes + header + data;
}

template <class T>
std::string Bytes(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

std::string Message(const std::string& bytes) {
  const auto array = ParseNpy(bytes);
  return array.ok() ? "it was read" : std::string(array.status().message());
}

TEST(NpyTest, ReadsEveryVersionAndSpelling) {
  const std::string data = Bytes<float>({1, 2, 3, 4, 5, 6});
  for (const char major : {1, 2, 3}) {
    const auto array = ParseNpy(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n", data, major));
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_EQ(array->shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(ToFloats(*array), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  }
  const auto python2 = ParseNpy(Npy("{\"shape\": (6L,), \"fortran_order\": False, \"descr\": \"<f4\"}", data));
  ASSERT_TRUE(python2.ok()) << python2.status();
  EXPECT_EQ(python2->shape, std::vector<int64_t>{6});
  const auto scalar = ParseNpy(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': ()}", Bytes<float>({7})));
  ASSERT_TRUE(scalar.ok()) << scalar.status();
  EXPECT_TRUE(scalar->shape.empty());
}

TEST(NpyTest, EveryType) {
  const auto ints = [](const char* descr, const std::string& data) {
    const std::string header = std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': (2,)}";
    return ToInts(ParseNpy(Npy(header, data)).value()).value();
  };
  EXPECT_EQ(ints("|b1", std::string("\x00\x05", 2)), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(ints("|i1", Bytes<int8_t>({-1, 2})), (std::vector<int64_t>{-1, 2}));
  EXPECT_EQ(ints("|u1", Bytes<uint8_t>({255, 2})), (std::vector<int64_t>{255, 2}));
  EXPECT_EQ(ints("<i2", Bytes<int16_t>({-300, 2})), (std::vector<int64_t>{-300, 2}));
  EXPECT_EQ(ints("<u2", Bytes<uint16_t>({65535, 2})), (std::vector<int64_t>{65535, 2}));
  EXPECT_EQ(ints("<i4", Bytes<int32_t>({-70000, 2})), (std::vector<int64_t>{-70000, 2}));
  EXPECT_EQ(ints("<u4", Bytes<uint32_t>({4294967295u, 2})), (std::vector<int64_t>{4294967295, 2}));
  EXPECT_EQ(ints("<i8", Bytes<int64_t>({-5000000000, 2})), (std::vector<int64_t>{-5000000000, 2}));
  EXPECT_EQ(ints("<u8", Bytes<uint64_t>({1, 2})), (std::vector<int64_t>{1, 2}));
  const auto big = ParseNpy(Npy("{'descr': '<u8', 'fortran_order': False, 'shape': (1,)}", Bytes<uint64_t>({~0ull})));
  EXPECT_FALSE(ToInts(*big).ok());
  const auto doubles = ParseNpy(Npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", Bytes<double>({0.1})));
  EXPECT_EQ(ToFloats(*doubles), std::vector<float>{0.1f});
  EXPECT_FALSE(ToInts(*doubles).ok());
  const auto half = ParseNpy(Npy("{'descr': '<f2', 'fortran_order': False, 'shape': (1,)}", Bytes<uint16_t>({0x3E00})));
  EXPECT_EQ(ToFloats(*half), std::vector<float>{1.5f});
}

TEST(NpyTest, FortranOrderBecomesRowMajor) {
  // [[0 1 2], [10 11 12]] by columns, and the same idea in three dimensions: element (i, j, k) is 100 i + 10 j + k.
  const auto matrix =
      ParseNpy(Npy("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3)}", Bytes<int32_t>({0, 10, 1, 11, 2, 12})));
  EXPECT_EQ(ToInts(*matrix).value(), (std::vector<int64_t>{0, 1, 2, 10, 11, 12}));
  std::vector<int32_t> columns;
  std::vector<int64_t> rows;
  for (int k = 0; k < 4; ++k)
    for (int j = 0; j < 3; ++j)
      for (int i = 0; i < 2; ++i) columns.push_back(100 * i + 10 * j + k);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 4; ++k) rows.push_back(100 * i + 10 * j + k);
  const auto cube = ParseNpy(Npy("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3, 4)}", Bytes(columns)));
  EXPECT_EQ(ToInts(*cube).value(), rows);
}

TEST(NpyTest, RefusalsNameTheReason) {
  const std::string data(8, '\0');
  EXPECT_THAT(Message("PK"), HasSubstr("not an npy file"));
  EXPECT_THAT(Message(""), HasSubstr("not an npy file"));
  EXPECT_THAT(Message(Npy("{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}", data)), HasSubstr("big-endian"));
  EXPECT_THAT(Message(Npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", data)), HasSubstr("pickles"));
  EXPECT_THAT(Message(Npy("{'descr': '<U2', 'fortran_order': False, 'shape': (1,)}", data)), HasSubstr("'<U2'"));
  EXPECT_THAT(Message(Npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", data)),
              HasSubstr("structured"));
  EXPECT_THAT(Message(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", data)),
              HasSubstr("needs 12 bytes, the file has 8"));
  EXPECT_THAT(Message(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", data)),
              HasSubstr("needs 4 bytes"));
  EXPECT_THAT(Message(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", data)),
              HasSubstr("not an extent"));
  EXPECT_THAT(
      Message(
          Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4611686018427387904)}", data)),
      HasSubstr("too large"));
  EXPECT_THAT(Message(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", data)),
              HasSubstr("not an extent"));
  EXPECT_THAT(Message(Npy("{'descr': '<f4', 'fortran_order': False}", data)), HasSubstr("lacks"));
  EXPECT_THAT(Message(Npy("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}", data)), HasSubstr("fortran_order"));
  EXPECT_THAT(Message(Npy("{'spam': '<f4'}", data)), HasSubstr("'spam'"));
  EXPECT_THAT(Message(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} + 1", data)), HasSubstr("after"));
  EXPECT_THAT(Message(Npy("{'descr", data)), HasSubstr("not closed"));
  EXPECT_THAT(Message(Npy("", data)), HasSubstr("dictionary"));
  EXPECT_THAT(Message(Npy("{}", data, 9)), HasSubstr("version 9"));
  std::string shape = "(";
  for (int i = 0; i < 40; ++i) shape += "1, ";
  EXPECT_THAT(Message(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ")}", data)),
              HasSubstr("32 dimensions"));
}

TEST(NpyTest, EveryTruncationIsRefused) {
  const std::string bytes = SerializeNpy(MakeArray<float>({1, 2, 3, 4}, {2, 2}));
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(ParseNpy(bytes.substr(0, size)).ok()) << size;
  EXPECT_TRUE(ParseNpy(bytes).ok());
}

TEST(NpyTest, DamagedHeaderBytesAreHarmless) {
  const std::string bytes = SerializeNpy(MakeArray<int32_t>({1, 2, 3, 4, 5, 6}, {2, 3}));
  for (size_t at = 0; at < 128 && at < bytes.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(value);
      const auto array = ParseNpy(damaged);
      if (!array.ok()) continue;
      ASSERT_EQ(ByteSize(array->type, array->shape).value(), static_cast<int64_t>(array->data.size()));
    }
  }
}

TEST(NpyTest, WritesWhatItReads) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{6}, {2, 3}, {3, 2, 1}, {6, 1}}) {
    const Array array = MakeArray<int64_t>({1, -2, 3, 4, 5, 6}, shape);
    const std::string bytes = SerializeNpy(array);
    EXPECT_EQ((bytes.size() - array.data.size()) % 64, 0u);
    const auto back = ParseNpy(bytes);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->shape, shape);
    EXPECT_EQ(back->type, array.type);
    EXPECT_EQ(back->data, array.data);
  }
  const auto empty = ParseNpy(SerializeNpy(MakeArray<float>({}, {0, 5})));
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ(empty->shape, (std::vector<int64_t>{0, 5}));
}

TEST(NpyTest, FilesThatCannotBeReadOrWritten) {
  EXPECT_EQ(ReadNpy("/nonexistent/a.npy").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ReadNpy("/nonexistent/a.npy").status().message()), HasSubstr("/nonexistent/a.npy"));
  EXPECT_FALSE(ReadNpy("/").ok());
  EXPECT_FALSE(WriteNpy("/nonexistent/a.npy", MakeArray<float>({1}, {1})).ok());
}

}  // namespace
}  // namespace vicinal::client
