// SPDX-License-Identifier: Apache-2.0
#include "engine/state/section_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/state/crc32c.h"
#include "tests/engine/state/simulated_file_system.h"

namespace vicinal::state {
namespace {

using ::testing::HasSubstr;

std::string RandomBytes(int64_t count, uint64_t seed) {
  testing::SplitMix64 random(seed);
  std::string bytes(count, '\0');
  for (char& c : bytes) c = static_cast<char>(random.Next());
  return bytes;
}

const std::vector<SectionSpec> kSpecs = {{"row_ptr", DataType::kInt64, {1001}},
                                         {"empty", DataType::kInt32, {0, 7}},
                                         {"value", DataType::kFloat32, {600, 500}},
                                         {"tiny", DataType::kUint8, {1}}};

std::vector<std::string> Contents() { return {RandomBytes(8008, 1), "", RandomBytes(1200000, 2), "x"}; }

class SectionFileTest : public ::testing::Test {
 protected:
  void SetUp() override { WriteFile("f"); }
  void WriteFile(const std::string& path) {
    auto writer = SectionFileWriter::Create(files_, path, kSpecs);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (size_t i = 0; i < kSpecs.size(); ++i) {
      for (size_t at = 0; at < contents_[i].size(); at += 77777) {
        ASSERT_TRUE((*writer)->Append(i, std::string_view(contents_[i]).substr(at, 77777)).ok());
      }
    }
    ASSERT_TRUE((*writer)->Finish().ok());
    summary_ = (*writer)->summary();
  }
  // OK only if all sections are read, with the bytes that were written.
  Status ReadAll(ThreadPool* pool = nullptr) {
    auto reader = SectionFileReader::Open(files_, "f");
    if (!reader.ok()) return reader.status();
    std::vector<std::string> read;
    std::vector<SectionFileReader::Target> targets;
    for (const Section& section : (*reader)->sections()) read.emplace_back(section.bytes, '?');
    for (size_t i = 0; i < read.size(); ++i) targets.push_back({&(*reader)->sections()[i], read[i].data()});
    VICINAL_RETURN_IF_ERROR((*reader)->Read(targets, pool));
    EXPECT_EQ(read, contents_) << "other bytes than were written";
    EXPECT_EQ((*reader)->summary(), summary_);
    for (size_t i = 0; i < kSpecs.size(); ++i) EXPECT_EQ((*reader)->sections()[i].spec, kSpecs[i]);
    return OkStatus();
  }

  SimulatedFileSystem files_;
  const std::vector<std::string> contents_ = Contents();
  FileSummary summary_;
};

TEST_F(SectionFileTest, ReadsWhatWasWritten) {
  EXPECT_TRUE(ReadAll().ok());
  ThreadPool pool(3);
  EXPECT_TRUE(ReadAll(&pool).ok());
  const auto reader = SectionFileReader::Open(files_, "f");
  ASSERT_TRUE(reader.ok());
  for (const Section& section : (*reader)->sections()) EXPECT_EQ(section.offset % kSectionAlignment, 0);
  EXPECT_EQ(*(*reader)->ReadBytes(*(*reader)->Find("tiny")), "x");
  EXPECT_EQ((*reader)->Find("none"), nullptr);
  EXPECT_EQ(files_.Stat("f")->bytes, summary_.bytes);
}

// What a thread reads next is on its way from disk, once, and not so much that others lose their memory to it.
TEST_F(SectionFileTest, TheDiskStaysAheadOfTheReader) {
  constexpr int64_t kBytes = (int64_t{100} << 20) + 12345, kTask = int64_t{4} << 20;
  const std::string bytes(kBytes, 'b');
  auto writer = SectionFileWriter::Create(files_, "long", {{"x", DataType::kUint8, {kBytes}}});
  ASSERT_TRUE((*writer)->Append(0, bytes).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  int64_t begin = -1, asked = 0, reads = 0;
  files_.set_read_hook([&](const std::string&, SimulatedFileSystem::Access access, int64_t offset, int64_t count) {
    if (begin < 0) return;  // the header
    if (access == SimulatedFileSystem::Access::kPrefetch) {
      EXPECT_EQ(offset, asked) << "a gap, or a part that was asked for before";
      asked = offset + count;
    } else {
      ++reads;
      const bool was_asked = offset + count <= asked || offset < begin + kTask;
      EXPECT_TRUE(was_asked) << "read before it was asked for";
      const bool near_the_end = begin + kBytes - offset < (int64_t{40} << 20);
      EXPECT_GE(asked - offset, near_the_end ? 0 : int64_t{28} << 20);
      EXPECT_LE(asked - offset, int64_t{36} << 20);
    }
  });
  const auto reader = SectionFileReader::Open(files_, "long");
  begin = (*reader)->sections()[0].offset;
  asked = begin + kTask;
  std::string read(kBytes, '?');
  ASSERT_TRUE((*reader)->Read({{&(*reader)->sections()[0], read.data()}}, nullptr).ok());
  EXPECT_TRUE(read == bytes);
  EXPECT_GT(reads, 100);
  EXPECT_EQ(asked, begin + kBytes);
}

TEST_F(SectionFileTest, EachPieceIsShownOnce) {
  const auto reader = SectionFileReader::Open(files_, "f");
  ThreadPool pool(3);
  for (const Section& section : (*reader)->sections()) {
    std::string read(section.bytes, '?'), shown(section.bytes, '!');
    std::atomic<int64_t> bytes{0};
    const auto show = [&](const char* piece, int64_t count) {
      EXPECT_EQ((piece - read.data()) % (256 << 10), 0);
      std::copy_n(piece, count, shown.data() + (piece - read.data()));
      bytes += count;
    };
    ASSERT_TRUE((*reader)->Read({{&section, read.data(), show}}, &pool).ok());
    EXPECT_EQ(bytes, section.bytes);
    EXPECT_EQ(shown, read);
  }
}

// Parts of a section are read, verified and shown as if they were all of it.
TEST_F(SectionFileTest, PartsAreReadAloneAndVerified) {
  constexpr int64_t kMiB = int64_t{1} << 20, kBytes = 10 * kMiB + 77;
  const std::string bytes = RandomBytes(kBytes, 3);
  auto writer = SectionFileWriter::Create(files_, "parts", {{"x", DataType::kUint8, {kBytes}}});
  ASSERT_TRUE((*writer)->Append(0, bytes).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const Section x = *(*SectionFileReader::Open(files_, "parts"))->Find("x");
  files_.XorByte("parts", x.offset + 7 * kMiB, 1);
  const auto reader = SectionFileReader::Open(files_, "parts");
  ASSERT_TRUE(reader.ok()) << reader.status();
  ThreadPool pool(3);
  for (const auto& [begin, count] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 7 * kMiB}, {kMiB, kMiB}, {2 * kMiB, 5 * kMiB}, {8 * kMiB, kBytes - 8 * kMiB}, {3 * kMiB, 0}}) {
    SCOPED_TRACE(begin);
    std::string read(count, '?');
    std::atomic<int64_t> shown{0};
    const auto show = [&](const char*, int64_t piece) { shown += piece; };
    const Status status = (*reader)->Read({{(*reader)->Find("x"), read.data(), show, begin, count}}, &pool);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(read, bytes.substr(begin, count));
    EXPECT_EQ(shown, count);
  }
  std::string read(4 * kMiB, '?');
  const Status damaged = (*reader)->Read({{(*reader)->Find("x"), read.data(), {}, 5 * kMiB, 4 * kMiB}}, &pool);
  EXPECT_EQ(damaged.code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(damaged.message()), HasSubstr("bytes " + std::to_string(7 * kMiB) + " to "));
}

TEST_F(SectionFileTest, WarmingUpEndsWhenItIsTold) {
  std::vector<std::pair<int64_t, int64_t>> read;
  files_.set_read_hook([&](const std::string&, SimulatedFileSystem::Access, int64_t offset, int64_t count) {
    read.emplace_back(offset, count);
  });
  const auto reader = SectionFileReader::Open(files_, "f");
  read.clear();
  (*reader)->WarmUp([&] { return read.size() == 2; });
  const Section &first = *(*reader)->Find("row_ptr"), &second = *(*reader)->Find("value");
  EXPECT_THAT(read,
              ::testing::ElementsAre(std::pair(first.offset, first.bytes), std::pair(second.offset, second.bytes)));
}

TEST_F(SectionFileTest, ALongSectionIsPrefetchedInPart) {
  std::vector<std::pair<int64_t, int64_t>> asked;
  files_.set_read_hook([&](const std::string&, SimulatedFileSystem::Access access, int64_t offset, int64_t count) {
    if (access == SimulatedFileSystem::Access::kPrefetch) asked.emplace_back(offset, count);
  });
  const auto reader = SectionFileReader::Open(files_, "f");
  const Section& value = *(*reader)->Find("value");
  (*reader)->Prefetch(value);
  Section longer = value;
  longer.bytes = int64_t{1} << 40;
  (*reader)->Prefetch(longer);
  EXPECT_THAT(
      asked, ::testing::ElementsAre(std::pair(value.offset, value.bytes), std::pair(value.offset, int64_t{256} << 20)));
}

TEST_F(SectionFileTest, RefusesBadSpecs) {
  for (const std::vector<SectionSpec>& specs : {std::vector<SectionSpec>{{"", DataType::kUint8, {1}}},
                                                {{"A", DataType::kUint8, {1}}},
                                                {{"a", DataType::kUint8, {}}},
                                                {{"a", DataType::kUint8, {1, 1, 1, 1, 1}}},
                                                {{"a", DataType::kUint8, {-1}}},
                                                {{"a", DataType::kInt64, {int64_t{1} << 40, int64_t{1} << 40}}},
                                                {{"a", DataType::kUint8, {1}}, {"a", DataType::kUint8, {1}}}}) {
    const Status status = SectionFileWriter::Create(files_, "g", specs).status();
    EXPECT_EQ(DetailOf(status).value_or(ErrorDetail()).reason, "BAD_SECTION") << status;
  }
}

// Flips bits at every byte of header and checksum table, and all over each section.
TEST_F(SectionFileTest, DamageIsFoundOrHarmless) {
  const auto reader = SectionFileReader::Open(files_, "f");
  ASSERT_TRUE(reader.ok());
  const int64_t header = 64 + 128 * static_cast<int64_t>(kSpecs.size()) + 4;
  std::vector<int64_t> must_fail;
  for (int64_t at = 0; at < header; ++at) must_fail.push_back(at);
  for (int64_t at = summary_.bytes - 12; at < summary_.bytes; ++at) must_fail.push_back(at);
  for (const Section& section : (*reader)->sections()) {
    for (int64_t at = 0; at < section.bytes; at += 1 + section.bytes / 7) must_fail.push_back(section.offset + at);
    if (section.bytes > 0) must_fail.push_back(section.offset + section.bytes - 1);
  }
  testing::SplitMix64 random(3);
  for (const int64_t at : must_fail) {
    const auto mask = static_cast<uint8_t>(1u << (random.Next() % 8));
    files_.XorByte("f", at, mask);
    EXPECT_EQ(ReadAll().code(), StatusCode::kDataLoss) << "byte " << at << ": " << ReadAll();
    files_.XorByte("f", at, mask);
  }
  files_.XorByte("f", header + 5, 0xff);  // a gap
  EXPECT_TRUE(ReadAll().ok());
}

TEST_F(SectionFileTest, AnErrorNamesThePlace) {
  const auto reader = SectionFileReader::Open(files_, "f");
  const int64_t offset = (*reader)->Find("value")->offset;
  files_.XorByte("f", offset + kChunkBytes + 17, 1);
  const std::string text(ReadAll().message());
  EXPECT_THAT(text, HasSubstr("'f' is damaged: section 'value', bytes 1048576 to 1200000"));
  EXPECT_THAT(text, HasSubstr(std::to_string(offset + kChunkBytes)));
}

TEST_F(SectionFileTest, EveryTruncationIsFound) {
  const std::string whole = files_.Read("f");
  for (int64_t size : {int64_t{0}, int64_t{1}, int64_t{63}, int64_t{64}, int64_t{100}, int64_t{600}, summary_.bytes / 2,
                       summary_.bytes - 1, summary_.bytes + 1}) {
    std::string cut = whole;
    cut.resize(size);
    files_.Overwrite("f", cut);
    EXPECT_EQ(ReadAll().code(), StatusCode::kDataLoss) << size;
  }
  files_.Overwrite("f", std::string(whole.size(), '\0'));
  EXPECT_EQ(ReadAll().code(), StatusCode::kDataLoss);
}

// Headers with a right checksum and wrong numbers: what malice can make.
TEST_F(SectionFileTest, HostileHeadersAreRefused) {
  const std::string whole = files_.Read("f");
  const size_t crc_at = 64 + 128 * kSpecs.size();
  testing::SplitMix64 random(4);
  for (size_t field = 8; field + 4 <= crc_at; field += 4) {
    for (const uint32_t value : {0u, 1u, 3u, 0x7fffffffu, 0x80000000u, 0xffffffffu, 0x00200000u, 1025u}) {
      std::string bad = whole;
      if (std::memcmp(bad.data() + field, &value, 4) == 0) continue;
      std::memcpy(bad.data() + field, &value, 4);
      const uint32_t crc = Crc32c(std::string_view(bad).substr(0, crc_at));
      std::memcpy(bad.data() + crc_at, &crc, 4);
      files_.Overwrite("f", bad);
      const auto reader = SectionFileReader::Open(files_, "f");
      if (!reader.ok()) continue;  // refused
      for (const Section& section : (*reader)->sections()) {
        ASSERT_LE(section.bytes, static_cast<int64_t>(whole.size()));
        (void)(*reader)->ReadBytes(section);
      }
    }
  }
}

TEST_F(SectionFileTest, ANewerMajorFormatIsRefused) {
  std::string newer = files_.Read("f");
  newer[8] = 2;
  const size_t crc_at = 64 + 128 * kSpecs.size();
  const uint32_t crc = Crc32c(std::string_view(newer).substr(0, crc_at));
  std::memcpy(newer.data() + crc_at, &crc, 4);
  files_.Overwrite("f", newer);
  EXPECT_EQ(DetailOf(ReadAll())->reason, "STATE_FORMAT_TOO_NEW");
  newer = files_.Read("f");
  newer[8] = 1, newer[12] = 9;  // a newer minor one is read
  const uint32_t minor = Crc32c(std::string_view(newer).substr(0, crc_at));
  std::memcpy(newer.data() + crc_at, &minor, 4);
  files_.Overwrite("f", newer);
  EXPECT_TRUE(SectionFileReader::Open(files_, "f").ok());
}

TEST_F(SectionFileTest, AnUnfinishedFileIsRefused) {
  auto writer = SectionFileWriter::Create(files_, "g", kSpecs);
  ASSERT_TRUE((*writer)->Append(0, contents_[0]).ok());
  EXPECT_EQ(SectionFileReader::Open(files_, "g").status().code(), StatusCode::kDataLoss);
}

TEST_F(SectionFileTest, AFailedFsyncIsFinal) {
  auto writer = SectionFileWriter::Create(files_, "g", {{"a", DataType::kUint8, {1}}});
  ASSERT_TRUE((*writer)->Append(0, "x").ok());
  files_.FailAt(2, EIO);  // table, header, fsync
  EXPECT_EQ(DetailOf((*writer)->Finish())->reason, "STATE_SYNC_FAILED");
  EXPECT_FALSE((*writer)->finished());
}

}  // namespace
}  // namespace vicinal::state
