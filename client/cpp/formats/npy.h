// SPDX-License-Identifier: Apache-2.0
// Reads and writes NumPy's .npy (format versions 1, 2 and 3 of numpy.lib.format) and .npz (a zip archive of .npy
// files). Files are untrusted: an invalid header, a wrong size or a damaged archive is INVALID_ARGUMENT with the file,
// the array and the reason. Fortran order is converted to row-major order. Big-endian, string, structured and pickled
// arrays are rejected by name.
#ifndef VICINAL_CLIENT_CPP_FORMATS_NPY_H_
#define VICINAL_CLIENT_CPP_FORMATS_NPY_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/formats/array.h"

namespace vicinal::client {

// The array in the bytes of a .npy file.
absl::StatusOr<Array> ParseNpy(std::string_view bytes);
absl::StatusOr<Array> ReadNpy(const std::string& path);

// The bytes of a .npy file (version 1, data aligned to 64 bytes).
std::string SerializeNpy(const Array& array);
absl::Status WriteNpy(const std::string& path, const Array& array);

// An .npz opened for reading. Arrays are read on demand, so a damaged array does not affect others. Movable; not
// thread-safe.
class Npz {
 public:
  static absl::StatusOr<Npz> Open(const std::string& path);
  Npz(Npz&&) noexcept;
  Npz& operator=(Npz&&) noexcept;
  ~Npz();

  // Names of the arrays, without ".npy", in the archive's order.
  const std::vector<std::string>& names() const;
  bool Has(std::string_view name) const;
  // NOT_FOUND if there is no array of that name. Memory: the array, and its bytes once more while reading.
  absl::StatusOr<Array> Read(std::string_view name) const;

 private:
  struct Archive;
  explicit Npz(std::unique_ptr<Archive> archive);
  std::unique_ptr<Archive> archive_;
};

absl::Status WriteNpz(const std::string& path, const std::map<std::string, Array>& arrays);

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_FORMATS_NPY_H_
