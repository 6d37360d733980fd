// SPDX-License-Identifier: Apache-2.0
// The state directory: graphs, feature sets and models by version, so that what was reported durable survives every
// crash (docs/state.md). One writer, held by a lock; any number of readers.
//
// Durability, exactly. When these return OK, their effect survives a power failure:
//   ReserveVersions        no number of the block is ever handed out again within this incarnation
//   VersionWriter::Publish the version is listed, with these bytes and this metadata
//   Remove                 the version is not listed
//   Quarantine             the version is not listed, but Lost; its files and the reason are below quarantine/
//   ForgetLost             these are not Lost any more
// When Publish or Remove fail, the version may be listed after a crash or not, but never in part. Nothing that was not
// published is ever listed. A version whose Publish failed keeps its number: use a new one, or Discard it.
#ifndef VICINAL_ENGINE_STATE_STATE_DIRECTORY_H_
#define VICINAL_ENGINE_STATE_STATE_DIRECTORY_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/state/file_system.h"
#include "engine/state/manifest.h"
#include "engine/state/names.h"
#include "engine/state/section_file.h"

namespace vicinal::state {

// Who writes a state directory: what the lock file says, for people and for replicas.
struct LockHolder {
  std::string host;
  int64_t pid = 0;
  std::string start_time;  // RFC 3339
  std::string address;     // where uploads go; may be empty
};

struct ListedProblem {
  std::string path;  // relative to the state directory
  std::optional<VersionId> id;
  Status error;
};

struct Listing {
  std::vector<Manifest> published;      // by id
  std::vector<ListedProblem> problems;  // versions that are there and cannot be used; they block no other
};

// A version that was damaged and moved to quarantine/.
struct LostVersion {
  VersionId id;
  std::string reason;      // for people
  std::string quarantine;  // the directory of its files, relative to the state directory
};
// Those in whose place nothing serves: `published` has no other version of the name, and of feature sets the graph
// version is there.
std::vector<LostVersion> StillLost(std::vector<LostVersion> lost, const std::set<VersionId>& published);

struct SweepReport {
  int64_t files = 0;
  int64_t bytes = 0;
};

class VersionWriter;

bool IsDocumentName(std::string_view name);
// The name of the document with the tuning decisions for one kind of device, and the major format of such a document.
std::string TuningDocumentName(std::string_view device);
inline constexpr int64_t kTuningMajor = 1;
// The same of the document that lists the stored layouts for one kind of device, and the files that such a text lists:
// DATA_LOSS naming `path`, FAILED_PRECONDITION for a newer major format.
std::string LayoutsDocumentName(std::string_view device);
inline constexpr int64_t kLayoutsMajor = 1;
StatusOr<std::vector<ManifestFile>> LayoutFilesIn(const std::string& path, std::string_view text);

// Thread-safe.
class StateDirectory {
 public:
  struct Options {
    bool read_only = false;  // takes no lock, writes nothing; the methods that write are then not to be called
    // Read-only, for people who look at a directory: a damaged or missing INCARNATION is no error (it is empty then).
    bool inspect = false;
    // Begins a new incarnation in a directory that exists: a copy whose versions must not pass for the original's.
    bool new_incarnation = false;
    LockHolder holder;
    const Clock* clock = &Clock::Real();
  };
  // `files` must outlive it. Errors: FAILED_PRECONDITION (STATE_LOCKED, naming the holder; STATE_FORMAT_TOO_NEW,
  // nothing is written; STATE_NOT_INITIALIZED, read-only and empty), DATA_LOSS (FORMAT is damaged, or missing beside
  // versions). A damaged INCARNATION or VERSIONS is replaced, with a new incarnation: see repairs(). So is a VERSIONS
  // that does not know of a version that is there: the directory is a copy made while a server wrote it.
  static StatusOr<std::unique_ptr<StateDirectory>> Open(FileSystem* files, Options options);

  const std::string& incarnation() const { return incarnation_; }       // a UUID
  const std::vector<std::string>& repairs() const { return repairs_; }  // what Open repaired, for the log
  StatusOr<LockHolder> ReadHolder() const;                              // NOT_FOUND: there never was one
  // What the lock file says from now on of where uploads go. Of writers.
  Status SetAddress(const std::string& address);
  // DATA_LOSS or NOT_FOUND: what a writer that opens the directory would repair, in each file.
  Status CheckIncarnation() const;
  Status CheckReservations() const;

  // Numbers [first, first + count), never handed out before; returns first. REQUIRES: count > 0.
  StatusOr<int64_t> ReserveVersions(Store store, int64_t count);

  // Makes the directory of a version. ALREADY_EXISTS if there is one, published or not; NOT_FOUND for a feature set
  // whose graph version is neither published nor being written. A set that is published while its graph version is
  // being written is listed from the moment that this one is. The writer must not outlive this object.
  StatusOr<std::unique_ptr<VersionWriter>> BeginVersion(const VersionId& id);

  // After BeginVersion or Publish of `id` failed: when this returns OK, a crash brings nothing of it back, and
  // BeginVersion may be called again. After an error it can be repeated.
  Status Discard(const VersionId& id);
  // FAILED_PRECONDITION (STATE_DIRECTORY_GONE): the directory was removed, renamed or unmounted.
  Status CheckReachable() const { return files_->CheckReachable(); }
  // Whether another state directory has taken its place.
  bool IsReplaced() const;
  StatusOr<int64_t> FreeBytes() const { return files_->FreeBytes(); }  // of the disk: see FileSystem

  enum class Data {
    kDelete,        // at once, as far as possible
    kLeaveToSweep,  // readers that are loading it have time until a sweep
  };
  // NOT_FOUND. Removing a graph version removes its feature sets.
  Status Remove(const VersionId& id, Data data);
  // What is published. Checks manifests and the files' sizes, not their contents. Fails only if a store cannot be
  // listed at all.
  StatusOr<Listing> List() const;
  // The same of one graph version and its feature sets: itself first. NOT_FOUND: it is not published.
  StatusOr<Listing> ListGraph(const VersionId& graph) const;
  // Which versions are published, without reading their manifests: for whoever looks often. Where it could not look,
  // which says nothing of what is published there, goes to `problems`, if not null.
  StatusOr<std::set<VersionId>> ListPublished(std::vector<ListedProblem>* problems) const;
  // NOT_FOUND: it is not published. DATA_LOSS.
  StatusOr<Manifest> GetManifest(const VersionId& id) const;
  // Bytes that its data files, and those of its layouts, take on disk, without their holes; what cannot be looked at
  // counts nothing.
  int64_t DiskBytes(const Manifest& manifest) const;
  // OK while the directories are there in which a writer keeps graphs and models.
  Status CheckStores() const;
  // The incarnation as it is on disk now. NOT_FOUND, DATA_LOSS.
  StatusOr<std::string> ReadIncarnationNow() const;
  // Directories of versions without a manifest: being written, removed, or left from a crash.
  StatusOr<std::vector<std::string>> Unpublished() const;
  // Opens a file of a published version; DATA_LOSS unless it is the file of the manifest.
  StatusOr<std::unique_ptr<SectionFileReader>> OpenFile(const Manifest& manifest, const std::string& name) const;

  // Documents beside a version: small, replaced as a whole, and not part of its manifest. They go with the version.
  // `name` matches (tuning|layouts)-[0-9a-f]{8}: a sweep deletes no file that others put there.
  StatusOr<std::string> GetDocument(const VersionId& id, const std::string& name) const;
  // Durable when it returns OK; after an error a crash may leave the former document or this one. The version need not
  // be published yet, but begun (NOT_FOUND).
  Status PutDocument(const VersionId& id, const std::string& name, std::string_view text);
  Status DropDocument(const VersionId& id, const std::string& name);

  // Files of layouts, in the directory layouts/ of a graph version. They go with the version, and a sweep deletes those
  // that no layouts document lists. `name` is a data file's (IsDataFileName).
  // Begins such a file, in place of one of that name, which no document may list. NOT_FOUND: the version is not there.
  StatusOr<std::unique_ptr<SectionFileWriter>> CreateLayoutFile(const VersionId& graph, const std::string& name,
                                                                std::vector<SectionSpec> sections);
  // Makes the names of finished files durable: before a document lists them.
  Status SyncLayoutFiles(const VersionId& graph);
  Status DropLayoutFile(const VersionId& graph, const std::string& name);
  // What all layouts documents of that version list; a damaged one lists nothing. FAILED_PRECONDITION: one of a newer
  // major format.
  StatusOr<std::vector<ManifestFile>> ListLayoutFiles(const VersionId& graph) const;
  // DATA_LOSS unless it is the file that is listed. NOT_FOUND.
  StatusOr<std::unique_ptr<SectionFileReader>> OpenLayoutFile(const VersionId& graph, const ManifestFile& file) const;

  // Names of graphs, the most recently used first: what to load first after a start. Advice only, so a crash may leave
  // the former list. NOT_FOUND, DATA_LOSS.
  Status PutRecent(const std::vector<std::string>& graphs);
  StatusOr<std::vector<std::string>> GetRecent() const;

  // Moves a version, with the feature sets of a graph version, to quarantine/, beside a file with the reason, and keeps
  // in mind that it was there. Returns the directory of both. NOT_FOUND: nothing of that version is there.
  StatusOr<std::string> Quarantine(const VersionId& id, const Status& reason);
  // What was quarantined and not forgotten since, one version of each name, in that order. If the list itself is
  // damaged: what the reasons in quarantine/ name, which may have been deleted since.
  StatusOr<std::vector<LostVersion>> Lost() const;
  Status CheckLost() const;  // DATA_LOSS: the list is damaged
  // NOT_FOUND: none of these was lost. Writes a damaged list anew in either case.
  Status ForgetLost(const std::function<bool(const VersionId& id)>& is_forgotten);
  // Deletes files of versions that are not published, of those removed, and leftovers of crashes, if nothing in their
  // directory changed within `grace`. Leaves versions that are being written, and files this product does not write.
  StatusOr<SweepReport> Sweep(std::chrono::seconds grace);

 private:
  friend class VersionWriter;
  using NameVisitor = std::function<void(const std::string& name, const std::string& path)>;
  using VersionVisitor = std::function<void(const VersionId& id, const std::string& path)>;

  StateDirectory(FileSystem* files, Options options) : files_(files), options_(std::move(options)) {}

  Status TakeLock();
  Status Initialize(bool format_exists);
  Status OpenIdentity();
  Status SyncNames(const std::string& directory);
  Status WriteIncarnation();
  Status WriteReservations(const std::map<Store, int64_t>& next);
  // The numbers of VERSIONS. DATA_LOSS too if one is not above every version that is there (`beyond`).
  StatusOr<std::map<Store, int64_t>> ReadReservations(const std::map<Store, int64_t>& beyond) const;
  // For each store the number after its highest version, published or not.
  StatusOr<std::map<Store, int64_t>> NumbersBeyondAll() const;

  // Calls back for what is there, published or not. Problems that keep it from looking go to `problems`, if not null.
  Status VisitNames(const std::string& directory, const std::string& prefix, int depth, const NameVisitor& visit,
                    std::vector<ListedProblem>* problems) const;
  Status VisitVersions(const VersionId& owner, const std::string& directory, const VersionVisitor& visit,
                       std::vector<ListedProblem>* problems) const;
  Status VisitAll(const VersionVisitor& visit, std::vector<ListedProblem>* problems) const;
  // An error: it cannot be seen whether there is one.
  StatusOr<bool> HasManifest(const std::string& path) const;
  Status CheckGraph(const VersionId& graph) const VICINAL_REQUIRES(mutex_);
  StatusOr<Manifest> ReadManifest(const VersionId& id, const std::string& path) const;
  bool IsRecent(const std::string& path, WallTime since) const;
  void DeleteFiles(const std::string& path, const std::set<std::string>& keep, SweepReport* report);
  void DeleteTree(const std::string& path, SweepReport* report);
  void RemoveEmptyParents(const std::string& path);
  // Deletes the layout files of a version that no document lists and that have not changed since then.
  void SweepLayouts(const VersionId& graph, const std::string& version, WallTime since, SweepReport* report);
  StatusOr<std::vector<LostVersion>> ReadLost() const;       // DATA_LOSS
  StatusOr<std::vector<LostVersion>> LostByReasons() const;  // by what is in quarantine/
  Status WriteLost(const std::vector<LostVersion>& lost) VICINAL_REQUIRES(mutex_);
  Status AddLost(LostVersion added) VICINAL_REQUIRES(mutex_);

  FileSystem* const files_;
  const Options options_;
  std::unique_ptr<FileLock> lock_;
  std::string incarnation_;
  std::vector<std::string> repairs_;
  mutable Mutex reserve_mutex_;
  std::map<Store, int64_t> next_ VICINAL_GUARDED_BY(reserve_mutex_);
  // Held while names of directories change, and while a manifest comes or goes.
  mutable Mutex mutex_;
  std::set<std::string> staged_ VICINAL_GUARDED_BY(mutex_);     // paths of versions that have a writer
  std::set<std::string> unsettled_ VICINAL_GUARDED_BY(mutex_);  // of those whose manifest a crash may leave or not
};

// Writes one version. One thread at a time. Unless Publish was called, destroying it deletes what was written.
class VersionWriter {
 public:
  ~VersionWriter();
  VersionWriter(const VersionWriter&) = delete;
  VersionWriter& operator=(const VersionWriter&) = delete;

  // A file NAME.vsec; `name` matches [a-z0-9_]{1,60} (INVALID_ARGUMENT, BAD_NAME). The caller writes its sections and
  // calls Finish; the writer stays this object's.
  StatusOr<SectionFileWriter*> AddFile(const std::string& name, std::vector<SectionSpec> sections);
  // Once. REQUIRES: every file is finished (VICINAL_CHECK). For a feature set NOT_FOUND if its graph version was
  // removed meanwhile.
  Status Publish(std::string metadata);

 private:
  friend class StateDirectory;
  VersionWriter(StateDirectory* directory, VersionId id, std::string path)
      : directory_(directory), id_(std::move(id)), path_(std::move(path)) {}

  StateDirectory* const directory_;
  const VersionId id_;
  const std::string path_;
  std::vector<std::unique_ptr<SectionFileWriter>> files_;
  bool may_be_published_ = false;  // from then on nothing is deleted: a crash could keep the manifest alone
};

}  // namespace vicinal::state

#endif  // VICINAL_ENGINE_STATE_STATE_DIRECTORY_H_
