// SPDX-License-Identifier: Apache-2.0
// Nothing the server sends is believed: shapes must agree from piece to piece and among the matrices of one.
#include "client/cpp/cli/answers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/cli/output.h"
#include "client/cpp/cli/tensors.h"
#include "client/cpp/errors.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/formats/not_finite.h"
#include "client/cpp/formats/npy.h"
#include "client/cpp/formats/status_macros.h"

namespace vicinal::client::cli {
namespace {

constexpr size_t kShownValues = 6;

absl::Status Broken(const std::string& message) {
  return CallError(absl::StatusCode::kInternal, absl::StrCat("the server's answer: ", message));
}

// Adds the rows of `tensor` (if present) to the matrix of that name, and stores their number in `*rows`. An error if
// that differs from a number stored before.
absl::Status AddRows(const std::string& name, bool there, const v1::Tensor& tensor, Answer* answer, int64_t* rows) {
  if (!there) return absl::OkStatus();
  CLIENT_ASSIGN_OR_RETURN(Array piece, ToArray(tensor));
  if (piece.shape.size() != 2) return Broken(absl::StrCat(name, " is not a matrix"));
  if (*rows >= 0 && piece.shape[0] != *rows) return Broken(absl::StrCat(name, " has another number of rows"));
  *rows = piece.shape[0];
  const auto [at, first] = answer->matrices.emplace(name, piece);
  if (first) {
    if (answer->rows != 0) return Broken(absl::StrCat(name, " was not in the first piece"));
    return absl::OkStatus();
  }
  Array& whole = at->second;
  if (whole.type != piece.type || whole.shape[1] != piece.shape[1]) {
    return Broken(absl::StrCat(name, " changes its width from piece to piece"));
  }
  whole.shape[0] += piece.shape[0];
  whole.data += piece.data;
  return absl::OkStatus();
}

// Every matrix must have grown by the same rows.
absl::Status EndPiece(int64_t rows, Answer* answer) {
  answer->rows += std::max<int64_t>(rows, 0);
  int64_t bytes = 0;
  for (const auto& [name, matrix] : answer->matrices) {
    if (matrix.shape[0] != answer->rows) return Broken(absl::StrCat(name, " is missing in a piece"));
    bytes += static_cast<int64_t>(matrix.data.size());
  }
  if (bytes <= answer->max_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the answer has more than ", answer->max_bytes, " bytes after ",
                                                 answer->rows,
                                                 " rows; ask for fewer nodes, or raise --max_answer_bytes"));
}

template <class Response>
absl::Status AddClasses(const Response& piece, Answer* answer) {
  int64_t rows = -1;
  CLIENT_RETURN_IF_ERROR(AddRows("classes", piece.has_classes(), piece.classes(), answer, &rows));
  CLIENT_RETURN_IF_ERROR(AddRows("scores", piece.has_scores(), piece.scores(), answer, &rows));
  CLIENT_RETURN_IF_ERROR(AddRows("logits", piece.has_logits(), piece.logits(), answer, &rows));
  CLIENT_RETURN_IF_ERROR(AddRows("probabilities", piece.has_probabilities(), piece.probabilities(), answer, &rows));
  CLIENT_RETURN_IF_ERROR(EndPiece(rows, answer));
  answer->served_by = piece.served_by();
  if (piece.has_timing()) answer->timing = piece.timing();
  const auto classes = answer->matrices.find("classes");
  if (classes == answer->matrices.end() || classes->second.type != ElementType::kInt32 ||
      classes->second.shape[1] < 1) {
    return Broken("it contains no classes");
  }
  const auto scores = answer->matrices.find("scores");
  if (scores == answer->matrices.end() || scores->second.shape != classes->second.shape) {
    return Broken("classes and scores differ in shape");
  }
  return absl::OkStatus();
}

// "1st", "2nd", "11th": "class 2" could be read as a class number.
std::string Ordinal(int64_t n) {
  const bool teen = n % 100 / 10 == 1;
  return absl::StrCat(n, teen || n % 10 > 3 || n % 10 == 0 ? "th" : n % 10 == 1 ? "st" : n % 10 == 2 ? "nd" : "rd");
}

void PrintClasses(const Answer& answer, int64_t shown, Table* table,
                  const std::function<std::string(int64_t)>& name_of) {
  const Array& classes = answer.matrices.at("classes");
  for (int64_t row = 0; row < shown; ++row) {
    std::vector<std::string> cells = {name_of(row)};
    const std::vector<double> ids = RowOf(classes, row), scores = RowOf(answer.matrices.at("scores"), row);
    for (size_t k = 0; k < ids.size(); ++k) {
      cells.push_back(absl::StrCat(static_cast<int64_t>(ids[k])));
      cells.push_back(FormatFixed(scores[k], 4));
    }
    const auto logits = answer.matrices.find("logits");
    if (logits != answer.matrices.end()) {
      std::string text;
      const std::vector<double> values = RowOf(logits->second, row);
      for (size_t c = 0; c < values.size() && c < kShownValues; ++c) {
        absl::StrAppend(&text, c == 0 ? "" : " ", FormatNumber(values[c]));
      }
      cells.push_back(text + (values.size() > kShownValues ? " ..." : ""));
    }
    table->Add(std::move(cells));
  }
}

void PrintEmbeddings(const Answer& answer, int64_t shown, Table* table,
                     const std::function<std::string(int64_t)>& name_of) {
  for (int64_t row = 0; row < shown; ++row) {
    std::vector<std::string> cells = {name_of(row)};
    const std::vector<double> values = RowOf(answer.matrices.at("embeddings"), row);
    for (size_t c = 0; c < values.size() && c < kShownValues; ++c) cells.push_back(FormatNumber(values[c]));
    if (values.size() > kShownValues) cells.push_back("...");
    table->Add(std::move(cells));
  }
}

// A file of --out: an .npz has all matrices, an .npy one.
bool HoldsAllMatrices(const std::string& path) { return absl::EndsWith(path, ".npz"); }

}  // namespace

absl::Status Answer::Add(const v1::ClassifyResponse& piece) {
  if (piece.first_row() != rows)
    return Broken(absl::StrCat("a piece begins at row ", piece.first_row(), ", not at ", rows));
  return AddClasses(piece, this);
}

absl::Status Answer::Add(const v1::ClassifyGraphsResponse& piece) { return AddClasses(piece, this); }

absl::Status Answer::Add(const v1::EmbedResponse& piece) {
  if (piece.first_row() != rows)
    return Broken(absl::StrCat("a piece begins at row ", piece.first_row(), ", not at ", rows));
  int64_t added = -1;
  CLIENT_RETURN_IF_ERROR(AddRows("embeddings", piece.has_embeddings(), piece.embeddings(), this, &added));
  const v1::AttentionWeights& attention = piece.attention();
  CLIENT_RETURN_IF_ERROR(AddRows("edges", attention.has_edges(), attention.edges(), this, &added));
  CLIENT_RETURN_IF_ERROR(AddRows("weights", attention.has_weights(), attention.weights(), this, &added));
  CLIENT_RETURN_IF_ERROR(EndPiece(added, this));
  if (matrices.empty()) return Broken("it contains neither embeddings nor attention weights");
  served_by = piece.served_by();
  if (piece.has_timing()) timing = piece.timing();
  return absl::OkStatus();
}

absl::Status Answer::Add(const v1::PredictLinksResponse& piece) {
  if (piece.first_row() != rows)
    return Broken(absl::StrCat("a piece begins at row ", piece.first_row(), ", not at ", rows));
  int64_t added = -1;
  CLIENT_RETURN_IF_ERROR(AddRows("links", piece.has_links(), piece.links(), this, &added));
  CLIENT_RETURN_IF_ERROR(AddRows("scores", piece.has_scores(), piece.scores(), this, &added));
  CLIENT_RETURN_IF_ERROR(AddRows("probabilities", piece.has_probabilities(), piece.probabilities(), this, &added));
  CLIENT_RETURN_IF_ERROR(EndPiece(added, this));
  served_by = piece.served_by();
  if (piece.has_timing()) timing = piece.timing();
  return absl::OkStatus();
}

absl::Status Answer::Add(const v1::TopLinksResponse& piece) {
  if (piece.first_row() != rows)
    return Broken(absl::StrCat("a piece begins at row ", piece.first_row(), ", not at ", rows));
  int64_t added = -1;
  CLIENT_RETURN_IF_ERROR(AddRows("partners", piece.has_partners(), piece.partners(), this, &added));
  CLIENT_RETURN_IF_ERROR(AddRows("scores", piece.has_scores(), piece.scores(), this, &added));
  CLIENT_RETURN_IF_ERROR(AddRows("probabilities", piece.has_probabilities(), piece.probabilities(), this, &added));
  CLIENT_RETURN_IF_ERROR(EndPiece(added, this));
  served_by = piece.served_by();
  if (piece.has_timing()) timing = piece.timing();
  return absl::OkStatus();
}

std::vector<double> RowOf(const Array& matrix, int64_t row) {
  Array slice;
  slice.type = matrix.type;
  slice.shape = {matrix.shape[1]};
  const int64_t bytes = matrix.shape[1] * SizeOf(matrix.type);
  slice.data = matrix.data.substr(static_cast<size_t>(row * bytes), static_cast<size_t>(bytes));
  if (const absl::StatusOr<std::vector<int64_t>> integers = ToInts(slice); integers.ok()) {
    return {integers->begin(), integers->end()};
  }
  const std::vector<float> values = ToFloats(slice);
  return {values.begin(), values.end()};
}

void PrintAnswer(const Answer& answer, const std::string& what, const std::function<std::string(int64_t)>& name_of,
                 const std::string& kept, std::ostream& out) {
  const int64_t shown = std::min(answer.rows, kShownRows);
  std::vector<std::string> titles = {what};
  const auto classes = answer.matrices.find("classes");
  if (classes != answer.matrices.end()) {
    const int64_t width = classes->second.shape[1];
    for (int64_t k = 0; k < width; ++k) {
      titles.push_back(width == 1 ? "class" : Ordinal(k + 1) + " class");
      titles.push_back("score");
    }
    if (answer.matrices.contains("logits")) titles.push_back("logits");
  } else {
    const int64_t width = answer.matrices.at("embeddings").shape[1];
    for (int64_t c = 0; c < width && c < static_cast<int64_t>(kShownValues); ++c)
      titles.push_back(absl::StrCat("[", c, "]"));
    if (width > static_cast<int64_t>(kShownValues)) titles.push_back(absl::StrCat("of ", width));
  }
  Table table(titles);
  if (classes != answer.matrices.end()) {
    PrintClasses(answer, shown, &table, name_of);
  } else {
    PrintEmbeddings(answer, shown, &table, name_of);
  }
  table.Print(out);
  if (shown < answer.rows)
    out << "... " << answer.rows - shown << " more" << (kept.empty() ? "; --out FILE.npy writes all" : "") << '\n';
}

std::string NotFiniteNote(const Answer& answer, const std::string& what,
                          const std::function<std::string(int64_t)>& name_of, bool float16) {
  std::vector<bool> marks(static_cast<size_t>(answer.rows));
  for (const auto& [name, matrix] : answer.matrices) MarkRowsNotFinite(matrix, &marks);
  const auto first = std::find(marks.begin(), marks.end(), true);
  if (first == marks.end()) return "";
  const int64_t count = std::count(first, marks.end(), true);
  return absl::StrCat(
      count, " of ", FormatCount(answer.rows, "row"), (count == 1 ? " is" : " are"),
      " not finite (NaN or infinite), the first is that of ", what, " ", name_of(first - marks.begin()),
      ": a layer computed what has no finite value, such as the logarithm of a negative number, or a value between "
      "layers exceeded ",
      float16 ? "float16's 65,504, or float32's range; bfloat16 has the range of float32" : "float32's range");
}

Accuracy Compare(const Answer& answer, const std::vector<int64_t>& labels) {
  Accuracy accuracy;
  const Array& classes = answer.matrices.at("classes");
  for (int64_t row = 0; row < answer.rows; ++row) {
    if (labels[row] < 0) continue;
    int32_t best;
    std::memcpy(&best, classes.data.data() + row * classes.shape[1] * sizeof(int32_t), sizeof(best));
    ++accuracy.counted;
    if (best == labels[row]) ++accuracy.right;
  }
  return accuracy;
}

std::string ToString(const Accuracy& accuracy) {
  const double share =
      accuracy.counted == 0 ? 0 : static_cast<double>(accuracy.right) / static_cast<double>(accuracy.counted);
  return absl::StrCat("accuracy ", FormatFixed(share, 4), " (", accuracy.right, "/", accuracy.counted, ")");
}

absl::Status CheckAnswerPath(const std::string& path) {
  const std::string end = path.size() > 4 ? path.substr(path.size() - 4) : "";
  if (end == ".npy" || end == ".npz") return CheckWritable(path);
  return absl::InvalidArgumentError(absl::StrCat("--out ", path, ": the file's name must end in .npy or .npz"));
}

absl::Status WriteAnswer(const std::string& path, const Answer& answer, const std::string& main,
                         const std::vector<int64_t>& nodes) {
  if (!HoldsAllMatrices(path)) return WriteNpy(path, answer.matrices.at(main));
  std::map<std::string, Array> arrays = answer.matrices;
  if (!nodes.empty()) arrays["nodes"] = MakeArray(nodes, {static_cast<int64_t>(nodes.size())});
  return WriteNpz(path, arrays);
}

Json ToJson(const Answer& answer, const std::string& out, const std::string& main) {
  Json json = {{"served_by", ToJson(answer.served_by)}, {"timing", ToJson(answer.timing)}};
  if (!out.empty()) json["out"] = out;
  for (const auto& [name, matrix] : answer.matrices) {
    if (!out.empty() && (HoldsAllMatrices(out) || name == main)) continue;
    Json rows = Json::array();
    for (int64_t row = 0; row < answer.rows; ++row) {
      Json values = Json::array();
      for (const double value : RowOf(matrix, row)) {
        if (!IsFloating(matrix.type)) {
          values.push_back(static_cast<int64_t>(value));
        } else {
          values.push_back(value);
        }
      }
      rows.push_back(std::move(values));
    }
    json[name] = std::move(rows);
  }
  return json;
}

Latency Summarise(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const auto rank = [&](double quantile) {  // the smallest value that at least this share does not exceed
    const auto at = static_cast<int64_t>(std::ceil(quantile * static_cast<double>(seconds.size()))) - 1;
    return seconds[static_cast<size_t>(std::max<int64_t>(at, 0))];
  };
  return {seconds.front(), rank(0.5), rank(0.99)};
}

}  // namespace vicinal::client::cli
