// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/reply_checks.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "client/cpp/errors.h"
#include "client/cpp/formats/status_macros.h"
#include "proto/wire/tensors.h"

namespace vicinal::client::internal {
namespace {

absl::Status Broken(const std::string& message) {
  return CallError(absl::StatusCode::kInternal, absl::StrCat("the server's answer: ", message));
}

// A matrix of a reply: whether it is there, and whether it was asked for.
struct Matrix {
  const char* name;
  bool there;
  bool asked;
  const v1::Tensor& tensor;
  v1::DataType dtype;
};

// [rows, width] of the right type; `rows` -1: any.
absl::Status CheckMatrix(const Matrix& matrix, int64_t rows) {
  if (!matrix.there) return matrix.asked ? Broken(absl::StrCat("it contains no ", matrix.name)) : absl::OkStatus();
  if (!matrix.asked) return Broken(absl::StrCat("it contains ", matrix.name, ", which were not asked for"));
  const v1::Tensor& tensor = matrix.tensor;
  if (tensor.shape_size() != 2) return Broken(absl::StrCat(matrix.name, " is not a matrix"));
  if (tensor.dtype() != matrix.dtype) return Broken(absl::StrCat(matrix.name, " has an unexpected type"));
  const absl::Status valid = wire::CheckTensor(tensor);
  if (!valid.ok()) return Broken(absl::StrCat(matrix.name, ": ", valid.message()));
  if (rows >= 0 && tensor.shape(0) != rows) return Broken(absl::StrCat(matrix.name, " has another number of rows"));
  return absl::OkStatus();
}

// What classes of nodes and of graphs have in common; the caller counts the rows.
template <class Request, class Response>
absl::Status CheckClasses(const Request& request, const Response& reply) {
  const Matrix classes = {"classes", reply.has_classes(), true, reply.classes(), v1::DATA_TYPE_INT32};
  CLIENT_RETURN_IF_ERROR(CheckMatrix(classes, -1));
  const int64_t rows = reply.classes().shape(0);
  for (const Matrix& matrix :
       {Matrix{"scores", reply.has_scores(), true, reply.scores(), v1::DATA_TYPE_FLOAT32},
        Matrix{"logits", reply.has_logits(), request.return_logits(), reply.logits(), v1::DATA_TYPE_FLOAT32},
        Matrix{"probabilities", reply.has_probabilities(), request.return_probabilities(), reply.probabilities(),
               v1::DATA_TYPE_FLOAT32}}) {
    CLIENT_RETURN_IF_ERROR(CheckMatrix(matrix, rows));
  }
  const int64_t asked = request.has_top_k() ? request.top_k() : 1;
  for (const v1::Tensor* tensor : {&reply.classes(), &reply.scores()}) {
    if (tensor->shape(1) == asked) continue;
    return Broken(absl::StrCat("it has ", tensor->shape(1), " classes per row, ", asked, " were asked for"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RowCount::Add(int64_t first, int64_t rows) {
  if (first != rows_) return Broken(absl::StrCat("a piece begins at row ", first, ", not at ", rows_));
  if (rows == 0 && asked_ != 0) return Broken("a piece has no rows");
  if (asked_ && rows > *asked_ - rows_) {
    return Broken(absl::StrCat("it has more than the ", *asked_, " rows that were asked for"));
  }
  rows_ += rows;
  return absl::OkStatus();
}

absl::Status RowCount::Finish() const {
  if (!asked_ || rows_ == *asked_) return absl::OkStatus();
  return Broken(absl::StrCat("it has ", rows_, " rows, ", *asked_, " were asked for"));
}

std::optional<int64_t> RowsAsked(const v1::NodeSelection& nodes, int64_t node_count) {
  if (!nodes.all()) return nodes.ids_size();
  if (node_count > 0) return node_count;
  return std::nullopt;
}

absl::Status CheckReply(const v1::ClassifyRequest& request, const v1::ClassifyResponse& reply, RowCount* rows) {
  CLIENT_RETURN_IF_ERROR(CheckClasses(request, reply));
  return rows->Add(reply.first_row(), reply.classes().shape(0));
}

absl::Status CheckReply(const v1::EmbedRequest& request, const v1::EmbedResponse& reply, RowCount* rows) {
  if (!request.attention().empty()) {
    const v1::AttentionWeights& attention = reply.attention();
    CLIENT_RETURN_IF_ERROR(
        CheckMatrix({"edges", attention.has_edges(), true, attention.edges(), v1::DATA_TYPE_INT64}, -1));
    const int64_t edges = attention.edges().shape(0);
    CLIENT_RETURN_IF_ERROR(
        CheckMatrix({"weights", attention.has_weights(), true, attention.weights(), v1::DATA_TYPE_FLOAT32}, edges));
    if (attention.edges().shape(1) != 2) return Broken("an edge does not have two ends");
    return edges == 0 && reply.first_row() == 0 ? absl::OkStatus() : rows->Add(reply.first_row(), edges);
  }
  const Matrix embeddings = {"embeddings", reply.has_embeddings(), true, reply.embeddings(), v1::DATA_TYPE_FLOAT32};
  CLIENT_RETURN_IF_ERROR(CheckMatrix(embeddings, -1));
  return rows->Add(reply.first_row(), reply.embeddings().shape(0));
}

absl::Status CheckReply(const v1::ClassifyGraphsRequest& request, const v1::ClassifyGraphsResponse& reply,
                        RowCount* rows) {
  CLIENT_RETURN_IF_ERROR(CheckClasses(request, reply));
  return rows->Add(0, reply.classes().shape(0));
}

std::optional<int64_t> RowsAsked(const v1::EmbedRequest& request, int64_t node_count) {
  if (!request.attention().empty()) return std::nullopt;
  return RowsAsked(request.nodes(), node_count);
}

std::optional<int64_t> RowsAsked(const v1::PredictLinksRequest& request) {
  if (request.all_edges()) return std::nullopt;
  return request.pairs().sources_size();
}

absl::Status CheckReply(const v1::PredictLinksRequest& request, const v1::PredictLinksResponse& reply, RowCount* rows) {
  CLIENT_RETURN_IF_ERROR(CheckMatrix({"scores", reply.has_scores(), true, reply.scores(), v1::DATA_TYPE_FLOAT32}, -1));
  const int64_t links = reply.scores().shape(0);
  CLIENT_RETURN_IF_ERROR(
      CheckMatrix({"links", reply.has_links(), request.all_edges(), reply.links(), v1::DATA_TYPE_INT64}, links));
  CLIENT_RETURN_IF_ERROR(CheckMatrix({"probabilities", reply.has_probabilities(), request.return_probabilities(),
                                      reply.probabilities(), v1::DATA_TYPE_FLOAT32},
                                     links));
  if (reply.scores().shape(1) != 1) return Broken("a link has more than one score");
  if (request.all_edges() && reply.links().shape(1) != 2) return Broken("a link has not two ends");
  // A graph may have no edges.
  if (request.all_edges() && links == 0 && reply.first_row() == 0) return absl::OkStatus();
  return rows->Add(reply.first_row(), links);
}

absl::Status CheckReply(const v1::TopLinksRequest& request, const v1::TopLinksResponse& reply, RowCount* rows) {
  CLIENT_RETURN_IF_ERROR(
      CheckMatrix({"partners", reply.has_partners(), true, reply.partners(), v1::DATA_TYPE_INT64}, -1));
  const int64_t nodes = reply.partners().shape(0), k = reply.partners().shape(1);
  CLIENT_RETURN_IF_ERROR(
      CheckMatrix({"scores", reply.has_scores(), true, reply.scores(), v1::DATA_TYPE_FLOAT32}, nodes));
  CLIENT_RETURN_IF_ERROR(CheckMatrix({"probabilities", reply.has_probabilities(), request.return_probabilities(),
                                      reply.probabilities(), v1::DATA_TYPE_FLOAT32},
                                     nodes));
  if (reply.scores().shape(1) != k || (reply.has_probabilities() && reply.probabilities().shape(1) != k))
    return Broken("partners and scores differ in shape");
  if (k < 1 || (request.has_k() && k != request.k()))
    return Broken(absl::StrCat("it has ", k, " partners per node, ", request.k(), " were asked for"));
  return rows->Add(reply.first_row(), nodes);
}

absl::Status CheckPicture(const v1::GraphPicture& picture) {
  constexpr int32_t kMostTiles = 256;
  constexpr int kMostDigits = 64;
  const int32_t side = picture.tiles();
  if (side < 0 || side > kMostTiles) return Broken(absl::StrCat("a picture of ", side, " tiles on each side"));
  if (picture.before_size() != side * side || picture.after_size() != side * side) {
    return Broken("the counts of a picture are not as many as its tiles");
  }
  if (picture.degree_counts_size() > kMostDigits) return Broken("a picture has degrees of more than 64 digits");
  if (picture.row_stride() < 1) return Broken("a picture has a stride below 1");
  for (const auto* const counts : {&picture.degree_counts(), &picture.before(), &picture.after()}) {
    for (const int64_t count : *counts) {
      if (count < 0) return Broken("a picture has a count below 0");
    }
  }
  return absl::OkStatus();
}

}  // namespace vicinal::client::internal
