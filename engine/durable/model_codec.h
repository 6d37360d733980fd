// SPDX-License-Identifier: Apache-2.0
// Models as versions of the state directory: the document and the weights as they were uploaded, and the result of the
// reference check. Reading loads the model again, which takes milliseconds, so that a model from disk passes every
// check that an upload passes.
#ifndef VICINAL_ENGINE_DURABLE_MODEL_CODEC_H_
#define VICINAL_ENGINE_DURABLE_MODEL_CODEC_H_

#include <cstdint>
#include <string>

#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/state/manifest.h"
#include "engine/state/state_directory.h"
#include "engine/store/model_store.h"

namespace vicinal::durable {

// Writes and publishes through `writer`, which must have been begun for this version. Blocks until it is durable.
Status WriteModel(const StoredModel& model, const ModelDocument& document, state::VersionWriter& writer);

// Upper bound of the bytes that ReadModel needs: the files, and the model made of them.
StatusOr<int64_t> ModelBytesBound(const state::StateDirectory& directory, const state::Manifest& manifest);
// The model without a reservation. DATA_LOSS (STATE_DAMAGED); FAILED_PRECONDITION: STATE_FORMAT_TOO_NEW, or
// STATE_MODEL_UNSUPPORTED where this build lacks what the model needs.
StatusOr<StoredModel> ReadModel(const state::StateDirectory& directory, const state::Manifest& manifest);

}  // namespace vicinal::durable

#endif  // VICINAL_ENGINE_DURABLE_MODEL_CODEC_H_
