// What a disk may hold after a power loss, computed from the journal of support/faulty_files.cpp.
#pragma once

#include <support/faulty_files.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tandem::testing {

struct JournalCall : JournalEntry {
  std::string name, new_name, data;
};

std::vector<JournalCall> read_journal(const std::filesystem::path& path);

// The files of one folder: what programs see, and what is certainly on the disk. Data are certain once their file was
// synchronised, and names once their folder was. A failed synchronisation discards the data that it should have
// written, as on Linux: a later successful one does not write them to the disk.
class LossyDisk {
 public:
  using Contents = std::map<std::string, std::optional<std::string>>;  // by path; nullopt: a folder

  void apply(const JournalCall& call);

  // Returns what a program reads in the file.
  std::string read(const std::string& path) const;

  // Calls visit(contents) for each state that the disk may have if the power is lost now.
  void for_each_state(const std::function<void(const Contents&)>& visit) const;

 private:
  enum class Data { kept, lost, zeros, torn };

  struct Change {
    std::int64_t offset;
    std::string data;
    bool is_truncation;

    void apply(std::string& bytes, std::size_t count) const;
  };

  struct File {
    std::int64_t number = 0, changes = 0;
    std::string now, sure;
    std::vector<Change> pending;  // since the last synchronisation
    bool has_lost = false;        // a synchronisation has failed

    void change(Change made);
    void synchronise(bool succeeds);
    std::string after_loss(Data data) const;
  };

  using Names = std::map<std::string, std::shared_ptr<File>>;  // null: a folder

  struct NameChange {
    std::string folder, removed, set;
    std::shared_ptr<File> file;

    void apply(Names& names) const;
  };

  std::map<std::uint64_t, std::shared_ptr<File>> files_;
  std::map<std::uint64_t, std::string> folders_;
  Names now_, durable_;
  std::vector<NameChange> pending_;
  std::int64_t number_ = 0;

  static std::string folder_of(const std::string& path);
  std::shared_ptr<File> find(std::uint64_t inode) const;
  void change(NameChange made);
  void synchronise_names(const std::string& folder);
  static bool has_folders(const Names& names, const std::string& path);
  // Returns the results of all subsets of the pending changes. With more than six changes, it returns only the results
  // of the first n changes for every n, of each single change, and of all changes except one.
  std::vector<Names> possible_names() const;
};

void write_contents(const LossyDisk::Contents& contents, const std::filesystem::path& folder);

}  // namespace tandem::testing
