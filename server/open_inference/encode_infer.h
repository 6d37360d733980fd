// SPDX-License-Identifier: Apache-2.0
// Turns replies of vicinal.v1 into ModelInfer's. Raw contents are moved, never copied.
#ifndef VICINAL_SERVER_OPEN_INFERENCE_ENCODE_INFER_H_
#define VICINAL_SERVER_OPEN_INFERENCE_ENCODE_INFER_H_

#include "inference/grpc_inference.pb.h"
#include "server/open_inference/decode_infer.h"
#include "vicinal/v1/inference.pb.h"

namespace vicinal::server {

// The outputs that were asked for, and the versions that served them. `reply` has these outputs; its tensors are moved
// from. Reply: v1::ClassifyResponse, v1::EmbedResponse or v1::ClassifyGraphsResponse. The response's name and id are
// the request's.
template <class Reply>
void EncodeInfer(const inference::ModelInferRequest& request, const OpenInfer& infer, Reply* reply,
                 inference::ModelInferResponse* response);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_OPEN_INFERENCE_ENCODE_INFER_H_
