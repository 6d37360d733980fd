// SPDX-License-Identifier: Apache-2.0
// The document that keeps the tuning decisions of a graph version for one device (docs/state.md, "Tuning").
#ifndef VICINAL_ENGINE_DURABLE_TUNING_DOCUMENT_H_
#define VICINAL_ENGINE_DURABLE_TUNING_DOCUMENT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/state/state_directory.h"
#include "engine/tune/kept_record.h"

namespace vicinal::durable {

// Work that plans did with the registry's default, because nothing was decided about it.
struct DefaultWork {
  TuningWork work;
  int64_t reduction_order = 0;  // Kernel::ReductionOrder of that default
};

struct TuningDocument {
  std::string graph;
  int64_t version = 0;
  std::string device;  // kind of processor or GPU: decisions mean nothing on another
  std::vector<KeptRecord> records;
  std::vector<DefaultWork> defaults;  // none of them is among the records
};

// The document's name in the version's directory: a function of the device; those of several stand side by side.
using state::TuningDocumentName;

// Of a document that would become large, only the decisions are kept, and not what the other candidates took.
std::string EncodeTuningDocument(const TuningDocument& document);
// `path` names it in errors. DATA_LOSS (STATE_DAMAGED); FAILED_PRECONDITION (STATE_FORMAT_TOO_NEW).
StatusOr<TuningDocument> ParseTuningDocument(const std::string& path, std::string_view text);

}  // namespace vicinal::durable

#endif  // VICINAL_ENGINE_DURABLE_TUNING_DOCUMENT_H_
