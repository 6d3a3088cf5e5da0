#include <tandem/core/base/check.h>

#include <support/lossy_disk.h>
#include <support/temporary_folder.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

namespace tandem::testing {

std::vector<JournalCall> read_journal(const std::filesystem::path& path) {
  const std::string text = read_bytes(path);
  std::vector<JournalCall> calls;
  std::size_t at = 0;
  const auto take = [&](std::size_t bytes) {
    TANDEM_CHECK(text.size() - at >= bytes, "the journal ends early");
    at += bytes;
    return text.substr(at - bytes, bytes);
  };
  while (at < text.size()) {
    JournalCall call{};
    const std::string entry = take(sizeof(JournalEntry));
    std::memcpy(static_cast<JournalEntry*>(&call), entry.data(), entry.size());
    call.name = take(call.path);
    call.new_name = take(call.target);
    call.data = take(call.bytes);
    calls.push_back(std::move(call));
  }
  return calls;
}

void LossyDisk::apply(const JournalCall& call) {
  if (call.error != 0 && call.call != FileCall::sync) return;
  switch (call.call) {
    case FileCall::create:
      files_[call.inode] = std::make_shared<File>();
      files_[call.inode]->number = ++number_;
      if (!call.name.empty()) change({folder_of(call.name), "", call.name, files_[call.inode]});
      break;
    case FileCall::mkdir:
      folders_[call.inode] = call.name;
      change({folder_of(call.name), "", call.name, nullptr});
      break;
    case FileCall::write:
      if (const auto file = find(call.inode)) file->change({call.offset, call.data, false});
      break;
    case FileCall::truncate:
      if (const auto file = find(call.inode)) file->change({call.offset, "", true});
      break;
    case FileCall::link: change({folder_of(call.name), "", call.name, find(call.inode)}); break;
    case FileCall::rename: change({folder_of(call.new_name), call.name, call.new_name, find(call.inode)}); break;
    case FileCall::remove: change({folder_of(call.name), call.name, "", nullptr}); break;
    case FileCall::sync:
      if (const auto file = find(call.inode)) file->synchronise(call.error == 0);
      else if (call.error == 0) synchronise_names(folders_.contains(call.inode) ? folders_[call.inode] : "");
      break;
    case FileCall::sync_all:
      for (auto& [inode, file] : files_) file->synchronise(true);
      for (const auto& pending : pending_) pending.apply(durable_);
      pending_.clear();
      break;
    case FileCall::open:
    case FileCall::close: break;
  }
}

std::string LossyDisk::read(const std::string& path) const { return now_.at(path)->now; }

void LossyDisk::for_each_state(const std::function<void(const Contents&)>& visit) const {
  std::set<std::string> seen;
  for (const auto& names : possible_names()) {
    for (const Data data : {Data::kept, Data::lost, Data::zeros, Data::torn}) {
      Contents contents;
      std::string key;
      for (const auto& [path, file] : names) {
        if (!has_folders(names, path)) continue;
        key += path + '\0';
        if (!file) {
          contents[path] = std::nullopt;
          continue;
        }
        contents[path] = file->after_loss(data);
        const bool is_sure = file->pending.empty() && !file->has_lost;
        key += std::to_string(file->number) + ' ' + std::to_string(file->changes) + ' ' +
               (is_sure ? "sure" : std::to_string(static_cast<int>(data))) + ' ' +
               std::to_string(file->pending.size()) + '\0';
      }
      if (seen.insert(key).second) visit(contents);
    }
  }
}

void LossyDisk::Change::apply(std::string& bytes, std::size_t count) const {
  if (is_truncation) return bytes.resize(static_cast<std::size_t>(offset));
  const auto end = static_cast<std::size_t>(offset) + count;
  if (bytes.size() < end) bytes.resize(end);
  std::memcpy(bytes.data() + offset, data.data(), count);
}

void LossyDisk::File::change(Change made) {
  made.apply(now, made.data.size());
  pending.push_back(std::move(made));
  ++changes;
}

void LossyDisk::File::synchronise(bool succeeds) {
  if (succeeds) {
    for (const auto& made : pending) made.apply(sure, made.data.size());
  } else {
    has_lost = true;
  }
  pending.clear();
  ++changes;
}

std::string LossyDisk::File::after_loss(Data data) const {
  std::string bytes = sure;
  if (data == Data::zeros) bytes.resize(now.size());
  if (data == Data::kept) bytes = now;
  if (data == Data::torn) {
    for (const auto& made : pending)
      made.apply(bytes, &made == &pending.back() ? made.data.size() / 2 : made.data.size());
  }
  return bytes;
}

void LossyDisk::NameChange::apply(Names& names) const {
  if (!removed.empty()) names.erase(removed);
  if (!set.empty()) names[set] = file;
}

std::string LossyDisk::folder_of(const std::string& path) { return std::filesystem::path(path).parent_path().string(); }

std::shared_ptr<LossyDisk::File> LossyDisk::find(std::uint64_t inode) const {
  const auto found = files_.find(inode);
  return found == files_.end() ? nullptr : found->second;
}

void LossyDisk::change(NameChange made) {
  made.apply(now_);
  pending_.push_back(std::move(made));
}

void LossyDisk::synchronise_names(const std::string& folder) {
  std::vector<NameChange> left;
  for (auto& made : pending_) {
    if (made.folder == folder) made.apply(durable_);
    else left.push_back(std::move(made));
  }
  pending_ = std::move(left);
}

bool LossyDisk::has_folders(const Names& names, const std::string& path) {
  const auto folder = folder_of(path);
  return folder.empty() || (names.contains(folder) && has_folders(names, folder));
}

std::vector<LossyDisk::Names> LossyDisk::possible_names() const {
  const std::size_t count = pending_.size();
  std::vector<std::vector<bool>> chosen;
  if (count <= 6) {
    for (std::size_t bits = 0; bits < std::size_t{1} << count; ++bits) {
      std::vector<bool> some(count);
      for (std::size_t i = 0; i < count; ++i) some[i] = (bits >> i & 1) != 0;
      chosen.push_back(some);
    }
  } else {
    for (std::size_t i = 0; i <= count; ++i) {
      std::vector<bool> first(count, false);
      std::fill(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(i), true);
      chosen.push_back(first);
      if (i == count) continue;
      std::vector<bool> one(count, false), others(count, true);
      one[i] = true;
      others[i] = false;
      chosen.push_back(one);
      chosen.push_back(others);
    }
  }
  std::vector<Names> result;
  for (const auto& some : chosen) {
    Names names = durable_;
    for (std::size_t i = 0; i < count; ++i) {
      if (some[i]) pending_[i].apply(names);
    }
    result.push_back(std::move(names));
  }
  return result;
}

void write_contents(const LossyDisk::Contents& contents, const std::filesystem::path& folder) {
  for (const auto& [path, bytes] : contents) {  // folders come before their contents
    if (bytes) write_bytes(folder / path, *bytes);
    else std::filesystem::create_directory(folder / path);
  }
}

}  // namespace tandem::testing
