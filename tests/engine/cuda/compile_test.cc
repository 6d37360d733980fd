// SPDX-License-Identifier: Apache-2.0
// Kernels compiled at run time, as far as it needs no GPU: generated sources through the NVRTC of this machine, for the
// oldest and a new architecture, without CUDA's headers; children that hang, crash, answer nonsense or are not there;
// kernels that are kept, and damaged ones. Loading and bits: conformance, on a GPU.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "engine/base/error.h"
#include "engine/cuda/compile/child_compiler.h"
#include "engine/cuda/compile/cubin_cache.h"
#include "engine/cuda/compile/generate_source.h"
#include "engine/cuda/compile/standard_headers.h"
#include "tests/engine/kernels/edge_values.h"
#include "tests/support/temporary_directory.h"

namespace vicinal::cuda {
namespace {

using ::testing::HasSubstr;
using testing::ValueOf;

constexpr int kVersion = CUDART_VERSION / 10 * 10;

// A product with an activation, a row, dots, and four reductions; or a program over rows.
TileProgram Program(bool over_edges) {
  EdgeProgram program;
  program.over_edges = over_edges;
  program.targets = 1;
  program.sources = over_edges ? 1 : 0;
  program.values = {ValueOf(over_edges ? EdgeOp::kSource : EdgeOp::kTarget, 24, -1, -1, 0),
                    ValueOf(EdgeOp::kTarget, 24, -1, -1, 0),
                    ValueOf(EdgeOp::kAdd, 24, 0, 1),
                    ValueOf(EdgeOp::kLinear, 8, 2, -1, 0),
                    ValueOf(EdgeOp::kActivation, 8, 3),
                    ValueOf(EdgeOp::kRow, 24, -1, -1, 1),
                    ValueOf(EdgeOp::kDot, 2, 2, 5)};
  program.values[4].activation = {ActivationKind::kGelu};
  program.results = {{EdgeReduce::kSum, 4, -1}};
  if (over_edges) {
    program.results.push_back({EdgeReduce::kStd, 4, -1});
    program.results.push_back({EdgeReduce::kSoftmax, 4, 6});
    program.results.push_back({EdgeReduce::kMin, 2, -1});
  }
  return EncodeProgram(*CompileEdgeProgram(program, 2), {nullptr, nullptr});
}

CompileRequest RequestFor(const std::string& architecture, bool over_edges = true, int part_columns = 0) {
  CompileRequest request;
  request.version = kVersion;
  request.source = GenerateSource(FuseProgram(Program(over_edges)), 32, true, part_columns);
  request.options = {"--gpu-architecture=" + architecture, "--std=c++20", "--fmad=false",
                     "--device-as-default-execution-space", "--diag-suppress=554,177"};
  for (const HeaderText& header : StandardHeaders()) request.headers.emplace_back(header.name, header.text);
  for (const HeaderText& header : DeviceHeaders()) request.headers.emplace_back(header.name, header.text);
  return request;
}

class CompileTest : public ::testing::Test {
 protected:
  // A program in place of the compiler.
  ChildLimits Fake(const std::string& script) {
    const std::string path = folder_ / "fake";
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    chmod(path.c_str(), 0700);
    ChildLimits limits;
    limits.program = path;
    return limits;
  }
  static std::string ErrorOf(const StatusOr<std::string>& result) {
    EXPECT_FALSE(result.ok());
    const auto detail = DetailOf(result.status());
    EXPECT_TRUE(detail.has_value() && detail->reason == "COMPILER_FAILED");
    return std::string(result.status().message());
  }

  const TemporaryDirectory folder_;
};

class NvrtcTest : public CompileTest {
 protected:
  // Skips where NVRTC is not installed.
  std::string Compile(const CompileRequest& request) {
    const auto cubin = CompileInChild(request, limits_);
    if (!cubin.ok() && std::string(cubin.status().message()).find("NVRTC is not installed") != std::string::npos) {
      skipped_ = true;
      return {};
    }
    EXPECT_TRUE(cubin.ok()) << cubin.status().message();
    return cubin.ok() ? *cubin : std::string();
  }

  ChildLimits limits_{VICINAL_BIN_DIR "/vicinal-kernel-compiler"};
  bool skipped_ = false;
};

// How often the source has the program's code: once, or for rows that are aligned and for others.
int AlignmentsOf(int64_t width, bool dot) {
  EdgeProgram program;
  program.sources = 1;
  program.values = {ValueOf(EdgeOp::kSource, width, -1, -1, 0), ValueOf(EdgeOp::kAbs, width, 0)};
  program.results = {{EdgeReduce::kSum, 1, -1}};
  if (dot) {
    program.values.push_back(ValueOf(EdgeOp::kDot, 1, 1, 0));
    program.results = {{EdgeReduce::kSum, 2, -1}};
  }
  const FusedProgram fused = FuseProgram(EncodeProgram(*CompileEdgeProgram(program, 0), {}));
  const std::string source = GenerateSource(fused, 32, true, 0), use = "<vicinal::cuda::CompiledProgram<";
  int count = 0;
  for (size_t at = source.find(use); at != std::string::npos; at = source.find(use, at + 1)) ++count;
  return count;
}

TEST_F(CompileTest, OnlyWhatReadsAdjacentColumnsIsCompiledForBothAlignments) {
  EXPECT_EQ(AlignmentsOf(32, false), 1) << "a thread has one column";
  EXPECT_EQ(AlignmentsOf(64, false), 2);
  EXPECT_EQ(AlignmentsOf(66, false), 1) << "packs of columns would cross the rows' ends";
  EXPECT_EQ(AlignmentsOf(16, true), 2) << "dots read four columns at once";
  EXPECT_EQ(AlignmentsOf(18, true), 1);
}

TEST_F(NvrtcTest, GeneratedSourcesCompileWithoutCudasHeaders) {
  for (const char* architecture : {"sm_75", "sm_90"}) {
    const std::string cubin = Compile(RequestFor(architecture));
    if (skipped_) GTEST_SKIP() << "NVRTC is not installed";
    EXPECT_THAT(cubin.substr(0, 4),
                "\x7f"
                "ELF");
    EXPECT_THAT(cubin, HasSubstr(kCompiledKernel));
  }
  EXPECT_THAT(Compile(RequestFor("sm_90", false)), HasSubstr(kCompiledKernel));
  EXPECT_THAT(Compile(RequestFor("sm_90", true, 8)), HasSubstr(kCompiledKernel));
}

TEST_F(NvrtcTest, CompilersErrorsAreTold) {
  CompileRequest request = RequestFor("sm_90");
  request.source += "this is no C++;\n";
  const std::string error = ErrorOf(CompileInChild(request, limits_));
  if (error.find("not installed") != std::string::npos) GTEST_SKIP();
  EXPECT_THAT(error, HasSubstr("expression.cu"));
}

// Bits of another version's functions may differ.
TEST_F(NvrtcTest, OtherVersionsRefuse) {
  CompileRequest request = RequestFor("sm_90");
  request.version += 50;
  const std::string error = ErrorOf(CompileInChild(request, limits_));
  if (error.find("not installed") != std::string::npos) GTEST_SKIP();
  EXPECT_THAT(error, HasSubstr("for equal bits"));
}

// Plans decide by it before any program is compiled.
TEST_F(NvrtcTest, WhetherItCompilesIsKnownWithoutAProgram) {
  const std::string why = WhyCannotCompile(kVersion, 90, limits_);
  if (why.find("NVRTC is not installed") != std::string::npos) GTEST_SKIP();
  EXPECT_EQ(why, "");
  EXPECT_THAT(WhyCannotCompile(kVersion + 50, 90, limits_), HasSubstr("for equal bits"));
  EXPECT_NE(WhyCannotCompile(kVersion, 10, limits_), "") << "no such GPU";
}

TEST_F(NvrtcTest, MemoryIsBounded) {
  limits_.memory_bytes = int64_t{32} << 20;
  ErrorOf(CompileInChild(RequestFor("sm_90"), limits_));
}

TEST_F(CompileTest, MissingProgram) {
  EXPECT_THAT(ErrorOf(CompileInChild(RequestFor("sm_90"), {"/nowhere/compiler"})), HasSubstr("/nowhere/compiler"));
  EXPECT_THAT(WhyCannotCompile(kVersion, 90, {"/nowhere/compiler"}), HasSubstr("/nowhere/compiler"));
}

TEST_F(CompileTest, AHangingChildIsKilled) {
  ChildLimits limits = Fake("exec tail -f /dev/null");
  limits.wall_time = std::chrono::milliseconds(300);
  EXPECT_THAT(ErrorOf(CompileInChild(RequestFor("sm_90"), limits)), HasSubstr("killed"));
}

TEST_F(CompileTest, ACrashedChildIsTold) {
  EXPECT_THAT(ErrorOf(CompileInChild(RequestFor("sm_90"), Fake("kill -SEGV $$"))), HasSubstr("signal 11"));
  EXPECT_THAT(ErrorOf(CompileInChild(RequestFor("sm_90"), Fake("exit 7"))), HasSubstr("status 7"));
}

TEST_F(CompileTest, NonsenseIsNoKernel) {
  EXPECT_THAT(ErrorOf(CompileInChild(RequestFor("sm_90"), Fake("cat > /dev/null; echo hello"))),
              HasSubstr("without an answer"));
}

TEST_F(CompileTest, AnswersComeWhole) {
  CompileReply reply;
  reply.cubin = std::string(300'000, 'x') + std::string(1, '\0') + "end";
  std::ofstream(folder_ / "reply", std::ios::binary) << reply.Encode();
  const auto cubin = CompileInChild(RequestFor("sm_90"), Fake("cat > /dev/null; cat '" + folder_ / "reply'"));
  ASSERT_TRUE(cubin.ok()) << cubin.status().message();
  EXPECT_EQ(*cubin, reply.cubin);
}

TEST_F(CompileTest, KeysTellProgramsAndArchitecturesApart) {
  const std::string key = KeyOf(RequestFor("sm_90"));
  EXPECT_EQ(key.size(), 32u);
  EXPECT_EQ(key, KeyOf(RequestFor("sm_90")));
  EXPECT_NE(key, KeyOf(RequestFor("sm_75")));
  EXPECT_NE(key, KeyOf(RequestFor("sm_90", false)));
  EXPECT_NE(key, KeyOf(RequestFor("sm_90", true, 8)));
  CompileRequest newer = RequestFor("sm_90");
  newer.version += 10;
  EXPECT_NE(key, KeyOf(newer));
  newer = RequestFor("sm_90");
  newer.headers.back().second += " ";
  EXPECT_NE(key, KeyOf(newer));
}

TEST_F(CompileTest, KernelsAreKept) {
  const CubinCache cache(folder_ / "compiled");
  EXPECT_FALSE(cache.Load("0123").has_value());
  EXPECT_TRUE(cache.Store("0123", std::string("a\0b", 3)));
  EXPECT_EQ(cache.Load("0123"), std::string("a\0b", 3));
  EXPECT_FALSE(CubinCache("").Store("0123", "x"));
  EXPECT_FALSE(CubinCache("").Load("0123").has_value());
  EXPECT_FALSE(CubinCache("/proc/nowhere").Store("0123", "x"));
}

TEST_F(CompileTest, KernelsThatWereUsedLongestAgoAreRemoved) {
  const std::string code(10'000, 'c');
  const CubinCache cache(folder_.path(), 35'000);  // three of them
  const auto age = [&](const std::string& key, int hours) {
    const auto then = std::filesystem::file_time_type::clock::now() - std::chrono::hours(hours);
    std::filesystem::last_write_time(folder_ / key, then);
  };
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(cache.Store(key, code));
  age("a.cubin", 3), age("b.cubin", 2), age("c.cubin", 1);
  std::ofstream(folder_ / "d.cubin.123") << code;  // of a process that was killed
  age("d.cubin.123", 4);
  std::ofstream(folder_ / "notes.txt") << code;  // not a kernel
  EXPECT_EQ(cache.Load("a"), code);              // its last use is now
  ASSERT_TRUE(cache.Store("e", code));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "d.cubin.123"));
  EXPECT_FALSE(cache.Load("b").has_value());
  for (const char* key : {"a", "c", "e"}) EXPECT_TRUE(cache.Load(key).has_value()) << key;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "notes.txt"));
}

TEST_F(CompileTest, DamagedKernelsAreRemoved) {
  const CubinCache cache(folder_.path());
  const std::string path = folder_ / "0123.cubin";
  for (const int64_t at : {0, 20, 60}) {
    ASSERT_TRUE(cache.Store("0123", "the code of a kernel"));
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(at).put('#');
    file.close();
    EXPECT_FALSE(cache.Load("0123").has_value()) << at;
    EXPECT_FALSE(std::filesystem::exists(path)) << at;
  }
  ASSERT_TRUE(cache.Store("0123", "the code of a kernel"));
  std::filesystem::resize_file(path, 55);
  EXPECT_FALSE(cache.Load("0123").has_value());
  // Another kernel's file.
  ASSERT_TRUE(cache.Store("0123", "the code of a kernel"));
  std::filesystem::rename(path, folder_ / "4567.cubin");
  EXPECT_FALSE(cache.Load("4567").has_value());
}

}  // namespace
}  // namespace vicinal::cuda
