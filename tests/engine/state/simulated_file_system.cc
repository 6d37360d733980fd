// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/state/simulated_file_system.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "engine/base/error.h"
#include "engine/state/file_error.h"

namespace vicinal::state {
namespace {

using Node = SimulatedFileSystem::Node;
using NodeRef = SimulatedFileSystem::NodeRef;
using Block = SimulatedFileSystem::Block;
constexpr int64_t kBlock = SimulatedFileSystem::kBlock;

std::string BytesOf(const std::map<int64_t, Block>& blocks, int64_t index) {
  const auto found = blocks.find(index);
  return found == blocks.end() ? std::string(kBlock, '\0') : *found->second;
}

void Put(std::map<int64_t, Block>& blocks, int64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const int64_t index = offset / kBlock, in_block = offset % kBlock;
    const std::string_view part = bytes.substr(0, kBlock - in_block);
    std::string block = BytesOf(blocks, index);
    block.replace(in_block, part.size(), part);
    blocks[index] = std::make_shared<const std::string>(std::move(block));
    offset += part.size();
    bytes.remove_prefix(part.size());
  }
}

std::string Get(const Node& node, int64_t offset, int64_t bytes) {
  std::string text;
  while (bytes > 0) {
    const int64_t in_block = offset % kBlock, part = std::min(bytes, kBlock - in_block);
    text += BytesOf(node.now, offset / kBlock).substr(in_block, part);
    offset += part, bytes -= part;
  }
  return text;
}

// What is left of a file: unsynced blocks are new, old, zero or torn, and the length is any between.
void LosePower(const Node& node, Node* left, testing::SplitMix64& random) {
  int64_t size = node.size;
  if (node.size != node.disk_size || node.size_lost) {
    const int64_t low = std::min(node.size, node.disk_size), high = std::max(node.size, node.disk_size);
    const uint64_t choice = random.Next() % 3;
    size = choice == 0   ? node.disk_size
           : choice == 1 ? node.size
                         : low + static_cast<int64_t>(random.Next() % (high - low + 1));
  }
  std::set<int64_t> blocks;
  for (const auto& [index, block] : node.now) blocks.insert(index);
  for (const auto& [index, block] : node.disk) blocks.insert(index);
  for (const int64_t index : blocks) {
    const auto now = node.now.find(index), disk = node.disk.find(index);
    const bool clean = now != node.now.end() && disk != node.disk.end() && now->second == disk->second;
    const uint64_t choice = clean ? 0 : random.Next() % 4;
    if (choice == 0 && now != node.now.end()) left->now[index] = now->second;
    if (choice == 1 && disk != node.disk.end()) left->now[index] = disk->second;
    if (choice == 3) {
      const int64_t torn = SimulatedFileSystem::kSector * (1 + random.Next() % 7);
      left->now[index] = std::make_shared<const std::string>(BytesOf(node.now, index).substr(0, torn) +
                                                             BytesOf(node.disk, index).substr(torn));
    }
  }
  const int64_t last = size / kBlock;
  left->now.erase(left->now.upper_bound(last), left->now.end());
  if (left->now.count(last) > 0) {
    std::string block = BytesOf(left->now, last);
    std::fill(block.begin() + size % kBlock, block.end(), '\0');
    left->now[last] = std::make_shared<const std::string>(std::move(block));
  }
  left->disk = left->now;
  left->size = left->disk_size = size;
}

class Writer final : public WritableFile {
 public:
  Writer(SimulatedFileSystem* files, NodeRef node, std::string path)
      : WritableFile(std::move(path)), files_(files), node_(std::move(node)) {}

 protected:
  Status DoWrite(int64_t offset, std::string_view bytes) override {
    return files_->Write(*node_, path(), offset, bytes);
  }
  Status DoSync() override { return files_->SyncFile(*node_, path()); }

 private:
  SimulatedFileSystem* const files_;
  const NodeRef node_;
};

class Reader final : public ReadableFile {
 public:
  Reader(NodeRef node, std::string path, SimulatedFileSystem::ReadHook hook)
      : ReadableFile(std::move(path)), node_(std::move(node)), hook_(std::move(hook)) {}
  StatusOr<int64_t> Size() const override { return node_->size; }
  Status ReadAt(int64_t offset, char* to, int64_t bytes) const override {
    if (offset < 0 || bytes < 0 || offset + bytes > node_->size) return Damaged(path(), "it ends before");
    if (hook_) hook_(path(), SimulatedFileSystem::Access::kRead, offset, bytes);
    const std::string text = Get(*node_, offset, bytes);
    std::copy(text.begin(), text.end(), to);
    return OkStatus();
  }
  void Prefetch(int64_t offset, int64_t bytes) const override {
    if (hook_) hook_(path(), SimulatedFileSystem::Access::kPrefetch, offset, bytes);
  }
  bool IsInMemory(int64_t) const override { return false; }

 private:
  const NodeRef node_;
  const SimulatedFileSystem::ReadHook hook_;
};

class SimulatedLock final : public FileLock {
 public:
  using Write = std::function<Status(std::string_view holder)>;
  SimulatedLock(std::shared_ptr<std::set<std::string>> locks, std::string path, Write write)
      : locks_(std::move(locks)), path_(std::move(path)), write_(std::move(write)) {}
  ~SimulatedLock() override { locks_->erase(path_); }
  Status SetHolder(std::string_view holder) override { return write_(holder); }

 private:
  const std::shared_ptr<std::set<std::string>> locks_;
  const std::string path_;
  const Write write_;
};

std::string NameOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

}  // namespace

SimulatedFileSystem::SimulatedFileSystem() : root_(std::make_shared<Node>()), base_(std::make_shared<Node>()) {
  root_->kind = base_->kind = FileKind::kDirectory;
  origin_[root_.get()] = base_;
}

int SimulatedFileSystem::BeginChange(bool removes) {
  if (hook_ && !dead_) hook_();
  if (dead_) return ENODEV;
  ++operations_;
  if (gone_) return ENOENT;
  if (fail_at_ < 0) return 0;
  if (fail_at_ > 0) return --fail_at_, 0;
  if (!fail_on_) fail_at_ = -1;
  if (fail_on_ && removes && fail_error_ == ENOSPC) return 0;
  failed_ = true;
  return fail_error_;
}

NodeRef SimulatedFileSystem::Find(const std::string& path) const {
  NodeRef node = gone_ ? nullptr : root_;
  for (size_t begin = 0; begin < path.size() && node != nullptr;) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const auto entry = node->entries.find(path.substr(begin, end - begin));
    node = entry == node->entries.end() ? nullptr : entry->second;
    begin = end + 1;
  }
  return node;
}

void SimulatedFileSystem::Apply(std::vector<Slot> slots) {
  Change change;
  for (const Slot& slot : slots) {
    slot.node == nullptr ? (void)slot.directory->entries.erase(slot.name)
                         : (void)(slot.directory->entries[slot.name] = slot.node);
    slot.directory->modify_time = time_;
    change.unsynced.insert(slot.directory.get());
  }
  change.slots = std::move(slots);
  changes_.push_back(std::move(change));
}

Status SimulatedFileSystem::Write(Node& node, const std::string& path, int64_t offset, std::string_view bytes) {
  const int error = BeginChange();
  if (dead_) return FileError("write", path, error);
  if (error != 0) bytes = bytes.substr(0, bytes.size() / 2);
  Put(node.now, offset, bytes);
  node.size = std::max(node.size, offset + static_cast<int64_t>(bytes.size()));
  node.modify_time = time_;
  return error == 0 ? OkStatus() : FileError("write", path, error);
}

Status SimulatedFileSystem::SyncFile(Node& node, const std::string& path) {
  if (const int error = BeginChange(); error != 0) {
    if (dead_) return FileError("fsync", path, error);
    for (const auto& [index, block] : node.now) {
      if (node.disk.count(index) == 0 || node.disk[index] != block) node.lost.insert(index);
    }
    node.size_lost = node.size != node.disk_size;
    return FileError("fsync", path, error);
  }
  for (const auto& [index, block] : node.now) {
    if (node.lost.count(index) == 0) node.disk[index] = block;
  }
  if (!node.size_lost) node.disk_size = node.size;
  return OkStatus();
}

Status SimulatedFileSystem::DoSyncDirectory(const std::string& path) {
  const NodeRef node = Find(path);
  if (node == nullptr) return FileError("open directory", path, ENOENT);
  const int error = BeginChange();
  const bool may_lose = error != 0 && error != ENOSPC && error != EDQUOT && error != EMFILE;  // file_system.h
  for (Change& change : changes_) {
    if (change.unsynced.count(node.get()) == 0) continue;
    if (may_lose && !dead_) change.lost.insert(node.get());
    if (error == 0 && change.lost.count(node.get()) == 0) change.unsynced.erase(node.get());
  }
  return error == 0 ? OkStatus() : FileError("fsync directory", path, error);
}

StatusOr<std::unique_ptr<WritableFile>> SimulatedFileSystem::Create(const std::string& path) {
  const NodeRef parent = Find(ParentOf(path));
  if (parent == nullptr) return FileError("create", path, ENOENT);
  if (Find(path) != nullptr) return FileError("create", path, EEXIST);
  if (const int error = BeginChange(); error != 0) return FileError("create", path, error);
  const auto node = std::make_shared<Node>();
  node->modify_time = time_;
  Apply({{parent, NameOf(path), node}});
  return std::make_unique<Writer>(this, node, path);
}

StatusOr<std::unique_ptr<ReadableFile>> SimulatedFileSystem::Open(const std::string& path) const {
  VICINAL_RETURN_IF_ERROR(CheckReadable("open", path));
  const NodeRef node = Find(path);
  if (node == nullptr) return FileError("open", path, ENOENT);
  if (node->kind != FileKind::kFile) return Damaged(path, "it is not a regular file");
  return std::make_unique<Reader>(node, path, read_hook_);
}

Status SimulatedFileSystem::Rename(const std::string& from, const std::string& to) {
  const NodeRef node = Find(from), parent = Find(ParentOf(to)), old = Find(to);
  if (node == nullptr || parent == nullptr) return FileError("rename", from, ENOENT);
  if (old != nullptr && old->kind == FileKind::kDirectory) return FileError("rename", from, EEXIST);
  if (const int error = BeginChange(); error != 0) return FileError("rename", from, error);
  Apply({{Find(ParentOf(from)), NameOf(from), nullptr}, {parent, NameOf(to), node}});
  return OkStatus();
}

void SimulatedFileSystem::SetUnreadable(const std::string& path, int error) {
  if (error == 0) {
    unreadable_.erase(path);
  } else {
    unreadable_[path] = error;
  }
}

Status SimulatedFileSystem::CheckReadable(std::string_view operation, const std::string& path) const {
  for (const auto& [unreadable, error] : unreadable_) {
    if (path == unreadable || path.starts_with(unreadable + "/")) return FileError(operation, path, error);
  }
  return OkStatus();
}

Status SimulatedFileSystem::CheckReachable() const {
  return gone_ ? FailedPrecondition("STATE_DIRECTORY_GONE", "gone") : OkStatus();
}

StatusOr<std::unique_ptr<FileSystem>> SimulatedFileSystem::Reopen() const { return CheckReachable(); }

Status SimulatedFileSystem::Unlink(const std::string& path) {
  const NodeRef node = Find(path);
  if (node == nullptr) return FileError("unlink", path, ENOENT);
  if (node->kind == FileKind::kDirectory) return FileError("unlink", path, EISDIR);
  if (const int error = BeginChange(/*removes=*/true); error != 0) return FileError("unlink", path, error);
  Apply({{Find(ParentOf(path)), NameOf(path), nullptr}});
  return OkStatus();
}

Status SimulatedFileSystem::MakeDirectory(const std::string& path) {
  const NodeRef parent = Find(ParentOf(path));
  if (parent == nullptr) return FileError("mkdir", path, ENOENT);
  if (Find(path) != nullptr) return FileError("mkdir", path, EEXIST);
  if (const int error = BeginChange(); error != 0) return FileError("mkdir", path, error);
  const auto node = std::make_shared<Node>();
  node->kind = FileKind::kDirectory;
  node->modify_time = time_;
  Apply({{parent, NameOf(path), node}});
  return OkStatus();
}

Status SimulatedFileSystem::RemoveDirectory(const std::string& path) {
  const NodeRef node = Find(path);
  if (node == nullptr) return FileError("rmdir", path, ENOENT);
  if (!node->entries.empty()) return FileError("rmdir", path, ENOTEMPTY);
  if (const int error = BeginChange(/*removes=*/true); error != 0) return FileError("rmdir", path, error);
  Apply({{Find(ParentOf(path)), NameOf(path), nullptr}});
  return OkStatus();
}

StatusOr<std::vector<DirectoryEntry>> SimulatedFileSystem::List(const std::string& path) const {
  VICINAL_RETURN_IF_ERROR(CheckReadable("open directory", path));
  const NodeRef node = Find(path);
  if (node == nullptr) return FileError("open directory", path, ENOENT);
  if (node->kind != FileKind::kDirectory) return FileError("open directory", path, ENOTDIR);
  std::vector<DirectoryEntry> entries;
  for (const auto& [name, entry] : node->entries) entries.push_back({name, entry->kind});
  return entries;
}

StatusOr<FileInfo> SimulatedFileSystem::Stat(const std::string& path) const {
  VICINAL_RETURN_IF_ERROR(CheckReadable("stat", path));
  const NodeRef node = Find(path);
  if (node == nullptr) return FileError("stat", path, ENOENT);
  return FileInfo{node->kind, node->size, static_cast<int64_t>(node->now.size()) * kBlock, node->modify_time};
}

StatusOr<std::unique_ptr<FileLock>> SimulatedFileSystem::Lock(const std::string& path, std::string_view holder) {
  if (locks_->count(path) > 0) {
    return WithMetadata(FailedPrecondition("STATE_LOCKED", "locked"), "holder", Read(path));
  }
  if (Find(path) == nullptr) VICINAL_RETURN_IF_ERROR(Create(path).status());
  const auto write = [this, path, node = Find(path)](std::string_view text) {
    node->now.clear();
    node->size = 0;
    return Write(*node, path, 0, text);
  };
  VICINAL_RETURN_IF_ERROR(write(holder));
  locks_->insert(path);
  return std::make_unique<SimulatedLock>(locks_, path, write);
}

std::vector<bool> SimulatedFileSystem::Survivors(testing::SplitMix64& random) const {
  using Key = std::pair<const Node*, std::string>;
  std::vector<bool> kept(changes_.size());
  std::set<Key> needed, gone;
  // A durable change implies the changes of the same names before it.
  for (size_t i = changes_.size(); i-- > 0;) {
    bool forced = changes_[i].unsynced.empty();
    for (const Slot& slot : changes_[i].slots) forced |= needed.count({slot.directory.get(), slot.name}) > 0;
    kept[i] = forced;
    if (!forced) continue;
    for (const Slot& slot : changes_[i].slots) needed.insert({slot.directory.get(), slot.name});
  }
  for (size_t i = 0; i < changes_.size(); ++i) {
    bool possible = true;
    for (const Slot& slot : changes_[i].slots) possible &= gone.count({slot.directory.get(), slot.name}) == 0;
    if (!kept[i]) kept[i] = possible && random.Next() % 2 == 0;
    if (kept[i]) continue;
    for (const Slot& slot : changes_[i].slots) gone.insert({slot.directory.get(), slot.name});
  }
  return kept;
}

std::unique_ptr<SimulatedFileSystem> SimulatedFileSystem::CutPower(testing::SplitMix64& random) const {
  auto after = std::make_unique<SimulatedFileSystem>();
  after->time_ = time_;
  std::map<const Node*, NodeRef> copies;
  const std::function<NodeRef(const NodeRef&)> copy = [&](const NodeRef& node) {
    NodeRef& made = copies[node.get()];
    if (made != nullptr) return made;
    made = std::make_shared<Node>();
    made->kind = node->kind;
    made->modify_time = node->modify_time;
    if (node->kind == FileKind::kFile) LosePower(*node, made.get(), random);
    const NodeRef result = made;
    if (const auto origin = origin_.find(node.get()); origin != origin_.end()) {
      for (const auto& [name, entry] : origin->second->entries) result->entries[name] = copy(entry);
    }
    return result;
  };
  after->root_ = copy(root_);
  const std::vector<bool> kept = Survivors(random);
  for (size_t i = 0; i < changes_.size(); ++i) {
    if (!kept[i]) continue;
    for (const Slot& slot : changes_[i].slots) {
      const NodeRef directory = copy(slot.directory);
      slot.node == nullptr ? (void)directory->entries.erase(slot.name)
                           : (void)(directory->entries[slot.name] = copy(slot.node));
    }
  }
  // What is there now is durable: the start of what may happen next.
  after->origin_.clear();
  const std::function<void(const NodeRef&)> remember = [&](const NodeRef& node) {
    auto origin = std::make_shared<Node>();
    origin->kind = node->kind;
    origin->entries = node->entries;
    after->origin_[node.get()] = origin;
    for (const auto& [name, entry] : node->entries) remember(entry);
  };
  remember(after->root_);
  return after;
}

std::unique_ptr<SimulatedFileSystem> SimulatedFileSystem::NextProcess() {
  auto next = std::make_unique<SimulatedFileSystem>();
  next->root_ = std::move(root_);
  next->base_ = std::move(base_);
  next->origin_ = std::move(origin_);
  next->changes_ = std::move(changes_);
  next->time_ = time_;
  return next;
}

std::string SimulatedFileSystem::Read(const std::string& path) const {
  const NodeRef node = Find(path);
  return node == nullptr ? std::string() : Get(*node, 0, node->size);
}

void SimulatedFileSystem::Overwrite(const std::string& path, const std::string& bytes) {
  Node& node = *Find(path);
  node.now.clear();
  Put(node.now, 0, bytes);
  node.disk = node.now;
  node.size = node.disk_size = bytes.size();
}

void SimulatedFileSystem::XorByte(const std::string& path, int64_t offset, uint8_t mask) {
  Node& node = *Find(path);
  Put(node.now, offset, std::string(1, static_cast<char>(Get(node, offset, 1)[0] ^ mask)));
  node.disk = node.now;
}

std::vector<std::string> SimulatedFileSystem::AllFiles() const {
  std::vector<std::string> files;
  const std::function<void(const NodeRef&, const std::string&)> walk = [&](const NodeRef& node,
                                                                           const std::string& path) {
    if (node->kind == FileKind::kFile) files.push_back(path);
    for (const auto& [name, entry] : node->entries) walk(entry, Join(path, name));
  };
  walk(root_, "");
  return files;
}

}  // namespace vicinal::state
