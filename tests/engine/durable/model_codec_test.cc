// SPDX-License-Identifier: Apache-2.0
#include "engine/durable/model_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/model/model.h"
#include "tests/engine/api/small_world.h"
#include "tests/engine/durable/durable_testing.h"

namespace vicinal::durable {
namespace {

using ::testing::HasSubstr;

class ModelCodecTest : public ::testing::Test {
 protected:
  void Write(const ModelDocument& document) {
    StoredModel stored;
    stored.name = "m";
    stored.version = 4;
    stored.create_time = WallTime(std::chrono::milliseconds(1'700'000'000'123));
    stored.reference_checked = true;
    stored.reference_error = 1.25e-7;
    stored.source_digest = "sync-1:m";
    auto writer = directory_->BeginVersion({state::Store::kModels, "m", 4, "", 0});
    ASSERT_TRUE(writer.ok()) << writer.status();
    const Status written = WriteModel(stored, document, **writer);
    ASSERT_TRUE(written.ok()) << written;
  }
  StatusOr<StoredModel> Read() { return ReadModel(*directory_, OnlyVersion(*directory_, state::Store::kModels)); }

  const ModelSource source_ = testing::SmallModel("m");
  state::SimulatedFileSystem files_;
  std::unique_ptr<state::StateDirectory> directory_ = OpenState(&files_);
};

TEST_F(ModelCodecTest, ComesBackAsTheUploadMadeIt) {
  Write({source_.architecture_json, source_.weights_file, {}});
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->name, "m");
  EXPECT_EQ(read->version, 4);
  EXPECT_EQ(read->create_time, WallTime(std::chrono::milliseconds(1'700'000'000'123)));
  EXPECT_TRUE(read->reference_checked);
  EXPECT_EQ(read->reference_error, 1.25e-7);
  EXPECT_EQ(read->source_digest, "sync-1:m");
  const auto loaded = LoadModel(source_.architecture_json, source_.weights_file);
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(read->model->class_count, (*loaded)->class_count);
  EXPECT_EQ(read->model->steps.size(), (*loaded)->steps.size());
  EXPECT_EQ(read->model->size_bytes, (*loaded)->size_bytes);
  EXPECT_GE(*ModelBytesBound(*directory_, OnlyVersion(*directory_, state::Store::kModels)), read->model->size_bytes);
}

TEST_F(ModelCodecTest, AModelThatThisBuildLacksIsNotCalledDamaged) {
  std::string architecture = source_.architecture_json;
  architecture.replace(architecture.find("GCNConv"), 7, "ConvOfTheFuture");
  Write({architecture, source_.weights_file, {}});
  const auto read = Read();
  EXPECT_EQ(read.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(read.status()), "STATE_MODEL_UNSUPPORTED");
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("ConvOfTheFuture"));
}

TEST_F(ModelCodecTest, ADamagedByteIsFound) {
  Write({source_.architecture_json, source_.weights_file, {}});
  files_.XorByte("models/m/4/model.vsec", state::kSectionAlignment + 1, 0x40);
  EXPECT_EQ(Read().status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace vicinal::durable
