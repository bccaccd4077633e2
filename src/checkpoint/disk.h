// Durable changes to the file system, one call at a time. Every change that a save makes passes here, so that
// a test can end the process, or fill the disk, at any one of them.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata::checkpoint {

// What goes wrong, for tests. Calls count from 0.
struct SaveFaults {
  std::int64_t kill_at_call = -1;      // SIGKILL before this call; a write is first done by half
  std::int64_t full_after_bytes = -1;  // writes beyond this many bytes fail as on a full disk
  std::int64_t free_bytes = -1;        // what the disk is said to have free
  bool flip_bit = false;               // after a save, one bit of its largest file is wrong
  std::function<void(std::string_view what, const std::string& path)> before_call = {};
};

class Disk {
 public:
  Disk() = default;
  explicit Disk(SaveFaults faults) : faults_(std::move(faults)) {}

  // Every failure is an Error: "cannot WHAT PATH: why".
  void make_folder(const std::string& path);
  void rename(const std::string& from, const std::string& to);
  void sync_folder(const std::string& path);
  void remove_file(const std::string& path);
  // First out of sight, under a name that no reader looks for, then file by file.
  void remove_folder(const std::string& path);
  // Bytes that this user can still write below `folder`.
  std::int64_t free_bytes(const std::string& folder) const;
  // The fault flip_bit, in the middle of a file.
  bool flips_bits() const { return faults_.flip_bit; }
  void flip_bit(const std::string& file);

  // A new file, written front to back. finish() makes it durable; without it the file is of no use.
  class File {
   public:
    File(Disk& disk, const std::string& path);
    ~File();
    File(const File&) = delete;
    void write(std::span<const std::byte> bytes);
    void finish();

   private:
    Disk& disk_;
    std::string path_;
    int descriptor_ = -1;
  };

 private:
  void call(std::string_view what, const std::string& path);
  bool is_last_call() const { return faults_.kill_at_call == calls_; }
  void remove_contents(const std::string& path);

  SaveFaults faults_;
  std::int64_t calls_ = 0, written_ = 0;
};

// An existing file, read at any place. InputError where it cannot be opened or is no regular file.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  const std::string& path() const { return path_; }
  std::int64_t size() const { return size_; }  // when it was opened
  // Fills `to` from byte `at` on. InputError where the file ends before, or the disk fails.
  void read(std::int64_t at, std::span<std::byte> to) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

}  // namespace strata::checkpoint
