// SPDX-License-Identifier: Apache-2.0
// A file system in memory whose power can be cut. It keeps apart what is visible and what is durable, exactly as
// file_system.h allows: an unsynced block may be new, old, zero or torn, a length any between; a change of names may be
// lost unless its directories were synced, in order per name. It can fail any one operation; a failed fsync loses what
// was dirty for ever, and later syncs do not bring it back.
#ifndef VICINAL_TESTS_ENGINE_STATE_SIMULATED_FILE_SYSTEM_H_
#define VICINAL_TESTS_ENGINE_STATE_SIMULATED_FILE_SYSTEM_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/state/file_system.h"
#include "tests/split_mix.h"

namespace vicinal::state {

class SimulatedFileSystem final : public FileSystem {
 public:
  static constexpr int64_t kBlock = 4096, kSector = 512;
  using Block = std::shared_ptr<const std::string>;
  struct Node {
    FileKind kind = FileKind::kFile;
    std::map<std::string, std::shared_ptr<Node>> entries;  // of a directory, as visible
    std::map<int64_t, Block> now, disk;                    // of a file; missing blocks are zero
    std::set<int64_t> lost;                                // dirty when an fsync failed: never written any more
    int64_t size = 0, disk_size = 0;
    bool size_lost = false;
    WallTime modify_time{};
  };
  using NodeRef = std::shared_ptr<Node>;

  SimulatedFileSystem();

  // What a new machine finds when the power fails now. Depends on `random` alone.
  std::unique_ptr<SimulatedFileSystem> CutPower(testing::SplitMix64& random) const;
  // Before each operation that changes something.
  void set_hook(std::function<void()> hook) { hook_ = std::move(hook); }
  // At each read and each hint of a file that is opened from now on; on several threads if they read.
  enum class Access { kRead, kPrefetch };
  using ReadHook = std::function<void(const std::string& path, Access access, int64_t offset, int64_t bytes)>;
  void set_read_hook(ReadHook hook) { read_hook_ = std::move(hook); }
  // Operation `index` from now (0: the next) that changes something fails with `error`. -1: none does.
  void FailAt(int64_t index, int error) { fail_at_ = index, fail_error_ = error, fail_on_ = false; }
  // Operation `index` from now and all after it that change something fail, until the next FailAt. Names can still be
  // removed if the error is ENOSPC.
  void FailFrom(int64_t index, int error) { FailAt(index, error), fail_on_ = true; }
  // Everything is gone, as if unmounted, or is back.
  void set_gone(bool gone) { gone_ = gone; }
  // What is at or below `path` cannot be looked at: reading fails with `error`. 0: it can again.
  void SetUnreadable(const std::string& path, int error);
  // What it says is free; nothing fails because of it.
  void set_free_bytes(int64_t bytes) { free_bytes_ = bytes; }
  bool failed() const { return failed_; }
  // kill -9: from now on nothing has any effect.
  void Kill() { dead_ = true; }
  // The same files for the next process, which knows of no failure and holds no lock. Leaves this one without files.
  std::unique_ptr<SimulatedFileSystem> NextProcess();
  int64_t operations() const { return operations_; }
  void set_time(WallTime time) { time_ = time; }
  // The visible bytes of a file, and how to damage them: writes through, as a fault of the disk does.
  std::string Read(const std::string& path) const;
  void Overwrite(const std::string& path, const std::string& bytes);
  void XorByte(const std::string& path, int64_t offset, uint8_t mask);
  std::vector<std::string> AllFiles() const;

  StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) const override;
  Status Rename(const std::string& from, const std::string& to) override;
  StatusOr<int64_t> FreeBytes() const override { return free_bytes_; }
  Status CheckReachable() const override;
  StatusOr<std::unique_ptr<FileSystem>> Reopen() const override;
  Status Unlink(const std::string& path) override;
  Status MakeDirectory(const std::string& path) override;
  Status RemoveDirectory(const std::string& path) override;
  StatusOr<std::vector<DirectoryEntry>> List(const std::string& path) const override;
  StatusOr<FileInfo> Stat(const std::string& path) const override;
  StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path, std::string_view holder) override;

  // For the files that it hands out.
  int BeginChange(bool removes = false);  // errno of the failure that is due, else 0
  Status Write(Node& node, const std::string& path, int64_t offset, std::string_view bytes);
  Status SyncFile(Node& node, const std::string& path);

 protected:
  Status DoSyncDirectory(const std::string& path) override;

 private:
  struct Slot {
    NodeRef directory;
    std::string name;
    NodeRef node;  // null: the name goes
  };
  struct Change {
    std::vector<Slot> slots;
    std::set<const Node*> unsynced, lost;
  };
  NodeRef Find(const std::string& path) const;
  Status CheckReadable(std::string_view operation, const std::string& path) const;
  void Apply(std::vector<Slot> slots);
  std::vector<bool> Survivors(testing::SplitMix64& random) const;

  NodeRef root_, base_;  // visible; as it was durable at the start
  std::map<const Node*, NodeRef> origin_;
  std::vector<Change> changes_;
  std::function<void()> hook_;
  ReadHook read_hook_;
  int64_t fail_at_ = -1, operations_ = 0, free_bytes_ = int64_t{1} << 40;
  int fail_error_ = 0;
  std::map<std::string, int> unreadable_;
  bool failed_ = false, dead_ = false, fail_on_ = false, gone_ = false;
  WallTime time_{};
  std::shared_ptr<std::set<std::string>> locks_ = std::make_shared<std::set<std::string>>();
};

}  // namespace vicinal::state

#endif  // VICINAL_TESTS_ENGINE_STATE_SIMULATED_FILE_SYSTEM_H_
