// SPDX-License-Identifier: Apache-2.0
#include "engine/durable/model_codec.h"

#include <limits>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/durable/metadata.h"
#include "engine/durable/version_files.h"
#include "engine/model/model.h"
#include "engine/state/file_error.h"

namespace vicinal::durable {
namespace {

constexpr char kModelFile[] = "model";

struct ModelMetadata {
  bool reference_checked = false;
  double reference_error = 0.0;
  int64_t create_time = 0;
};

// Of the steps that a document becomes, for each byte of it: a layer of 30 becomes one to three, of some hundred bytes.
constexpr int64_t kStepBytesPerCharacter = 64;

template <class Visitor, class Metadata>
void ModelMembers(Visitor& visit, Metadata& metadata) {
  visit("reference_checked", metadata.reference_checked);
  visit("reference_error", metadata.reference_error);
  visit("create_time_ns", metadata.create_time);
}

StatusOr<std::string> ReadText(const state::SectionFileReader& file, const std::string& path, const char* name) {
  const state::Section* const section = file.Find(name);
  if (section == nullptr) return state::Damaged(path, std::string("section '") + name + "' is missing");
  return file.ReadBytes(*section);
}

}  // namespace

Status WriteModel(const StoredModel& model, const ModelDocument& document, state::VersionWriter& writer) {
  const auto bytes = [](const std::string& text) { return std::vector<int64_t>{static_cast<int64_t>(text.size())}; };
  VICINAL_RETURN_IF_ERROR(
      WriteFile(writer, kModelFile,
                {{{"architecture", DataType::kUint8, bytes(document.architecture_json)}, document.architecture_json},
                 {{"weights", DataType::kUint8, bytes(document.weights_file)}, document.weights_file}},
                {}));
  const ModelMetadata metadata = {model.reference_checked, model.reference_error, ToNanoseconds(model.create_time)};
  MetadataWriter text;
  ModelMembers(text, metadata);
  text("source_digest", model.source_digest);
  return writer.Publish(text.Text());
}

StatusOr<int64_t> ModelBytesBound(const state::StateDirectory& directory, const state::Manifest& manifest) {
  VICINAL_ASSIGN_OR_RETURN(const state::ManifestFile entry, OnlyFile(manifest, kModelFile));
  VICINAL_ASSIGN_OR_RETURN(const auto file, directory.OpenFile(manifest, entry.name));
  const auto bytes_of = [&file](const char* name) {
    const state::Section* const section = file->Find(name);
    return section != nullptr ? section->bytes : 0;
  };
  const int64_t text = bytes_of("architecture");
  const int64_t bytes = text + bytes_of("weights");  // at most those of the file, which pads its sections
  if (bytes > std::numeric_limits<int64_t>::max() / (4 + kStepBytesPerCharacter)) {
    return state::Damaged(state::Describe(manifest.id), "its size is out of range");
  }
  // What is read, and weights that 16-bit numbers become, twice where transposed; and the steps.
  return 4 * bytes + kStepBytesPerCharacter * text;
}

StatusOr<StoredModel> ReadModel(const state::StateDirectory& directory, const state::Manifest& manifest) {
  const std::string path = state::Describe(manifest.id);
  VICINAL_ASSIGN_OR_RETURN(MetadataReader reader, MetadataReader::Parse(path, manifest.metadata));
  ModelMetadata metadata;
  ModelMembers(reader, metadata);
  std::string source_digest;
  if (reader.Has("source_digest")) reader("source_digest", source_digest);  // the first builds wrote none
  VICINAL_RETURN_IF_ERROR(reader.status());
  VICINAL_ASSIGN_OR_RETURN(const state::ManifestFile entry, OnlyFile(manifest, kModelFile));
  VICINAL_ASSIGN_OR_RETURN(const auto file, directory.OpenFile(manifest, entry.name));
  VICINAL_ASSIGN_OR_RETURN(const std::string architecture, ReadText(*file, path, "architecture"));
  VICINAL_ASSIGN_OR_RETURN(const std::string weights, ReadText(*file, path, "weights"));
  StatusOr<std::shared_ptr<const Model>> model = LoadModel(architecture, weights);
  if (!model.ok()) {
    return FailedPrecondition("STATE_MODEL_UNSUPPORTED", path + " is stored whole, but this build cannot load it: " +
                                                             std::string(model.status().message()));
  }
  StoredModel stored;
  stored.name = manifest.id.name;
  stored.version = manifest.id.version;
  stored.create_time = FromNanoseconds(metadata.create_time);
  stored.model = *std::move(model);
  stored.reference_checked = metadata.reference_checked;
  stored.reference_error = metadata.reference_error;
  stored.source_digest = std::move(source_digest);
  return stored;
}

}  // namespace vicinal::durable
