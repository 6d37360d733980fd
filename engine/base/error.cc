// SPDX-License-Identifier: Apache-2.0
#include "engine/base/error.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace vicinal {
namespace {

constexpr char kPayloadUrl[] = "vicinal.dev/error-detail";

// Debian's absl::string_view is not std::string_view; StrCat takes only the former.
absl::string_view Abs(std::string_view s) { return absl::string_view(s.data(), s.size()); }

// The length of the well-formed UTF-8 sequence that `text` begins with; 0: it begins with none.
size_t SequenceLength(std::string_view text) {
  const auto byte = [text](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&byte](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const unsigned first = byte(0);
  if (first < 0x80) return text.empty() ? 0 : 1;
  if (first >= 0xC2 && first < 0xE0) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first < 0xF0) {
    const bool overlong = first == 0xE0 && byte(1) < 0xA0, surrogate = first == 0xED && byte(1) >= 0xA0;
    return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
  }
  const bool overlong = first == 0xF0 && byte(1) < 0x90, beyond = first == 0xF4 && byte(1) >= 0x90;
  return first >= 0xF0 && first <= 0xF4 && follows(1) && follows(2) && follows(3) && !overlong && !beyond ? 4 : 0;
}

// Details become Protobuf strings, which must be UTF-8; names come from clients and need not be.
void AppendUtf8(std::string_view text, std::string* out) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::all_of(text.begin(), text.end(), is_ascii)) {
    out->append(text);
    return;
  }
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    if (length == 0) {
      *out += "\xEF\xBF\xBD";  // the replacement character
    } else {
      out->append(text.substr(0, length));
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
}

// A detail as bytes: numbers as they are in memory, texts after their lengths. Under overload a server makes and reads
// ten thousand details a second, so this is not a general format.
class DetailWriter {
 public:
  DetailWriter() { bytes_.reserve(kUsual); }
  void Number(int64_t value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value)); }
  void Text(std::string_view text) {
    const size_t begin = bytes_.size();
    Number(0);
    AppendUtf8(text, &bytes_);
    const auto size = static_cast<int64_t>(bytes_.size() - begin - sizeof(int64_t));
    std::memcpy(&bytes_[begin], &size, sizeof(size));
  }
  std::string Take() { return std::move(bytes_); }

 private:
  static constexpr size_t kUsual = 256;  // bytes; names are short

  std::string bytes_;
};

// Reads what DetailWriter wrote, in the same order.
class DetailReader {
 public:
  explicit DetailReader(std::string_view bytes) : rest_(bytes) {}
  int64_t Number() {
    int64_t value = 0;
    std::memcpy(&value, rest_.data(), sizeof(value));
    rest_.remove_prefix(sizeof(value));
    return value;
  }
  std::string Text() {
    const auto size = static_cast<size_t>(Number());
    std::string text(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return text;
  }

 private:
  std::string_view rest_;
};

constexpr int64_t kNoRetry = -1;

}  // namespace

Status MakeError(StatusCode code, std::string_view message, const ErrorDetail& detail) {
  Status status(code, Abs(message));
  DetailWriter writer;
  writer.Text(detail.reason);
  writer.Text(detail.field);
  writer.Text(detail.resource_type);
  writer.Text(detail.resource_name);
  writer.Number(detail.retry_after ? detail.retry_after->count() : kNoRetry);
  writer.Number(static_cast<int64_t>(detail.metadata.size()));
  for (const auto& [key, value] : detail.metadata) {
    writer.Text(key);
    writer.Text(value);
  }
  status.SetPayload(kPayloadUrl, absl::Cord(writer.Take()));
  return status;
}

std::optional<ErrorDetail> DetailOf(const Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayloadUrl);
  if (!payload) return std::nullopt;
  const std::string bytes(*payload);
  DetailReader reader(bytes);
  ErrorDetail detail;
  detail.reason = reader.Text();
  detail.field = reader.Text();
  detail.resource_type = reader.Text();
  detail.resource_name = reader.Text();
  if (const int64_t retry = reader.Number(); retry != kNoRetry) detail.retry_after = std::chrono::milliseconds(retry);
  for (int64_t left = reader.Number(); left > 0; --left) {
    std::string key = reader.Text();
    detail.metadata[std::move(key)] = reader.Text();
  }
  return detail;
}

Status Annotate(const Status& status, std::string_view prefix) {
  if (status.ok()) return status;
  Status annotated(status.code(), absl::StrCat(Abs(prefix), ": ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { annotated.SetPayload(url, payload); });
  return annotated;
}

Status WithMetadata(const Status& status, const std::string& key, const std::string& value) {
  ErrorDetail detail = DetailOf(status).value_or(ErrorDetail());
  detail.metadata[key] = value;
  return MakeError(status.code(), {status.message().data(), status.message().size()}, detail);
}

Status InvalidArgument(std::string_view reason, std::string_view field, std::string_view message) {
  ErrorDetail detail;
  detail.reason = std::string(reason);
  detail.field = std::string(field);
  return MakeError(StatusCode::kInvalidArgument, message, detail);
}

Status OverLimit(std::string_view limit_flag, std::string_view field, int64_t value, int64_t maximum,
                 std::string_view message) {
  ErrorDetail detail;
  detail.reason = "LIMIT_EXCEEDED";
  detail.field = std::string(field);
  detail.metadata = {
      {"limit", std::string(limit_flag)}, {"value", absl::StrCat(value)}, {"maximum", absl::StrCat(maximum)}};
  if (!message.empty()) return MakeError(StatusCode::kInvalidArgument, message, detail);
  // Limits end in what they count: max_edges, max_upload_bytes.
  const std::string_view counted = limit_flag.substr(limit_flag.rfind('_') + 1);
  return MakeError(StatusCode::kInvalidArgument,
                   absl::StrCat(field.empty() ? "the request" : Abs(field), ": ", value, " ", Abs(counted),
                                ", over this server's limit of ", maximum, " (--", Abs(limit_flag),
                                "); send less, or raise the limit on the server"),
                   detail);
}

Status NotFound(std::string_view resource_type, std::string_view resource_name, std::string_view hint) {
  ErrorDetail detail;
  detail.reason = "NOT_FOUND";
  detail.resource_type = std::string(resource_type);
  detail.resource_name = std::string(resource_name);
  return MakeError(StatusCode::kNotFound,
                   absl::StrCat(Abs(resource_type), " '", Abs(resource_name), "' does not exist",
                                hint.empty() ? "" : "; ", Abs(hint)),
                   detail);
}

Status AlreadyExists(std::string_view resource_type, std::string_view resource_name, std::string_view hint) {
  ErrorDetail detail;
  detail.reason = "ALREADY_EXISTS";
  detail.resource_type = std::string(resource_type);
  detail.resource_name = std::string(resource_name);
  return MakeError(StatusCode::kAlreadyExists,
                   absl::StrCat(Abs(resource_type), " '", Abs(resource_name), "' exists already",
                                hint.empty() ? "" : "; ", Abs(hint)),
                   detail);
}

Status FailedPrecondition(std::string_view reason, std::string_view message) {
  ErrorDetail detail;
  detail.reason = std::string(reason);
  return MakeError(StatusCode::kFailedPrecondition, message, detail);
}

Status Internal(std::string_view message) {
  ErrorDetail detail;
  detail.reason = "INTERNAL";
  return MakeError(StatusCode::kInternal, message, detail);
}

Status Unavailable(std::string_view reason, std::string_view message, std::chrono::milliseconds retry_after) {
  ErrorDetail detail;
  detail.reason = std::string(reason);
  detail.retry_after = retry_after;
  return MakeError(StatusCode::kUnavailable, message, detail);
}

Status DeadlineExceeded(std::string_view reason, std::string_view message) {
  ErrorDetail detail;
  detail.reason = std::string(reason);
  return MakeError(StatusCode::kDeadlineExceeded, message, detail);
}

Status ResourceExhausted(std::string_view reason, std::string_view message, std::chrono::milliseconds retry_after) {
  ErrorDetail detail;
  detail.reason = std::string(reason);
  detail.retry_after = retry_after;
  return MakeError(StatusCode::kResourceExhausted, message, detail);
}

}  // namespace vicinal
